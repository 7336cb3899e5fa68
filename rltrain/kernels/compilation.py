"""Announces that Numba compiles, once for each kind of network and environment; and compiles a
learner's kernels in another process, while this one compiles its environment.
"""

from __future__ import annotations

import atexit
import logging
import os
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numba
from numba.core import event

from rltrain.battles.engine.compile_cache import is_compiled
from rltrain.common.imports import import_path
from rltrain.common.progress import COMPILING, Progress, compiling

log = logging.getLogger("rltrain")
PERIOD = 10
"""Seconds between lines that say how far it is."""
_begun: dict[str, subprocess.Popen[bytes]] = {}
"""Processes that compile ahead and have not been waited for, by what they compile."""


@cache
def announce_compilation() -> None:
    """From now on log the first compilation of this process and keep ``compiling`` up to date."""
    event.register("numba:compile", CompileListener(compiling))


def compile_problem(function: Any, *arguments: Any) -> str | None:
    """Why Numba cannot compile a function of ``njit`` again, in words; None if it can."""
    try:
        numba.njit(function.py_func)(*arguments)
    except Exception as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        return f"numba {numba.__version__} cannot compile it ({reason})"
    return None


@dataclass
class CompileListener(event.Listener):
    """Listens for compiled functions; those loaded from Numba's cache are not events."""

    progress: Progress
    open: list[AbstractContextManager[None]] = field(default_factory=list)  # one per function
    n_functions: int = 0
    begin: float = 0.0
    said: float = 0.0

    def on_start(self, event: object) -> None:
        if not self.begin:
            self.begin = self.said = time.monotonic()
            log.warning(
                "compiling machine code: about a minute for each kind of network (none with "
                "hardware.kernels=torch), once if the cache folder can be written."
            )
        self.open.append(self.progress.during(COMPILING))
        self.open[-1].__enter__()

    def on_end(self, event: Any) -> None:
        self.open.pop().__exit__(None, None, None)
        self.n_functions += 1
        now = time.monotonic()
        if now - self.said > PERIOD:
            self.said = now
            module = event.data["dispatcher"].py_func.__module__
            part = "the learner" if module.startswith("rltrain.kernels") else "the environment"
            seconds = now - self.begin
            log.info("compiling %s: %d functions in %.0f s", part, self.n_functions, seconds)


def compile_ahead(name: str, kernel: Any) -> None:
    """Begin ``python -m rltrain.kernels NAME``, unless ``kernel``, which that compiles last, is in
    Numba's cache, there is no cache, or no second core.
    """
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
