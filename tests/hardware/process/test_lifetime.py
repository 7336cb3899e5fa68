"""Workers end with their parent, however it ends, also by kill -9, and leave nothing behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

import rltrain
from tests.hardware.process import faults
from tests.hardware.process.test_process_rollout import PROCESS, SMALL

HANG = """
import sys, rltrain
from tests.hardware.process import faults
words = [*sys.argv[2:], "env.timeout=1000"]
trainer = rltrain.make_trainer(words, run_dir="run", env=getattr(faults, sys.argv[1]))
trainer.run(5)
print(*trainer.rollout.call("get_pid"), flush=True)
trainer.run(10_000)
"""


def shared_names():
    """What lies in the folder of named shared memory."""
    folder = Path("/dev/shm")
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def alive(pid):
    """Whether a process runs; one that was not waited for does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("env", ["Numbered", "Hangs"])
def test_workers_end_when_their_parent_is_killed(tmp_path, env):
    before = shared_names()
    environ = {**os.environ, "FAULTS": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[3])}
    words = [*SMALL, *PROCESS, "total_env_steps=1000000"]
    parent = subprocess.Popen(
        [sys.executable, "-c", HANG, env, *words], stdout=subprocess.PIPE, text=True, env=environ
    )
    pids = {int(pid) for pid in parent.stdout.readline().split()}
    assert len(pids) == 2
    while env == "Hangs" and not (tmp_path / "hung").exists():
        assert parent.poll() is None
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    until = time.monotonic() + 10
    while any(map(alive, pids)):
        assert time.monotonic() < until, "workers outlive their parent"
    assert shared_names() <= before


@pytest.mark.slow
def test_a_closed_trainer_has_no_workers(tmp_path):
    before = shared_names()
    run = rltrain.make_trainer([*SMALL, *PROCESS], run_dir=tmp_path / "run", env=faults.Numbered)
    run.run(10)
    pids = set(run.rollout.call("get_pid"))
    assert os.getpid() not in pids
    run.close()
    assert not any(map(alive, pids))
    assert shared_names() <= before


@pytest.mark.slow
@pytest.mark.parametrize("stopped", ["nothing", "workers", "fork server and workers"])
def test_no_worker_and_no_shared_memory_outlives_a_killed_run(small, own_folder, stopped):
    dropped = ("env=", "total", "buffer", "logger", "test.interval")
    words = [word for word in small if not word.startswith(dropped)]
    words += ["algo=dqn", "hardware=process", "hardware.n_workers=2", "total_env_steps=1000000"]
    words += ["env=cartpole", "test.interval=1000000", "hydra.run.dir=run", "logger=[csv]"]
    before = shared_names()
    command = [sys.executable, "-m", "rltrain", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if line.startswith("train "):
            break
    children = psutil.Process(process.pid).children(recursive=True)
    (fork_server,) = (child for child in children if child.children())
    workers = fork_server.children()
    assert len(workers) == 2
    for child in [*workers, fork_server]:
        if (child is not fork_server and "workers" in stopped) or "server" in stopped:
            child.suspend()
    process.kill()
    process.wait()
    process.stdout.close()
    _, alive = psutil.wait_procs([*workers, fork_server], timeout=5)
    for child in alive:
        child.kill()
    assert alive == []
    assert shared_names() <= before
