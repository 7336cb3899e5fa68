"""Compiler options, random streams and lengths of the battle engine's kernels.

Kernels call each other across files, so all are compiled again when one of their files changes.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from rltrain.battles.engine.compile_cache import cache_folder, compiled


def njit(*, allocates: bool = False, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """``numba.njit`` for the kernels of the battle engine.

    Small helpers of the inner loops add ``forceinline=True``: passing array arguments costs more
    than what they do (measured: 13% of a step). Code that makes no array needs no reference
    counts; keeping them, atomically, for every part of an array took 10% of a step.
    """
    return partial(compiled, folder=cache_folder(), _nrt=allocates, **options)


# Every constant of the inner loops is float32: one float64 would promote whole expressions.
F = np.float32
_TO_UNIT = F(1.0 / (1 << 24))


@njit(inline="always")
def draw(rng, e):
    """Uniform float32 in [0, 1) from the xorshift64* stream of battle e; ``rng`` is uint64 [E]."""
    s = rng[e]
    s ^= s >> np.uint64(12)
    s ^= s << np.uint64(25)
    s ^= s >> np.uint64(27)
    rng[e] = s
    return F((s * np.uint64(2685821657736338717)) >> np.uint64(40)) * _TO_UNIT


@njit(inline="always")
def squared(dx, dy):
    """Squared length of a vector."""
    return dx * dx + dy * dy


@njit(inline="always")
def shuffle(items, n, rng, e):
    """Put the first n items into random order (Fisher-Yates)."""
    for k in range(n - 1, 0, -1):
        m = int(draw(rng, e) * F(k + 1))
        items[k], items[m] = items[m], items[k]


@njit()
def seed_stream(seed):
    """State of a random stream, never 0, from any uint64 seed (splitmix64)."""
    s = seed + np.uint64(0x9E3779B97F4A7C15)
    s = (s ^ (s >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    s = (s ^ (s >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    s ^= s >> np.uint64(31)
    return s if s != np.uint64(0) else np.uint64(1)
