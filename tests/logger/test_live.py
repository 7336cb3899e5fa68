"""The live panel: what it says, at every width, and that its thread ends."""

import io
import threading

import pytest
from rich.console import Console

from rltrain.logger.live import LivePanel
from tests.logger.runs import FakeRun

ROW = {
    "test/return_mean": 212.34,
    "test/win_rate": 0.5,
    "train/return_mean": 198.2,
    "train/win_rate": 1.0,
    "train/episode_length_mean": 201.2,
    "train/epsilon": 0.05,
    "learn/loss": 0.0155,
    "time/updates_per_s": 333.6,
}


def panel(width: int = 80) -> LivePanel:
    live = LivePanel(Console(file=io.StringIO(), width=width, force_terminal=True), "dqn on game")
    live.run = FakeRun().at(250, 10.0)
    return live


def drawn(live: LivePanel) -> list[str]:
    """The lines inside the border."""
    plain = Console(file=io.StringIO(), width=live.console.width)
    plain.print(live.panel(live.run))
    lines = plain.file.getvalue().splitlines()
    assert all(len(line) == live.console.width for line in lines)
    return [line.strip("│ ") for line in lines[1:-1]]


def test_steps_come_from_the_run_and_not_from_rows():
    steps, state = drawn(panel())
    assert steps.startswith("250 / 1,000 env steps")
    assert steps.endswith("25%")
    assert state.startswith("learning ")
    assert state.endswith("0:00:10")


def test_an_unknown_time_to_go_is_not_mentioned():
    assert not any("left" in line or "…" in line for line in drawn(panel()))


def test_speed_and_time_to_go_unless_the_run_stops():
    live = panel()
    for env_steps, seconds in ((250, 10.0), (300, 15.0)):
        live.pace.observe(live.run.at(env_steps, seconds))
    state = drawn(live)[1]
    assert state.startswith("learning, 10 env steps/s ")
    assert state.endswith("0:00:15, 70 s left")
    live.run.stopping = "SIGINT"
    assert "left" not in drawn(live)[1]
    assert "env steps/s" not in drawn(live)[1]


def test_tests_and_checkpoints_are_named():
    live = panel()
    with live.run.progress.during("testing", 32):
        live.run.progress.report(12, 32)
        assert drawn(live)[1].startswith("testing 12/32 episodes ")
        with live.run.progress.during("saving"):
            assert drawn(live)[1].startswith("saving ")


def test_a_run_that_only_collects_or_that_stops_says_so():
    live = panel()
    live.run.at(250, 1.0, updates=0)
    assert drawn(live)[1].startswith("collecting, not learning yet ")
    live.run.stopping = "SIGINT"
    assert drawn(live)[1].startswith("stopping ")


@pytest.mark.parametrize(("width", "n_columns"), [(60, 2), (80, 3), (120, 4)])
def test_names_and_values_do_not_wrap(width, n_columns):
    live = panel(width)
    live.write(live.run.clock, 1.0, ROW)
    metrics = drawn(live)[2:]
    assert len(metrics) == -(-len(ROW) // n_columns)
    assert "train win rate 100%" in " ".join(metrics)
    assert not any("…" in line for line in metrics)


def test_added_metrics_have_lines_of_their_own():
    live = panel(60)
    live.write(live.run.clock, 1.0, ROW | {"test/excess_over_buy_and_hold_mean": 1.5})
    assert drawn(live)[-1] == "test excess over buy and hold 1.5"


def test_a_name_that_does_not_fit_is_cut():
    live = panel(60)
    live.write(live.run.clock, 1.0, {"custom/" + "long_" * 20: 1.0})
    assert drawn(live)[-1].endswith("…")


def test_columns_do_not_jump_when_a_value_gets_shorter():
    live = panel()
    live.write(live.run.clock, 1.0, ROW | {"train/return_mean": -1234567890.0})
    assert len(drawn(live)[2:]) == 4
    live.write(live.run.clock, 1.0, ROW)
    assert len(drawn(live)[2:]) == 4


def test_the_panel_is_drawn_without_rows_and_stays_when_closed():
    live = panel()
    live.follow(live.run)
    live.close()
    assert "display" not in {thread.name for thread in threading.enumerate()}
    shown = live.console.file.getvalue()
    assert "250" in shown
    assert "╯" in shown.splitlines()[-1]


def test_a_display_that_fails_ends_alone(caplog):
    live = panel()
    live.title = None  # cannot be drawn
    live.follow(live.run)
    live.thread.join()
    assert "the live display stopped" in caplog.text
    live.title = "rltrain"
    live.close()
    assert not live.live.is_started
    assert "╯" in live.console.file.getvalue().splitlines()[-1]
