"""Plain lines: one per row, with the total, tests told apart, and what environments add."""

import io

import pytest
from rich.console import Console

from rltrain.logger.console import PlainLines
from rltrain.logger.screen import duration, plural
from rltrain.types import Clock
from tests.logger.runs import FakeRun

TEST = {"test/return_mean": 12.5, "test/win_rate": 0.5, "test/return_std": 3.0}
TRAIN = {"train/return_mean": 3.0, "learn/loss": 0.25, "learn/q_taken_mean": 9.0}


def lines(*rows, job=None) -> list[str]:
    """What is printed of rows, one every 100 env steps and 10 seconds."""
    out, run = io.StringIO(), FakeRun()
    plain = PlainLines(Console(file=out, width=60), job)
    plain.follow(run)
    for k, row in enumerate(rows, start=1):
        run.at(100 * k, 10.0 * k)
        plain.write(run.clock, run.seconds, row)
    plain.close()
    return out.getvalue().splitlines()


def test_lines_have_the_total_and_tests_are_told_apart():
    test, train = lines(TEST, TRAIN)
    assert test == "test        100 / 1,000 env steps  return 12.50  win rate 50%"
    assert train == "train       200 / 1,000 env steps  return 3.00  loss 0.2500"


def test_speed_and_time_to_go_are_in_lines_of_training():
    *_, train, test = lines(TRAIN, TRAIN, TRAIN, TEST)
    assert train.endswith("loss 0.2500  10 env steps/s  70 s left")
    assert test.endswith("win rate 50%")


def test_metrics_of_environments_and_callbacks_are_shown():
    test, train = lines(
        TEST | {"test/excess_over_buy_and_hold_mean": 1234.5},
        TRAIN | {"custom/last_angle": 0.123456},
    )
    assert test.endswith("win rate 50%  excess over buy and hold 1234")
    assert train.endswith("loss 0.2500  last angle 0.1235")


def test_lines_of_a_sweep_begin_with_the_name_of_the_job():
    (line,) = lines(TEST, job="1_seed-2")
    assert line.startswith("[1_seed-2] test ")


def test_a_line_without_a_run_to_follow_has_no_total():
    out = io.StringIO()
    PlainLines(Console(file=out)).write(Clock(100), 1.0, TRAIN)
    assert out.getvalue() == "train       100 env steps  return 3.00  loss 0.2500\n"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (5, "5 s"), (300, "5 min"), (7200, "2 h 0 min"), (7199, "2 h 0 min")],
)
def test_durations_in_words(seconds, text):
    assert duration(seconds) == text


def test_numbers_and_nouns_agree():
    found = [plural(n, noun) for n in (1, 3000) for noun in ("agent", "process")]
    assert found == ["1 agent", "1 process", "3,000 agents", "3,000 processes"]
