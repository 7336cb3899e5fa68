from pathlib import Path

import numpy as np
import pytest

from rltrain.report.run_data import Curve, common, get_curve
from tests.report.runs import run


def curve(x, y):
    return Curve(np.array(x, float), np.array(y, float))


def test_final_score_is_the_mean_of_the_last_tests():
    c = curve([0, 10, 20, 30], [1, 2, 3, 5])
    assert c.final(30, last=1) == 5
    assert c.final(30, last=2) == 4


def test_final_score_stops_where_the_shortest_run_ends():
    c = curve([0, 10, 21, 32], [1, 2, 3, 5])
    assert c.final(20, last=1) == 3  # the test that belongs to 20 was at 21
    assert c.final(10, last=1) == 2


def test_threshold_is_reached_between_two_tests():
    c = curve([0, 10, 20], [0, 1, 3])
    assert c.reaches(2, end=20) == 15
    assert c.reaches(0, end=20) == 0
    assert c.reaches(4, end=20) == np.inf
    assert c.reaches(2, end=10) == np.inf


def test_curves_are_compared_where_all_of_them_are():
    x, values = common([curve([0, 10, 20], [0, 1, 2]), curve([5, 15], [10, 20])])
    assert (x[0], x[-1]) == (5, 15)
    np.testing.assert_allclose(values[:, [0, -1]], [[0.5, 1.5], [10, 20]])


def test_runs_with_one_test_have_one_point():
    x, values = common([curve([5], [1]), curve([5], [3])])
    assert (x.tolist(), values.tolist()) == ([5], [[1], [3]])


def test_minutes_are_an_axis():
    c = get_curve(run(Path("a"), values=[1, 2]), "test/return_mean", "minutes")
    assert c.x.tolist() == [0, 100]


def test_a_metric_that_was_never_reported_has_no_curve():
    assert get_curve(run(Path("a"), values=[np.nan]), "test/return_mean", "env_steps") is None


def test_points_of_episodes_become_means_of_neighbors():
    c = get_curve(run(Path("a"), values=np.arange(1000)), "test/return_mean", "env_steps")
    assert len(c.x) == 200
    assert c.y[0] == pytest.approx(2)  # of 0 … 4
