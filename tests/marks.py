"""Marks of parametrized tests."""

import itertools
import random
from collections.abc import Collection, Iterable
from typing import Any

import pytest


def slow_except(fast: Collection[Any], values: Iterable[Any]) -> list[Any]:
    """``values`` as parameters of a test, marked slow unless they are in ``fast``."""
    return [v if v in fast else pytest.param(v, marks=pytest.mark.slow) for v in values]


def each_once(at_least: int = 1, /, **axes: Iterable[Any]) -> pytest.MarkDecorator:
    """Parametrize a test by all combinations of some arguments. Not slow are as few of them as have
    every value of every argument, and ``at_least`` so many: a fixed sample.
    """
    values = [list(axis) for axis in axes.values()]
    rng, n_fast = random.Random(0), max(at_least, *map(len, values))
    columns = [list(itertools.islice(itertools.cycle(range(len(v))), n_fast)) for v in values]
    for column in columns:
        rng.shuffle(column)
    fast = set(zip(*columns, strict=True))
    rows = [
        pytest.param(
            *(axis[i] for axis, i in zip(values, row, strict=True)),
            id="-".join(name_of(axis[i], i) for axis, i in zip(values, row, strict=True)),
            marks=() if row in fast else pytest.mark.slow,
        )
        for row in itertools.product(*(range(len(axis)) for axis in values))
    ]
    return pytest.mark.parametrize(list(axes), rows)


def name_of(value: Any, index: int) -> str:
    """The part of a test's name that stands for a value."""
    if isinstance(value, list | tuple) and all(isinstance(word, str) for word in value):
        return " ".join(value)
    name = getattr(value, "__name__", value)
    return str(name) if isinstance(name, str | int | float | None) else str(index)
