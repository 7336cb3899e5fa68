import json
from pathlib import Path

import numpy as np
import pytest

from rltrain.report import statistics as s

STORED = json.loads((Path(__file__).parents[1] / "data/rliable_numbers.json").read_text("utf-8"))
SCORES = {name: list(np.array(scores).T) for name, scores in STORED["scores"].items()}
THRESHOLDS = np.array(STORED["thresholds"])
METHODS = sorted(SCORES)


def rliable_runs(*methods):
    """The runs that rliable resampled, one list per method: it draws [runs, tasks] at a time."""
    rng = np.random.RandomState(STORED["seed"])
    shapes = [(len(SCORES[m][0]), len(SCORES[m])) for m in methods]
    drawn = [
        [rng.choice(shape[0], shape, replace=True) for shape in shapes]
        for _ in range(STORED["resamples"])
    ]
    return [list(np.moveaxis(np.array(d), 2, 0)) for d in zip(*drawn, strict=True)]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["mean", "iqm", "optimality_gap"])
def test_statistics_and_their_intervals_are_those_of_rliable(name, method):
    found = s.estimate(SCORES[method], getattr(s, name), *rliable_runs(method))
    np.testing.assert_allclose(found, STORED[name][method], rtol=0, atol=1e-6)


def test_probability_of_improvement_is_that_of_rliable():
    found = s.probability_of_improvement(SCORES["x"], SCORES["y"], *rliable_runs("x", "y"))
    np.testing.assert_allclose(found, STORED["improvement"], rtol=0, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_performance_profile_is_that_of_rliable(method):
    found = s.performance_profile(SCORES[method], THRESHOLDS, *rliable_runs(method))
    np.testing.assert_allclose(found, STORED["profile"][method], rtol=0, atol=1e-6)


def test_iqm_leaves_out_a_quarter_at_each_end():
    assert s.iqm(np.array([100.0, 1, 2, 3, -50])) == 2.0
    assert s.iqm(np.array([1.0, 5, 3])) == 3.0  # fewer than four runs: the mean


def test_improvement_counts_ties_one_half():
    assert s.improvement([np.array([1.0, 2.0])], [np.array([1.0, 0.0])]) == 0.875


def test_points_of_a_curve_are_treated_one_by_one():
    curves = [np.array([[0.0, 10.0], [1.0, 30.0], [2.0, 20.0]]), np.array([[1.0, 40.0]])]
    runs = s.resampled_runs(curves, 50, np.random.default_rng(0))
    found = s.estimate(curves, s.mean, runs)
    single = s.estimate([task[:, 1] for task in curves], s.mean, runs)
    np.testing.assert_allclose(found.value, [1.0, 30.0])
    np.testing.assert_allclose([found.low[1], found.high[1]], single[1:])


def test_tasks_are_the_strata():
    scores = [np.array([1.0, 1.0]), np.array([5.0, 5.0, 5.0, 5.0])]
    runs = s.resampled_runs(scores, 100, np.random.default_rng(0))
    np.testing.assert_allclose(s.estimate(scores, s.mean, runs), [3] * 3)


@pytest.mark.parametrize("name", ["mean", "iqm", "optimality_gap"])
@pytest.mark.parametrize("counts", [(10, 2), (2, 10), (3, 4, 5), (1, 8)])
def test_tasks_count_alike_whatever_their_numbers_of_runs(name, counts):
    """As if every run were there so often that all tasks have as many. Defect: a task with more
    runs counted more.
    """
    rng, statistic = np.random.default_rng(0), getattr(s, name)
    scores = [rng.normal(i, 1, n) for i, n in enumerate(counts)]
    n = 4 * np.lcm.reduce(counts)
    repeated = np.concatenate([np.repeat(task, n // len(task)) for task in scores])
    runs = s.resampled_runs(scores, 20, rng)
    found = s.estimate(scores, statistic, runs)
    np.testing.assert_allclose(found.value, statistic(repeated))
    values = []
    for each in zip(*runs, strict=True):
        drawn = [np.repeat(task[i], n // len(task)) for task, i in zip(scores, each, strict=True)]
        values.append(statistic(np.concatenate(drawn)))
    np.testing.assert_allclose(found[1:], s.interval(found.value, np.array(values))[1:])


def test_resampling_in_parts_changes_nothing(monkeypatch):
    runs = s.resampled_runs(SCORES["x"], 100, np.random.default_rng(0))
    others = s.resampled_runs(SCORES["y"], 100, np.random.default_rng(1))
    in_parts = (
        lambda: s.estimate(SCORES["x"], s.iqm, runs),
        lambda: s.probability_of_improvement(SCORES["x"], SCORES["y"], runs, others),
    )
    whole = [statistic() for statistic in in_parts]
    monkeypatch.setattr(s, "AT_ONCE", 60)
    np.testing.assert_array_equal(in_parts[0](), whole[0])
    np.testing.assert_array_equal(in_parts[1](), whole[1])
