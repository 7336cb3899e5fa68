"""rltrain -m: one run per combination of values."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rltrain.common.files import get_json
from rltrain.errors import CheckpointError, UsageError
from tests.helpers import foreign_modules, python, without
from tests.pages import ROOT


@pytest.fixture(autouse=True)
def importable_tests(monkeypatch):
    """Jobs are processes of their own, in another folder."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def records(sweep="s"):
    """The ``run.json`` of every job, in order."""
    return [get_json(path) for path in sorted(Path(sweep).glob("*/run.json"))]


@pytest.mark.slow  # two more processes
def test_a_sweep_has_its_name_and_imports_nothing_of_the_present_folder(command, small, own_folder):
    executed = foreign_modules(own_folder)
    words = [*small, "seed=1,2", "total_env_steps=40", "name=mine", "sweep.jobs=1"]
    assert command("-m", *words) == 0
    (sweep,) = (own_folder / "outputs/multirun").iterdir()
    assert sweep.name.endswith("-mine")
    assert not executed.exists(), executed.read_text()


@pytest.mark.parametrize(
    "launcher", [pytest.param([], marks=pytest.mark.slow), ["hydra/launcher=basic"]]
)
def test_a_sweep_makes_one_run_per_combination(command, small, own_folder, capfd, launcher):
    overrides = [*small, "algo=vdn,iql", "total_env_steps=40", "logger.console=true", *launcher]
    assert command("-m", *overrides) == 0
    (sweep,) = own_folder.glob("outputs/multirun/*")
    assert [path.parent.name for path in sorted(sweep.glob("*/run.json"))] == [
        "0_algo-vdn",
        "1_algo-iql",
    ]
    listed = get_json(sweep / "sweep.json")
    assert listed["overrides"] == sorted(w for w in overrides if w not in launcher)
    config = get_json(sweep / "1_algo-iql/config.json")
    assert (config["choices"]["algo"], "sweep" in config) == ("iql", False)
    shown = capfd.readouterr().out
    assert "job 2 of 2: iql on two_step, seed 0" in shown
    assert all(f"[{name}] test " in shown for name in ("0_algo-vdn", "1_algo-iql"))


@pytest.mark.slow
def test_each_run_equals_the_single_run_and_the_sweep_goes_on(command, small):
    assert command("-m", *small, "seed=1,2", "hydra.sweep.dir=s") == 0
    assert command(*small, "seed=2", "hydra.run.dir=alone") == 0
    ours, alone = (get_json(Path(f"{run}/run.json")) for run in ("s/1_seed-2", "alone"))
    assert ours["final_test"] == alone["final_test"]
    ours, alone = (get_json(Path(f"{run}/config.json")) for run in ("s/1_seed-2", "alone"))
    assert ours == alone
    assert command("resume=s") == 0
    assert all(record["resumes"] == [] for record in records())
    assert command("resume=s", "total_env_steps=400", "sweep.jobs=1") == 0
    assert all(record["env_steps"] >= 400 for record in records())
    assert command("resume=s", "total_env_steps=400") == 0
    assert all(len(record["resumes"]) == 1 for record in records())


@pytest.mark.slow
def test_a_job_that_cannot_be_built_is_recorded_and_the_others_run(command, small, capfd):
    sweep = ["buffer.capacity=4,64", "total_env_steps=40", "hydra.sweep.dir=s"]
    base = without(small, "buffer.capacity")
    for _ in range(2):  # the same command tries it again
        assert command("-m", *base, *sweep) == 2
        first, second = records()
        assert (first["status"], first["exit_code"]) == ("failed", 2)
        assert (second["status"], second["resumes"]) == ("finished", [])
        assert "buffer.capacity" in first["error"]
        assert "rltrain: 0_buffer.capacity-4: " in capfd.readouterr().err
    with pytest.raises(UsageError, match="holds another sweep"):
        command("-m", *base, *sweep, "seed=1,2")


@pytest.mark.slow
def test_an_interrupted_job_is_resumed_by_the_same_command(command, small, capfd):
    stops = "callbacks=[{_target_: tests.helpers.Terminated}]"
    sweep = ["-m", *small, "seed=1,2", stops, "hydra.sweep.dir=s"]
    assert command(*sweep) == 143
    assert [record["status"] for record in records()] == ["interrupted"] * 2
    before = [record["env_steps"] for record in records()]
    assert command(*sweep) == 143  # stops again after its next iteration
    assert all(len(record["resumes"]) == 1 for record in records())
    after = [record["env_steps"] for record in records()]
    assert all(then > steps for then, steps in zip(after, before, strict=True))
    assert "0 of 2 runs finished before" in capfd.readouterr().out
    with pytest.raises(CheckpointError, match=r"trust=\[tests\]"):
        command("resume=s")
    assert command("resume=s", "callbacks=[]") == 0
    assert [record["status"] for record in records()] == ["finished"] * 2


