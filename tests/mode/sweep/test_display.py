"""What is shown of a sweep while it runs."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from rltrain.mode.sweep.display import Lines, LiveTable
from rltrain.mode.sweep.plan import Job

ROWS = [
    {"env_steps": 0, "seconds": 0.0, "test/return_mean": 1.5, "test/win_rate": 0.25},
    {"env_steps": 250, "seconds": 60.0, "train/return_mean": 9.0},
]


@pytest.fixture
def terminal():
    return Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None)


@pytest.fixture
def table(terminal, own_folder):
    """Of three runs, one finished before; both others run, one has written rows."""
    first, second = (Job(own_folder / f"{n}_seed-{n}", ()) for n in (1, 2))
    for job in (first, second):
        job.folder.mkdir()
    (first.folder / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in ROWS))
    made = LiveTable(terminal, {job.name: 1000 for job in (first, second)}, n_jobs=3, at_once=2)
    made.begin(first)
    made.begin(second)
    yield made, first, second
    made.live.stop()


def shown(table):
    console = Console(file=io.StringIO(), width=100)
    console.print(table.table())
    return console.file.getvalue()


def test_every_running_job_has_a_line(table):
    lines = shown(table[0]).splitlines()
    (first,) = (line for line in lines if "1_seed-1" in line)
    assert first.split()[-5:] == ["25%", "1.50", "25%", "3", "min"]
    (second,) = (line for line in lines if "2_seed-2" in line)
    assert "starting" in second
    assert any("1 of 3 runs finished" in line and "about 3 min left" in line for line in lines)


def test_how_a_job_ended_stays_above_the_table(table, terminal):
    made, first, second = table
    (first.folder / "run.json").write_text('{"status": "finished"}')
    (second.folder / "run.json").write_text('{"status": "failed"}')
    made.end(first)
    made.end(second)
    written = terminal.file.getvalue()
    assert "1_seed-1: finished, return 1.50, win rate 25%" in written
    assert "2_seed-2: failed" in written
    assert made.summary([]).startswith("2 of 3 runs finished, 1 failed, 0:00:0")


def test_a_warning_of_several_jobs_is_shown_once(table, terminal):
    made, first, second = table
    for job in (first, second):
        made.line(job, f"[{job.name}] warning: too few envs", "stderr")
        made.line(job, f"[{job.name}] train 100 env steps", "stdout")
    written = terminal.file.getvalue()
    assert written.count("warning: too few envs") == 1
    assert "train 100" not in written


def test_without_a_terminal_every_line_of_a_job_is_passed_on(own_folder):
    out, errors = (Console(file=io.StringIO(), width=40) for _ in range(2))
    job = Job(own_folder / "0_seed-1", ())
    lines = Lines(out, errors)
    lines.line(job, "[0_seed-1] test " + "x" * 50, "stdout")
    lines.line(job, "[0_seed-1] warning: y", "stderr")
    assert out.file.getvalue() == "[0_seed-1] test " + "x" * 50 + "\n"
    assert errors.file.getvalue() == "[0_seed-1] warning: y\n"
