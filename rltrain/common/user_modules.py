"""Modules of the user: those in the folder that the command was started from."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def beside_user() -> Iterator[None]:
    """Let names be imported from the present folder while one that the user typed or trusts is
    resolved.

    The folder stands last on the import path, so no module of it can hide an installed one, and
    only here, so that a missing optional package is never taken from it.
    """
    folder = os.getcwd()
    if folder in sys.path or "" in sys.path:
        yield
        return
    sys.path.append(folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
