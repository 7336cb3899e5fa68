"""Marks of parametrized tests."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def slow_except(fast: Collection[Any], values: Iterable[Any]) -> list[Any]:
    """``values`` as parameters of a test, marked slow unless they are in ``fast``."""
    return [v if v in fast else pytest.param(v, marks=pytest.mark.slow) for v in values]
