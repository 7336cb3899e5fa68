"""What displays read about a run: its activity, and the time that activities took."""

import logging
import re
from contextlib import contextmanager

import numba
import pytest
from numba.core import event

from rltrain.common.progress import COMPILING, Progress
from rltrain.kernels.compilation import CompileListener


def test_an_activity_is_named_counted_and_over():
    progress = Progress()
    with progress.during("testing", 32):
        progress.report(12, 32)
        assert str(progress.activity) == "testing 12/32 episodes"
        with progress.during("saving"):
            assert str(progress.activity) == "saving"
        assert str(progress.activity) == "testing 12/32 episodes"
        assert progress.seconds == 0.0  # only outermost activities count
    assert progress.activity is None
    assert progress.seconds > 0.0


def test_an_activity_that_fails_is_over_too():
    progress = Progress()
    with pytest.raises(ValueError, match="on purpose"), progress.during("saving"):
        raise ValueError("on purpose")
    assert progress.activity is None


@contextmanager
def listening(*listeners):
    """Context in which they hear of Numba's compilations."""
    for each in listeners:
        event.register("numba:compile", each)
    try:
        yield
    finally:
        for each in listeners:
            event.unregister("numba:compile", each)


def test_compiling_is_announced_once_and_over_when_it_returns(caplog):
    progress, seen = Progress(), []
    listener = CompileListener(progress)

    class Spy(event.Listener):
        def on_start(self, event):
            seen.append(str(progress.activity))

        def on_end(self, event):
            pass

    numba.njit(lambda x: x)(1)  # the announcement of a run in this process, if there was one
    caplog.clear()
    with listening(listener, Spy()), caplog.at_level(logging.WARNING, logger="rltrain"):
        for k in (1, 2):
            numba.njit(lambda x, k=k: x + k)(1)
    assert seen == [COMPILING] * 2
    assert progress.activity is None
    assert [r.getMessage()[:23] for r in caplog.records] == ["compiling machine code:"]


def test_a_long_compilation_says_how_far_it_is(caplog, monkeypatch):
    listener = CompileListener(Progress())
    monkeypatch.setattr("rltrain.kernels.compilation.PERIOD", 0)
    with listening(listener), caplog.at_level(logging.INFO, logger="rltrain"):
        numba.njit(lambda x: x - 1)(1)
    assert re.search(r"compiling the environment: 1 functions in \d+ s", caplog.text)
