"""Sweeps whose jobs another launcher runs: how it fails, and signals."""

import csv
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rltrain.errors import SIGNAL_CODES
from rltrain.mode.sweep.plan import read_plan
from tests.helpers import put_record, record_of

BASIC = ("-m", "hydra/launcher=basic", "hydra.sweep.dir=s")


@pytest.mark.parametrize("name", [None, *SIGNAL_CODES])
def test_a_launcher_that_ends_leaves_a_table_and_its_records(
    command, own_folder, monkeypatch, capfd, name
):
    """Defect: a traceback, or the parent killed; runs that were gone ran on in their records."""

    def job(settings, run_dir, n_jobs):
        put_record(run_dir, status="running", process=1)
        if name is None:
            raise RuntimeError("Job 7 has not\nproduced any output\n-----\na log")
        os.kill(os.getpid(), signal.Signals[name])

    monkeypatch.setattr("rltrain.mode.sweep.job.run_in_process", job)
    code = SIGNAL_CODES.get(name, 1)
    assert command(*BASIC, "env=two_step", "seed=1,2") == code
    first, second = read_plan(own_folder / "s").jobs
    assert (first.status, first.exit_code) == ("interrupted" if name else "failed", code)
    assert second.status == ("not started" if name else "failed")
    printed = capfd.readouterr()
    failed = "rltrain: hydra/launcher=basic failed: RuntimeError: Job 7 has not produced any output"
    assert printed.err.splitlines()[-1:] == ([] if name else [failed])
    assert ("1 of 2 jobs were not started" in printed.out) == bool(name)
    with Path("s/results.csv").open() as file:
        assert [row["status"] for row in csv.DictReader(file)] == [first.status, second.status]


def test_interpolations_reach_the_jobs_as_typed(command, own_folder, monkeypatch):
    """Defect: their values reached them as texts."""
    steps = []
    monkeypatch.setattr(
        "rltrain.mode.sweep.job.run_in_process",
        lambda settings, run_dir, n_jobs: steps.append(settings.plain["algo"]["exploration"]),
    )
    typed = ('algo.exploration.env_steps="${total_env_steps}"', "total_env_steps=300,310")
    command(*BASIC, *typed, "algo=dqn", "env=cartpole")
    assert [each["env_steps"] for each in steps] == [300, 310]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGUSR1", "SIGINT"])
def test_joblib_and_signals(small, own_folder, name):
    """SIGKILL ends one of its processes, the others the command."""
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher")
    words = [*small, "total_env_steps=10000000", "seed=1,2", "hydra.sweep.dir=s"]
    words += ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2"]
    driver = subprocess.Popen(
        [sys.executable, "-m", "rltrain", "-m", *words, "logger.console=true"],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    seen = set()
    for line in driver.stdout:
        seen |= {line.partition("]")[0]} if "] train" in line else set()
        if len(seen) == 2:
            break
    one = record_of(Path("s/0_seed-1"))["process"]
    os.kill(one if name == "SIGKILL" else driver.pid, signal.Signals[name])
    shown, messages = driver.communicate()
    assert driver.returncode == SIGNAL_CODES.get(name, 1)
    assert "Traceback" not in messages
    broken = "hydra/launcher=joblib failed: TerminatedWorkerError"
    assert (broken in messages) == (name == "SIGKILL")
    assert "Sweep in s" in shown
    status = "failed" if name == "SIGKILL" else "interrupted"
    found = [record_of(path.parent)["status"] for path in Path("s").glob("*/run.json")]
    assert found == [status] * 2
