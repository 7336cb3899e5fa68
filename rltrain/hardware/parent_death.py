"""Ending with the parent process."""

from __future__ import annotations

import ctypes
import signal
import sys

PR_SET_PDEATHSIG = 1
"""Of prctl.h."""


def kill_with_parent(kill: bool = True) -> None:
    """Let the kernel kill this process, even a stopped one, when the thread that started it ends,
    or no longer. Only Linux can do that.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL if kill else 0)
