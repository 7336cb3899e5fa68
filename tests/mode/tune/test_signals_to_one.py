"""Signals to the first process of a study with several ones."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

pytest.importorskip("optuna")

from tests.marks import slow_except

pytestmark = pytest.mark.usefixtures("no_nohup")

CODES = {"SIGUSR1": 85, "SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129, "SIGKILL": -9}
STUDY = [
    *("mode=tune", "algo=dqn", "env=cartpole", "total_env_steps=1e6", "test.interval=200"),
    *("test.episodes=1", "test.n_envs=1", "algo.learning_starts=50", "hardware.threads=1"),
    *("logger=[]", "tune.dir=study", "tune.jobs=2", "tune.trials=3"),
]


def wait(until, seconds=120):
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize("moment", ["begun", "importing"])
@pytest.mark.parametrize("name", slow_except([], [*CODES]))
def test_all_processes_stop_and_the_code_is_that_of_the_signal(name, moment, own_folder):
    """Defects: Ctrl-C was ignored, SIGUSR1 and SIGKILL left the workers running, and SIGTERM
    while they were importing ended with 241.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "rltrain", *STUDY], stdout=-3, stderr=subprocess.PIPE, text=True
    )
    main = psutil.Process(process.pid)
    if moment == "begun":
        wait(lambda: len([*Path("study/trials").glob("*/metrics.jsonl")]) == 2)
    else:
        wait(lambda: len(main.children()) >= 2)
    workers = main.children(recursive=True)
    os.kill(process.pid, getattr(signal, name))
    _, error = process.communicate(timeout=60)
    assert process.returncode == CODES[name]
    assert "Traceback" not in error
    wait(lambda: not any(w.is_running() and w.status() != "zombie" for w in workers), 30)


@pytest.mark.slow
def test_killed_processes_are_named(own_folder):
    process = subprocess.Popen(
        [sys.executable, "-m", "rltrain", *STUDY], stdout=-3, stderr=subprocess.PIPE, text=True
    )
    wait(lambda: len([*Path("study/trials").glob("*/metrics.jsonl")]) == 2)
    for child in psutil.Process(process.pid).children():
        if "spawn_main" in " ".join(child.cmdline()):
            child.kill()
    _, error = process.communicate(timeout=60)
    assert process.returncode == 137
    assert (
        error.count("A process was killed by SIGKILL. The same command continues its trial.") == 1
    )
