"""Announces that Numba compiles: it takes up to two minutes, once for an installation."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import numba
from numba.core import event

from rltrain.common.progress import Progress, compiling

log = logging.getLogger("rltrain")


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


class CompileListener(event.Listener):
    """Listens for compiled functions; those loaded from Numba's cache are no events."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.announced = False
        self.open: list[AbstractContextManager[None]] = []  # one per function being compiled

    def on_start(self, event: Any) -> None:
        if not self.announced:
            self.announced = True
            log.warning("compiling machine code: up to two minutes, once for this installation.")
        self.open.append(self.progress.during("compiling, once for this installation"))
        self.open[-1].__enter__()

    def on_end(self, event: Any) -> None:
        self.open.pop().__exit__(None, None, None)
