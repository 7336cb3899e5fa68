"""Where Ray's workers import modules from, and signals, with a stand-in for Ray."""

import importlib
import os
import signal
import sys
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from rltrain.errors import SIGNAL_CODES, UsageError

NAME = "rltrain.hardware.ray.cluster"


@pytest.fixture
def started(monkeypatch):
    """Options of ``ray.init``, and the module that calls it."""
    calls = []
    exceptions = ModuleType("ray.exceptions")
    exceptions.GetTimeoutError = exceptions.RayError = OSError
    ray = ModuleType("ray")
    ray.exceptions = exceptions
    ray.is_initialized = lambda: False
    ray.cluster_resources = lambda: {"CPU": 8.0}
    ray.init = lambda **options: calls.append(options)
    ray.job_config = SimpleNamespace(JobConfig=lambda **given: given)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "ray.exceptions", exceptions)
    before = sys.modules.pop(NAME, None)
    yield calls, importlib.import_module(NAME)
    del sys.modules[NAME]
    if before is not None:
        sys.modules[NAME] = before


@pytest.mark.parametrize("chosen", [True, False])
@pytest.mark.parametrize("address", [None, "local", "auto"])
def test_the_present_folder_is_searched_only_where_the_user_chose_it(
    started, monkeypatch, tmp_path, address, chosen
):
    """Defect: that of a cluster that was joined was searched first."""
    monkeypatch.setattr(sys, "path", [""] * chosen + [p for p in sys.path if p])
    calls, cluster = started
    cluster.connect(address, {"CPU": 1.0})
    assert [call["job_config"] for call in calls] == [{"_client_job": not chosen}]


@pytest.mark.parametrize(
    ("happens", "raised"),
    [
        (lambda: None, ()),
        (lambda: os.kill(os.getpid(), signal.SIGTERM), (KeyboardInterrupt, "143")),
        (lambda: Path("absent").read_text(), (UsageError, "no Ray cluster answers")),
    ],
)
def test_ray_replaces_no_handler_of_a_signal(started, monkeypatch, happens, raised):
    """Defect: after SIGTERM nothing was saved, and the exit code was 134."""

    def init(**options):
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(number))
        happens()

    def handlers():
        return [signal.getsignal(signal.Signals[name]) for name in SIGNAL_CODES]

    monkeypatch.setattr(sys.modules["ray"], "init", init)
    before = handlers()
    with pytest.raises(raised[0], match=raised[1]) if raised else nullcontext():
        started[1].connect(None, {"CPU": 1.0})
    assert handlers() == before


def test_a_worker_is_in_the_folder_of_the_run(started, tmp_path):
    """Typed modules may lie there."""
    (tmp_path / "run").mkdir()
    for folder in ("run", "absent"):
        started[1].RayWorker(str(tmp_path / folder), None, None)
        assert (tmp_path / "run").samefile(".")
