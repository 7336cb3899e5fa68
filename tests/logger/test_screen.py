"""What is printed: markup as text, plain lines of rows, words for numbers, the speed of a run."""

from __future__ import annotations

import io

import pytest
from rich.columns import Columns
from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Column, Table
from rich.text import Text

from rltrain.logger.screen import Pace, PlainLines, Screen, duration, plural
from rltrain.mode.messages.banner import facts_panel
from rltrain.types import Clock
from tests.logger.runs import FakeRun

TEXT = "a[/b] [red]c :smile: [@click=x]d[/]"


def table(**options):
    out = Table(options.pop("header", "x" * 99), **options)
    out.add_row(options.get("title", "x"))
    return out


@pytest.mark.parametrize(
    "shown",
    [
        TEXT,
        table(title=TEXT),
        table(caption=TEXT),
        table(header=TEXT),
        Table(Column(TEXT, footer=TEXT), show_footer=True),
        Panel(TEXT),
        Panel("x", title=Text(TEXT)),
        Group(TEXT, TEXT),
        Columns([TEXT]),
        facts_panel(TEXT, {TEXT: TEXT}),
    ],
    ids=lambda shown: type(shown).__name__,
)
def test_markup_is_shown_as_it_is(shown):
    out = io.StringIO()
    Screen(file=out, width=200).print(shown)
    assert TEXT in out.getvalue()


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


def observed(*points: tuple[int, float, int], total: int = 1000) -> tuple[Pace, FakeRun]:
    pace, run = Pace(), FakeRun(total_env_steps=total)
    for env_steps, seconds, updates in points:
        pace.observe(run.at(env_steps, seconds, updates))
    return pace, run


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


@pytest.mark.parametrize(
    ("points", "speed"),
    [
        ([(0, 0.0, 0)], None),  # it has not begun
        ([(500, 0.0, 1), (510, 1.0, 1)], 10.0),  # it has learned for less than two seconds
        ([(900, 0.0, 1), (1001, 4.0, 1)], 25.25),  # it is at its end
    ],
)
def test_the_time_to_go_is_not_known_of_every_run(points, speed):
    pace, run = observed(*points)
    assert (pace.speed, pace.left(run)) == (speed, None)
