"""What kill -9 of a run leaves of its worker processes and of shared memory: nothing."""

import os
import subprocess
import sys

import psutil
import pytest


@pytest.mark.slow
@pytest.mark.parametrize("stopped", ["nothing", "workers", "fork server and workers"])
def test_no_worker_and_no_shared_memory_outlives_a_killed_run(small, own_folder, stopped):
    dropped = ("env=", "total", "buffer", "logger", "test.interval")
    words = [word for word in small if not word.startswith(dropped)]
    words += ["algo=dqn", "hardware=process", "hardware.n_workers=2", "total_env_steps=1000000"]
    words += ["env=cartpole", "test.interval=1000000", "hydra.run.dir=run", "logger=[csv]"]
    before = set(os.listdir("/dev/shm"))
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
    assert set(os.listdir("/dev/shm")) <= before
