"""Numba behind one door: cache folder, standard options and the random stream of compiled code.

Numba's own cache notices a change in the file of a function but not in the files of its helpers, so
the cache folder carries a hash of the sources of all kernels and of Numba's version. Import
``njit`` and ``prange`` from here only.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np

KERNEL_FILES = (
    "avoidance",
    "combat",
    "compiled",
    "engine",
    "lanes",
    "lite_avoidance",
    "lite_combat",
    "lite_engine",
    "lite_units",
    "lite_walls",
    "lite_weapons",
    "medicine",
    "observe",
    "rooted",
    "sight",
    "surround",
    "teams",
    "terrain",
    "weapons",
    "world",
)
"""The modules whose code or constants end up in machine code."""


def sources_hash() -> str:
    """12 hex digits over the sources of all kernels and Numba's version."""
    digest = hashlib.sha256(numba.__version__.encode())
    for name in KERNEL_FILES:
        digest.update(Path(__file__).with_name(f"{name}.py").read_bytes())
    return digest.hexdigest()[:12]


def cache_folder() -> Path:
    """The user's cache folder for this version of the sources; one for this process if that cannot
    be written."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folder = Path(base).expanduser() / "rltrain" / f"numba-{sources_hash()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK)
    except OSError:
        writable = False
    return folder if writable else Path(tempfile.mkdtemp(prefix="rltrain-numba-"))


settings: Any = numba.config
settings.CACHE_DIR = str(cache_folder())  # read when a function is decorated

# IEEE division (no hidden branch, no exception path) keeps inner loops short.
_STANDARD: dict[str, Any] = {"cache": True, "error_model": "numpy"}


def njit(*, allocates: bool = False, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """``numba.njit`` with the package's cache and options.

    Small helpers of the inner loops add ``forceinline=True``: passing array arguments costs more
    than what they do (measured: 13 % of a step). Code that makes no array needs no counts of who
    holds which; keeping them, atomically, for every part of an array took 10 % of a step.
    """
    return numba.njit(**{**_STANDARD, "_nrt": allocates, **options})


prange = numba.prange
set_num_threads = numba.set_num_threads
MAX_THREADS: int = settings.NUMBA_NUM_THREADS

# Every constant of the inner loops is float32: one float64 would promote whole expressions.
F = np.float32
_TO_UNIT = F(1.0 / (1 << 24))


@njit(inline="always")
def draw(rng, e):  # type: ignore[no-untyped-def]
    """Uniform float32 in [0, 1) from battle e's own xorshift64* stream ``rng`` uint64 [E]."""
    s = rng[e]
    s ^= s >> np.uint64(12)
    s ^= s << np.uint64(25)
    s ^= s >> np.uint64(27)
    rng[e] = s
    return F((s * np.uint64(2685821657736338717)) >> np.uint64(40)) * _TO_UNIT


@njit()
def stream_of(seed):  # type: ignore[no-untyped-def]
    """A never-zero starting point of ``draw`` from any uint64 seed (splitmix64)."""
    s = seed + np.uint64(0x9E3779B97F4A7C15)
    s = (s ^ (s >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    s = (s ^ (s >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    s ^= s >> np.uint64(31)
    return s if s != np.uint64(0) else np.uint64(1)
