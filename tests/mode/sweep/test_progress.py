"""How far a job is, and the time to go of a sweep."""

from __future__ import annotations

import json

import pytest

from rltrain.mode.sweep.progress import Progress, left_of_sweep


def append(path, *rows):
    with path.open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def row(env_steps, seconds, **metrics):
    return {"env_steps": env_steps, "seconds": seconds, **metrics}


def test_new_rows_are_read_as_they_come(own_folder):
    path = own_folder / "metrics.jsonl"
    progress = Progress(path, 1000)
    progress.update()
    assert (progress.share, progress.left) == (0.0, None)
    append(path, row(0, 0.0, test=1.0), row(100, 2.0))
    with path.open("a") as file:
        file.write('{"env_steps": 2')  # being written
    progress.update()
    assert progress.share == 0.1
    assert progress.left == pytest.approx(18.0)
    with path.open("a") as file:
        file.write('00, "seconds": 4.0, "test": null}\n')
    progress.update()
    assert (progress.latest["env_steps"], progress.latest["test"]) == (200, 1.0)


def test_rows_that_a_resumed_run_cut_off_do_not_count(own_folder):
    path = own_folder / "metrics.jsonl"
    progress = Progress(path, 1000)
    append(path, row(0, 0.0), row(800, 1.0))
    progress.update()
    path.write_text("")
    append(path, row(100, 10.0))
    progress.update()
    assert progress.latest["env_steps"] == 100
    assert progress.left is None


@pytest.mark.parametrize(
    ("running", "durations", "waiting", "at_once", "left"),
    [
        ([None, None], [], 4, 2, None),
        ([10.0, 20.0], [], 0, 2, 20.0),
        ([10.0, None], [30.0], 0, 2, 30.0),
        ([10.0, 10.0], [30.0], 4, 2, 70.0),
    ],
)
def test_the_time_to_go_counts_jobs_that_wait(running, durations, waiting, at_once, left):
    assert left_of_sweep(running, durations, waiting, at_once) == left
