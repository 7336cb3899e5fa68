"""Starting and ending child processes."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager

import psutil


@contextmanager
def without_main() -> Iterator[None]:
    """Start processes of multiprocessing that do not run this program's script again, which they
    would do to know what it defines: a worker needs none of it, and a script without a
    ``__main__`` guard would start over.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def kill_children(name: str) -> None:
    """End the child processes whose name contains ``name``."""
    for child in psutil.Process().children():
        try:
            if name in child.name():
                child.kill()
        except psutil.NoSuchProcess:
            continue
