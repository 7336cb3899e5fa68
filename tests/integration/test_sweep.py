"""rltrain -m: one run per combination of values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rltrain.errors import UsageError
from rltrain.mode.sweep import worst
from tests.helpers import nothing_written


def test_a_sweep_over_nothing_is_refused(command, small, own_folder):
    with pytest.raises(UsageError, match=r"no key has several.*seed=1,2,3"):
        command("-m", *small)
    assert nothing_written(own_folder)


def test_every_job_of_a_sweep_is_checked_before_the_first_begins(command, small, own_folder):
    with pytest.raises(UsageError, match=r"algo\.loss\.gamma=2"):
        command("-m", *small, "algo.loss.gamma=0.9,2")
    assert nothing_written(own_folder)


def test_a_job_that_cannot_be_built_is_recorded_and_the_others_run(command, small, capsys):
    sweep = ["buffer.capacity=4,64", "total_env_steps=40", "hydra.sweep.dir=s"]
    base = [word for word in small if not word.startswith("buffer.capacity")]
    assert command("-m", *base, *sweep) == 2
    first, second = (json.loads(p.read_text()) for p in sorted(Path("s").glob("*/run.json")))
    assert (first["status"], first["exit_code"], second["status"]) == ("failed", 2, "finished")
    assert "buffer.capacity" in first["error"]
    assert "rltrain: 0_buffer.capacity-4: " in capsys.readouterr().err
    with pytest.raises(UsageError, match="already holds runs of a sweep"):
        command("-m", *base, *sweep)


def test_an_interrupted_job_ends_its_sweep(command, small, capsys):
    stops = "callbacks=[{_target_: tests.helpers.Terminated}]"
    assert command("-m", *small, "seed=1,2,3", stops, "hydra.sweep.dir=s") == 143
    assert len(list(Path("s").glob("*/run.json"))) == 1
    assert "2 of 3 jobs were not started" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("codes", "code"), [([0, 0], 0), ([0, 130], 130), ([1, 3, 130], 3), ([2, 143], 2)]
)
def test_a_sweep_exits_with_the_worst_of_its_jobs(codes, code):
    assert worst(codes) == code


def test_a_sweep_makes_one_run_per_combination(command, small, own_folder, capsys):
    overrides = [*small, "algo=vdn,iql", "seed=1,2", "total_env_steps=40", "logger.console=true"]
    assert command("-m", *overrides) == 0
    folders = sorted(own_folder.glob("outputs/multirun/*/*/run.json"))
    names = [p.parent.name for p in folders]
    assert len(names) == 4
    assert names[0].startswith("0_algo-vdn_")
    assert all(len(n) <= 120 and not set(n) & set("=, /") for n in names)
    seeds = [json.loads((p.parent / "config.json").read_text())["seed"] for p in folders]
    assert seeds == [1, 2, 1, 2]
    shown = capsys.readouterr().out
    assert "finished" in shown
    assert "job 4 of 4: iql on two_step, seed 2" in shown
    assert all(f"[{name}] test " in shown for name in names)  # plain lines: several may run at once
