"""Workers on a Ray cluster of several simulated nodes, whatever happens to actors and nodes; and
with a stand-in for Ray: where its workers import modules from, and signals.
"""

import importlib
import os
import signal
import subprocess
import sys
import time
from contextlib import closing, nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import psutil
import pytest

import rltrain
from rltrain.callback import Callback
from rltrain.common.checkpoint import newest_full
from rltrain.errors import SIGNAL_CODES, UsageError
from rltrain.hardware.device import available_cores
from tests.hardware.process import faults
from tests.hardware.process.test_process_rollout import SMALL, require_whole_episodes, trained
from tests.helpers import python, require_same

STORE = 100_000_000


@pytest.fixture(scope="module")
def cluster():
    """A head without CPUs and three nodes of two."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    import rltrain.hardware.ray.cluster  # noqa: F401  sets Ray's variables

    head = {"num_cpus": 0, "object_store_memory": STORE, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=head)
    made.nodes = [made.add_node(num_cpus=2, object_store_memory=STORE) for _ in range(3)]
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


RAY = ["hardware=ray", "hardware.n_workers=2", "hardware.worker_cpus=1"]


class Kills(Callback):
    """Ends five actors and a node at random moments."""

    def __init__(self, cluster):
        self.cluster, self.rng = cluster, np.random.default_rng(0)
        self.due = sorted(self.rng.integers(100, 1700, 6).tolist())
        self.ended = self.lost = 0

    def on_collect(self, trainer, value):
        self.lost += int(value.lost.sum())
        return value

    def on_iteration(self, trainer, value=None):
        if self.due and trainer.clock.env_steps >= self.due[0]:
            self.due.pop(0)
            self.ended += 1
            if self.ended == 3:
                self.cluster.remove_node(self.cluster.nodes[0], allow_graceful=False)
            else:
                pids = trainer.rollout.call("get_pid")
                os.kill(pids[self.rng.integers(len(pids))], signal.SIGKILL)
        return value


@pytest.mark.slow
def test_actors_collect_what_one_process_collects(cluster, tmp_path):
    words = [*SMALL, "env=cartpole"]
    local = trained(words, tmp_path / "local")
    require_same(local, trained([*words, *RAY], tmp_path / "ray"))


@pytest.mark.slow
def test_actors_start_where_the_resources_are_that_they_ask_for(cluster, tmp_path):
    place = cluster.add_node(num_cpus=2, resources={"simulator": 2}, object_store_memory=STORE)
    words = [*SMALL, *RAY, "hardware.n_envs=2", "+hardware.worker_resources.simulator=1"]
    trainer = rltrain.make_trainer(words, run_dir=tmp_path / "run", env=faults.Numbered)
    try:
        trainer.run(20)
        pids = trainer.rollout.call("get_pid")
        raylet = psutil.Process(place.all_processes["raylet"][0].process.pid)
        assert set(pids) <= {child.pid for child in raylet.children(recursive=True)}
    finally:
        trainer.close()
        cluster.remove_node(place)


@pytest.mark.slow
def test_a_cluster_without_room_for_all_workers_is_warned_of(cluster, caplog):
    from rltrain.hardware.ray.cluster import connect

    connect(cluster.address, {"CPU": 1.0})
    assert caplog.text == ""
    connect(cluster.address, {"CPU": 999.0, "simulator": 1.0})
    assert "999 CPU" in caplog.text
    assert "1 simulator (there: 0)" in caplog.text


@pytest.mark.slow
def test_a_run_survives_a_node_and_five_actors(cluster, tmp_path):
    kept = [w for w in SMALL if not w.startswith(("total_env_steps", "hardware.n_envs"))]
    words = [*kept, *RAY, "hardware.n_envs=4", "total_env_steps=2000", "env.timeout=30"]
    kills = Kills(cluster)
    parts = {"env": faults.Numbered, "callbacks": [kills]}
    with closing(rltrain.make_trainer(words, run_dir=tmp_path / "run", **parts)) as trainer:
        trainer.train()
        assert kills.ended == 6
        assert kills.lost >= 5 * 2  # two environments of every actor that was ended
        assert 2000 <= trainer.clock.env_steps < 2000 + 4
        require_whole_episodes(trainer)
        for parameter in trainer.learner.online.parameters():
            assert parameter.isfinite().all()
        assert store_bytes() < 5_000_000


def store_bytes():
    """What the object stores of all nodes hold."""
    from ray._private.internal_api import memory_summary

    words = memory_summary(stats_only=True).splitlines()
    (line,) = [w for w in words if w.startswith("Plasma memory usage")]
    return float(line.split()[3]) * 2**20


def test_without_ray_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"hardware=ray needs ray, .*pip install 'ray"):
        rltrain.make_trainer([*SMALL, *RAY, "env=cartpole"], run_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_an_address_without_a_cluster_is_refused_at_once(tmp_path):
    ray = pytest.importorskip("ray")
    ray.shutdown()
    words = [*SMALL, *RAY, "env=cartpole", "hardware.address=localhost:1"]
    with pytest.raises(UsageError, match=r"no Ray cluster answers.*ray start --head"):
        rltrain.make_trainer(words, run_dir=tmp_path / "run")


@pytest.mark.slow
def test_ray_on_this_machine_has_room_for_all_workers(tmp_path):
    ray = pytest.importorskip("ray")
    ray.shutdown()
    many = f"hardware.n_workers={available_cores() + 1}"
    words = [w for w in SMALL if not w.startswith("hardware.n_envs")]
    words += ["hardware=ray", many, "hardware.n_envs=8", "env=cartpole", "total_env_steps=40"]
    trained([*words, "+hardware.worker_resources.simulator=1"], tmp_path / "run")
    ray.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "code"), SIGNAL_CODES.items())
def test_a_signal_saves_the_run_and_leaves_no_process(own_folder, name, code):
    """Defect: SIGTERM was Ray's, which ended the run with a stack dump and nothing saved."""
    pytest.importorskip("ray")
    words = [w for w in SMALL if not w.startswith("total_env_steps")]
    words += [*RAY, "env=cartpole", "total_env_steps=10_000_000", "hydra.run.dir=run"]
    run = subprocess.Popen([sys.executable, "-m", "rltrain", *words])
    try:
        for _ in range(900):
            if (own_folder / "run/metrics.jsonl").exists() or run.poll() is not None:
                break
            time.sleep(0.1)
        assert run.poll() is None
        started = psutil.Process(run.pid).children(recursive=True)
        run.send_signal(signal.Signals[name])
        assert run.wait(60) == code
        assert not psutil.wait_procs(started, timeout=30)[1]
    finally:
        run.kill()
    step = newest_full(own_folder / "run/checkpoints")
    resumed = python("-m", "rltrain", "resume=run", f"total_env_steps={step + 40}")
    assert (step > 0, resumed.returncode) == (True, 0), resumed.stderr


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
