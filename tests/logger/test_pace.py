"""Speed and time to go: from a recent window of learning, and nothing else."""

import pytest

from rltrain.logger.console import Pace
from tests.logger.runs import FakeRun


def observed(*points: tuple[int, float, int], total: int = 1000) -> tuple[Pace, FakeRun]:
    pace, run = Pace(), FakeRun(total_env_steps=total)
    for env_steps, seconds, updates in points:
        pace.observe(run.at(env_steps, seconds, updates))
    return pace, run


def test_nothing_is_known_of_a_run_that_has_not_begun():
    pace, run = observed((0, 0.0, 0))
    assert (pace.speed, pace.left(run)) == (None, None)


def test_fast_steps_before_learning_do_not_shorten_the_time_to_go():
    before = ((0, 0.0, 0), (400, 1.0, 0), (500, 2.0, 0))
    pace, run = observed(*before)
    assert pace.speed == 250.0
    assert pace.left(run) is None
    pace, run = observed(*before, (510, 3.0, 1), (530, 5.0, 5))
    assert pace.speed == 10.0
    assert pace.left(run) == 47.0


def test_only_the_last_half_minute_counts():
    slow = [(10 * k, 10.0 * k, 1) for k in range(10)]
    fast = [(90 + 100 * k, 90.0 + k, 1) for k in range(1, 41)]
    pace, _ = observed(*slow, *fast, total=10_000)
    assert pace.speed == 100.0


def test_the_time_to_go_is_not_told_from_less_than_two_seconds():
    pace, run = observed((500, 0.0, 1), (510, 1.0, 1))
    assert (pace.speed, pace.left(run)) == (10.0, None)


def test_a_test_does_not_slow_the_speed_and_its_share_is_in_the_time_to_go():
    pace, run = observed((500, 0.0, 1), (520, 2.0, 1))
    run.progress.seconds = 6.0  # a test
    pace.observe(run.at(540, 10.0))
    assert pace.speed == 10.0
    assert pace.left(run) == pytest.approx(46 * 10 / 4)


def test_nothing_is_noted_during_a_test():
    pace, run = observed((500, 0.0, 1), (520, 2.0, 1))
    with run.progress.during("testing", 32):
        pace.observe(run.at(520, 50.0))
    assert pace.speed == 10.0


def test_a_run_at_its_end_has_no_time_to_go():
    pace, run = observed((900, 0.0, 1), (1001, 4.0, 1))
    assert pace.left(run) is None
