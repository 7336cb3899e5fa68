"""The learner is compiled in another process where that is of use, and waited for."""

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import ClassVar

import pytest

from rltrain.common.progress import compiling
from rltrain.kernels import ahead


class Process:
    """One that is over when it is waited for."""

    begun: ClassVar[list[list[str]]] = []
    activities: ClassVar[list[str]] = []

    def __init__(self, command, **streams):
        self.begun.append(command)

    def wait(self):
        self.activities.append(str(compiling.activity))


@pytest.fixture(autouse=True)
def processes(monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", Process)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr(ahead, "_begun", {})
    Process.begun.clear()
    Process.activities.clear()


def kernel(folder):
    return SimpleNamespace(
        py_func=test_what_is_not_compiled_is_begun_once_and_waited_for_once,
        stats=SimpleNamespace(cache_path=str(folder)),
    )


def test_what_is_not_compiled_is_begun_once_and_waited_for_once(tmp_path):
    for _ in range(2):
        ahead.compile_ahead("sequence_step", kernel(tmp_path))
    assert Process.begun == [[sys.executable, "-m", "rltrain.kernels", "sequence_step"]]
    for _ in range(2):
        ahead.wait("sequence_step")
    assert Process.activities == ["compiling, once for this installation"]


def test_nothing_is_begun_that_is_compiled_or_cannot_be_shared_or_with_one_core(
    tmp_path, monkeypatch
):
    name = kernel(tmp_path).py_func.__qualname__
    (tmp_path / f"test_ahead.{name}-1.py311.1.nbc").touch()
    ahead.compile_ahead("sequence_step", kernel(tmp_path))
    ahead.compile_ahead("sequence_step", kernel(tmp_path / "rltrain-numba-a1b2" / "kernels"))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})
    ahead.compile_ahead("sequence_step", kernel(tmp_path / "empty"))
    ahead.wait("sequence_step")
    assert Process.begun == []
