"""Loggers: one line per row, plain lines outside a terminal, and never a reason to stop
training.
"""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console as RichConsole

from rltrain.logger.console import Console, duration
from rltrain.logger.jsonl import JsonLines
from rltrain.logger.loggers import Loggers
from rltrain.logger.wandb import Wandb
from rltrain.types import Clock

ROW = {"test/return_mean": 12.5, "test/win_rate": 0.5}


def test_json_lines_are_flushed_and_cut_back(tmp_path):
    lines = JsonLines(tmp_path / "metrics.jsonl")
    lines.write(Clock(10, 2, 1), 1.5, ROW)
    offset = lines.offset
    lines.write(Clock(20, 3, 2), 2.5, {"learn/loss": float("nan")})
    rows = [json.loads(line) for line in lines.path.read_text().splitlines()]
    assert rows[0] == {"env_steps": 10, "episodes": 2, "updates": 1, "seconds": 1.5, **ROW}
    assert rows[1]["learn/loss"] is None
    lines.cut(offset)
    assert len(lines.path.read_text().splitlines()) == 1


class Broken:
    calls = 0

    def write(self, clock, seconds, row):
        self.calls += 1
        raise OSError("disk full")

    def close(self):
        raise OSError("still full")


def test_a_logger_that_keeps_failing_is_switched_off(tmp_path):
    broken, lines = Broken(), JsonLines(tmp_path / "m.jsonl")
    loggers = Loggers([broken, lines])
    for step in range(10):
        loggers.write(Clock(step), 0.0, ROW)
    loggers.close()
    assert broken.calls == Loggers.PATIENCE
    assert len(lines.path.read_text().splitlines()) == 10


def test_plain_lines_where_there_is_no_terminal():
    out = io.StringIO()
    console = Console(1000, RichConsole(file=out, width=60))
    console.write(Clock(100), 1.0, ROW)
    console.write(Clock(200), 2.0, {"train/return_mean": 3.0, "learn/loss": 0.25})
    console.close()
    first, second = out.getvalue().splitlines()
    assert "100 env steps  test return 12.50  test win rate 50%" in first
    assert "train return 3.00  loss 0.2500  left 8 s" in second


def test_a_live_panel_in_a_terminal():
    out = io.StringIO()
    terminal = RichConsole(file=out, width=100, force_terminal=True)
    console = Console(1000, terminal)
    console.write(Clock(250), 1.0, ROW)
    console.close()
    assert "25%" in out.getvalue()
    assert "test win rate" in out.getvalue()


@pytest.mark.parametrize(
    ("seconds", "text"), [(5, "5 s"), (300, "5 min"), (7200, "2 h 0 min"), (0, "0 s")]
)
def test_durations_in_words(seconds, text):
    assert duration(seconds) == text


def test_wandb_without_a_key_records_offline(tmp_path, monkeypatch):
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    monkeypatch.setenv("WANDB_MODE", "disabled")
    logger = Wandb(tmp_path, {"seed": 1}, "online", project="rltrain")
    logger.write(Clock(1), 0.1, ROW)
    logger.close()
