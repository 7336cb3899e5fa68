"""Programs on the nodes of a cluster: lines, signals, lost nodes, and sweeps of them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from rltrain.errors import UsageError

WAITS = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))
print(os.getppid(), flush=True)
time.sleep(60)
"""


def program(folder, code, needed="sweep.json"):
    """Python code on a node."""
    from rltrain.hardware.ray.programs import RemoteProgram

    (folder / "sweep.json").touch()
    return RemoteProgram(
        ["-c", code], folder=str(folder), needed=str(folder / needed), cpus=1, gpus=0
    )


@pytest.mark.slow
def test_lines_and_exit_code_come_back(cluster, tmp_path):
    code = "import sys; print('one'); print('two'); print('bad', file=sys.stderr); sys.exit(4)"
    ours = program(tmp_path, code)
    assert list(ours.stdout) == ["one", "two"]
    assert list(ours.stderr) == ["bad"]
    assert ours.wait() == 4


@pytest.mark.slow
def test_a_signal_reaches_the_program(cluster, tmp_path):
    ours = program(tmp_path, WAITS)
    assert next(iter(ours.stdout)).isdigit()
    ours.terminate()
    assert ours.wait() == 143


@pytest.mark.slow
def test_a_program_whose_node_is_lost_counts_as_killed(cluster, tmp_path):
    ours = program(tmp_path, WAITS)
    os.kill(int(next(iter(ours.stdout))), signal.SIGKILL)
    assert ours.wait() == -signal.SIGKILL
    assert "its node was lost" in "".join(ours.stderr)


@pytest.mark.slow
def test_a_program_ends_with_the_process_that_started_it(cluster, tmp_path):
    import ray

    ours = program(tmp_path, "import os, time; print(os.getpid(), flush=True); time.sleep(60)")
    process = psutil.Process(int(next(iter(ours.stdout))))
    ray.kill(ours.actor)
    process.wait(30)


@pytest.mark.slow
def test_a_node_that_does_not_see_the_folder_refuses_the_job(cluster, tmp_path):
    ours = program(tmp_path, "print('begun')", needed="elsewhere.json")
    assert "does not see" in "".join(ours.stderr)
    assert list(ours.stdout) == []
    assert ours.wait() == 2


@pytest.mark.slow
def test_a_sweep_on_a_cluster_makes_the_runs_of_one_on_this_machine(
    cluster, command, small, own_folder, capfd
):
    words = ["-m", *small, "seed=1,2,3", "logger.console=true"]
    assert command(*words, "sweep.jobs=1", "hydra.sweep.dir=here") == 0
    assert command(*words, f"sweep.address={cluster.address}", "hydra.sweep.dir=there") == 0
    shown = capfd.readouterr()
    assert f"3 runs, 3 at once, on the Ray cluster {cluster.address}" in shown.out
    assert "[1_seed-2] test " in shown.out
    weights = sorted(Path("here").glob("*/checkpoints/*/model.safetensors"))
    assert len(weights) >= 3
    for path in weights:
        assert (Path("there") / path.relative_to("here")).read_bytes() == path.read_bytes()


def test_without_ray_the_extra_is_named(command, small, own_folder, monkeypatch):
    monkeypatch.setattr("rltrain.mode.sweep.cluster.is_installed", lambda name: False)
    with pytest.raises(UsageError, match=r"sweep\.address=auto needs ray.*pip install 'ray"):
        command("-m", *small, "seed=1,2", "sweep.address=auto")
