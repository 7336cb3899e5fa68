"""Compiles a learner's kernels in another process, while this one compiles its environment."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from typing import Any

from rltrain.common.imports import import_path
from rltrain.common.progress import COMPILING, compiling

_begun: dict[str, subprocess.Popen[bytes]] = {}
"""Processes that have not been waited for, by what they compile."""


def compile_ahead(name: str, kernel: Any) -> None:
    """Begin ``python -m rltrain.kernels NAME``, unless ``kernel``, which that compiles last, is in
    Numba's cache, there is no cache, or no second core.
    """
    from rltrain.battles.engine.compile_cache import is_compiled

    missing = kernel.stats.cache_path is not None and not is_compiled(kernel)
    several = not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) > 1
    if missing and name not in _begun and several:
        _begun[name] = subprocess.Popen(
            [sys.executable, "-m", "rltrain.kernels", name],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **import_path()},
        )
        atexit.register(_begun[name].kill)  # of a run that was stopped meanwhile


def wait(name: str) -> None:
    """Wait until they are compiled; whatever the process did not compile, this one will."""
    if (process := _begun.pop(name, None)) is not None:
        with compiling.during(COMPILING):
            process.wait()