@pytest.mark.slow
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGUSR1", 85)])
def test_a_signal_to_the_command_lets_every_run_save(small, own_folder, name, code):
    endless = [*small, "total_env_steps=1000000", "seed=1,2,3", "hydra.sweep.dir=s", "sweep.jobs=2"]
    command = [sys.executable, "-m", "rltrain", "-m", *endless, "logger.console=true"]
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    seen = set()
    for line in driver.stdout:
        seen |= {line.partition("]")[0]} if "] train" in line else set()
        if len(seen) == 2:  # both runs have written rows
            break
    os.kill(driver.pid, signal.Signals[name])
    shown, messages = driver.communicate()
    assert driver.returncode == code
    assert [record["status"] for record in records()] == ["interrupted"] * 2
    assert all(Path(f"s/{n}_seed-{n + 1}/checkpoints/latest").exists() for n in (0, 1))
    assert "1 of 3 jobs were not started" in shown
    assert "stop after their current iteration and save" in messages


@pytest.mark.slow
def test_when_the_command_is_killed_its_runs_save_and_the_same_command_goes_on(small, own_folder):
    endless = [*small, "total_env_steps=1000000", "seed=1,2", "hydra.sweep.dir=s"]
    command = [sys.executable, "-m", "rltrain", "-m", *endless, "logger.console=true"]
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert any("] train" in line for line in driver.stdout)
    driver.kill()
    driver.communicate()
    assert python("-m", "rltrain", "resume=s", "stop.hours=1e-6").returncode == 0
    found = records()
    assert [record["status"] for record in found] == ["finished"] * 2
    assert any(len(record["resumes"]) == 1 for record in found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "launcher"),
    [
        ("joblib", ["joblib", "hydra.launcher.n_jobs=2"]),
        ("submitit", ["submitit_local", "hydra.launcher.timeout_min=5"]),
    ],
)
def test_other_launchers_run_and_continue_a_sweep(command, small, own_folder, module, launcher):
    pytest.importorskip(f"hydra_plugins.hydra_{module}_launcher")
    sweep = [*small, "seed=1,2", "hydra.sweep.dir=s", f"hydra/launcher={launcher[0]}", launcher[1]]
    assert python("-m", "rltrain", "-m", *sweep).returncode == 0
    assert [record["status"] for record in records()] == ["finished"] * 2
    first = Path("s/0_seed-1/run.json")
    record = json.loads(first.read_text())
    first.write_text(json.dumps({**record, "status": "interrupted"}))  # as if it was preempted
    done = python("-m", "rltrain", "-m", *sweep)
    assert done.returncode == 0
    assert [record["status"] for record in records()] == ["finished"] * 2
    assert [len(record["resumes"]) for record in records()] == [1, 0]
    assert "Continuing the sweep in s: 1 of 2 runs finished before" in done.stdout
    second = Path("s/1_seed-2/run.json")
    second.write_text(json.dumps({**json.loads(second.read_text()), "status": "interrupted"}))
    assert command("resume=s") == 0
    assert [len(record["resumes"]) for record in records()] == [1, 1]


@pytest.mark.slow
def test_commands_of_several_machines_share_a_folder(command, small, own_folder, capfd):
    """As docs/sweeps.md divides a study: a sweep each, next to each other, and one report."""
    few = without(small, "algo=")
    sweeps = [
        ["-m", *few, f"algo={algo}", "seed=1,2", f"hydra.sweep.dir={algo}", "sweep.jobs=1"]
        for algo in ("vdn", "iql")
    ]
    started = [subprocess.Popen([sys.executable, "-m", "rltrain", *words]) for words in sweeps]
    assert [one.wait() for one in started] == [0, 0]
    for algo in ("vdn", "iql"):
        assert [record["status"] for record in records(algo)] == ["finished"] * 2
    capfd.readouterr()
    assert command("mode=report", "runs='[vdn/*, iql/*]'") == 0
    assert "4 runs" in capfd.readouterr().out
