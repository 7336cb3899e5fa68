"""A clock that is set while a run continues."""

import itertools
import json
import time

from benchmarks.faults.runs import result_of


def test_a_clock_that_jumps_by_an_hour_changes_neither_results_nor_durations(
    command, small, own_folder, monkeypatch
):
    words = [*small, "total_env_steps=60"]
    assert command(*words, "hydra.run.dir=steady") == 0
    real, jumps = time.time, itertools.cycle([0, 3600, -3600, -7200])
    monkeypatch.setattr(time, "time", lambda: real() + next(jumps))
    assert command(*words, "hydra.run.dir=jumping") == 0
    assert result_of(own_folder / "jumping") == result_of(own_folder / "steady")
    lines = (own_folder / "jumping/metrics.jsonl").read_text().splitlines()
    seconds = [json.loads(line)["seconds"] for line in lines]
    assert sorted(seconds) == seconds
    assert 0 <= seconds[0] <= seconds[-1] < 600
