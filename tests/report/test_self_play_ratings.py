"""Ratings over training time of runs of self-play."""

import json

import numpy as np
import pytest

from rltrain.report import ratings
from rltrain.report.ratings import SCALE, expected, ratings_over_time
from rltrain.report.readers import find_runs
from tests.report.runs import write_run

TRUE = np.array([0.0, 150.0, 280.0, 390.0, 470.0])
"""Of the agents of five intervals; snapshots are 40 points stronger, since they do not explore."""


def counts(first, second, n, rng):
    """Wins, draws and losses of n battles."""
    won = rng.binomial(n, expected((first - second) / SCALE))
    return [int(won), 0, int(n - won)]


def write(folder, seed, n=400):
    """Battles of every interval against at most the three newest snapshots."""
    rng = np.random.default_rng(seed)
    strengths = np.append(0.0, TRUE[:-1] + 40)  # a snapshot is made where an interval begins
    results = {
        str(1000 * k): {
            str(1000 * j): counts(TRUE[k], strengths[j], n, rng)
            for j in range(max(0, k - 2), k + 1)
        }
        for k in range(5)
    }
    (folder / "self_play.json").write_text(json.dumps(results))


def test_strengths_of_simulated_battles_are_found(tmp_path):
    inside = []
    for seed in range(20):
        folder = tmp_path / str(seed)
        folder.mkdir()
        write(folder, seed)
        steps, (rating, low, high) = ratings_over_time(folder)
        assert steps.tolist() == [0, 1000, 2000, 3000, 4000]
        assert np.abs(rating - TRUE).max() < 80
        inside += [*((low <= TRUE) & (high >= TRUE))]
    assert np.mean(inside) == pytest.approx(0.95, abs=0.06)


def test_long_runs_are_rated(tmp_path, monkeypatch):
    """Defect: memory grew as the cube of their intervals, 6 GB for 1,000."""
    monkeypatch.setattr(ratings, "MOST_INTERVALS", 150)
    rng = np.random.default_rng(0)
    results = {
        str(k): {str(j): counts(2 * k, 2 * j, 400, rng) for j in range(max(0, k - 9), k + 1)}
        for k in range(200)
    }
    (tmp_path / "self_play.json").write_text(json.dumps(results))
    steps, (_, low, high) = ratings_over_time(tmp_path)
    assert steps.tolist() == [*range(50, 200)]
    true = 2 * (steps - 41)  # snapshot 41 is the first of these battles
    assert np.mean((low <= true) & (true <= high)) > 0.8
    assert (high - low < 120).all()


def test_counts_of_any_sizes_have_finite_ratings(tmp_path):
    rng = np.random.default_rng(0)
    for _ in range(100):
        top = rng.choice([1, 30, 10**6, ratings.MOST_BATTLES])
        results = {
            str(k): {str(j): rng.choice([0, 1, int(top)], 3).tolist() for j in range(k + 1)}
            for k in range(rng.integers(1, 6))
        }
        (tmp_path / "self_play.json").write_text(json.dumps(results))
        ratings_over_time.cache_clear()
        if (found := ratings_over_time(tmp_path)) is not None:
            assert np.isfinite(found[1]).all()


ODD = [f'{{"0": {{"0": {each}}}}}' for each in (
    *("[0, 1, 1e999]", f"[1, 0, {10**30}]", f"[1, 0, {10**12}]", "[1, 0, 1e18]", '"123"', "{}"),
    *('{"4": 1, "5": 2, "6": 3}', '["5", 1.9, true]', "[1, 2]", "[1, -2, 3]", "null", "[[], 1, 1]"),
)]  # fmt: skip
OTHER = ["", "[]", "{}", '{"a": {"b": [1, 2, 3]}}', '{"0": {"0": [0, 0, 0]}}', '{"0": [1]}']


@pytest.mark.parametrize("content", [*OTHER, *ODD, f'{{"{10**20}": {{"0": [1, 0, 1]}}}}'])
def test_other_files_have_no_ratings(tmp_path, content):
    (tmp_path / "self_play.json").write_text(content)
    assert ratings_over_time(tmp_path) is None
    assert ratings_over_time(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    ("results", "reason"),
    [
        ({"1": {str(n): [1, 0, 1] for n in range(601)}}, "more than 600 snapshots"),
        ({"1": {"0": [1, 0]}}, "it does not count battles"),
    ],
)
def test_ratings_that_are_left_out_are_named(tmp_path, results, reason):
    """Defect: 200,000 snapshots in a file of 4 MB ended a report."""
    folder = write_run(tmp_path / "r")
    (folder / "self_play.json").write_text(json.dumps(results))
    assert ratings_over_time(folder) is None
    (run,) = find_runs([folder], [])
    assert run.problems == [f"self_play.json is left out ({reason})"]
