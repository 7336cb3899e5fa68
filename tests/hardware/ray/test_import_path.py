"""Where Ray's workers import modules from, with a stand-in for Ray."""

import importlib
import sys
from types import ModuleType, SimpleNamespace

import pytest

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


def test_a_worker_is_in_the_folder_of_the_run(started, tmp_path):
    """Typed modules may lie there."""
    (tmp_path / "run").mkdir()
    for folder in ("run", "absent"):
        started[1].RayWorker(str(tmp_path / folder), None, None)
        assert (tmp_path / "run").samefile(".")
