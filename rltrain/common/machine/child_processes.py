"""Starting and ending child processes, and ending with the parent process."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import types
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing import parent_process
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any

import psutil

from rltrain.common.imports import SAFE_PATH, import_path
from rltrain.errors import SIGNAL_CODES

PR_SET_PDEATHSIG = 1
"""The constant in prctl.h."""
EXIT_TIMEOUT = 5.0
"""Seconds in which a child process must end."""


@contextmanager
def without_main() -> Iterator[None]:
    """Start processes of multiprocessing that do not run this program's script again, which they
    would do to know what it defines: a worker needs none of it, and a script without a
    ``__main__`` guard would start over.
    """
    main, before = sys.modules["__main__"], os.environ.get(SAFE_PATH)
    sys.modules["__main__"] = types.ModuleType("__main__")
    os.environ.update(import_path())
    try:
        yield
    finally:
        sys.modules["__main__"] = main
        os.environ.pop(SAFE_PATH, None)
        if before is not None:
            os.environ[SAFE_PATH] = before


def kill_children(name: str) -> None:
    """End the child processes whose name contains ``name``."""
    for child in psutil.Process().children():
        try:
            if name in child.name():
                child.kill()
        except psutil.NoSuchProcess:
            continue


def kill_group(process: BaseProcess) -> None:
    """End a child process that leads a group, and the processes that it has started."""
    assert process.pid, "a process that never started"  # 0 would be this process's own group
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # not yet the leader of a group
        process.kill()
    process.join(EXIT_TIMEOUT)
    if process.exitcode is not None:
        process.close()  # frees its file descriptor


def kill_with_parent(kill: bool = True) -> None:
    """Let the kernel kill this process with the thread that started it, or not; on Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL if kill else 0)


def end_with_parent() -> None:
    """Leave signals to the parent, lead a process group, and end with the parent, even inside a
    step.
    """
    leave_signals()
    lead_group(signal.SIGKILL)


def leave_signals() -> None:
    """Outlive the signals that end a run, which a cluster sends to all its processes. Processes
    and programs that this one starts ignore only Ctrl-C.
    """

    def set_all(handler: Any) -> None:
        for name in SIGNAL_CODES:
            signal.signal(signal.Signals[name], handler)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    set_all(lambda *_: None)
    os.register_at_fork(after_in_child=partial(set_all, signal.SIG_DFL))


def lead_group(number: int) -> None:
    """Lead a process group, which gets this signal when the parent ends."""
    os.setsid()
    parent = parent_process()
    if parent is not None:
        at_end = (parent.sentinel, number)
        threading.Thread(target=_signal_after, args=at_end, daemon=True).start()


def _signal_after(sentinel: int, number: int) -> None:
    wait([sentinel])
    os.killpg(0, number)
