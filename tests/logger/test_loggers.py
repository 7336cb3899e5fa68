"""Loggers: one line per row, and never a reason to stop training."""

import json
import sys
from dataclasses import dataclass

import pytest

from rltrain.logger.loggers import Logger, Loggers
from rltrain.logger.metric_files import JsonLines
from rltrain.types import Clock
from tests.helpers import full

ROW = {"test/return_mean": 12.5, "test/win_rate": 0.5}


def test_json_lines_are_flushed_and_cut_back(tmp_path):
    lines = JsonLines(tmp_path / "metrics.jsonl")
    lines.write(Clock(10, 2, 1), 1.5, ROW)
    state = lines.state_dict()
    lines.write(Clock(20, 3, 2), 2.5, {"learn/loss": float("nan")})
    rows = [json.loads(line) for line in lines.path.read_text().splitlines()]
    assert rows[0] == {"env_steps": 10, "episodes": 2, "updates": 1, "seconds": 1.5, **ROW}
    assert rows[1]["learn/loss"] is None
    lines.load_state_dict(state)
    assert lines.state_dict() == state, "nothing is removed before the run continues"
    lines.start()
    assert len(lines.path.read_text().splitlines()) == 1


class Broken(Logger):
    calls = 0

    def write(self, clock, seconds, row):
        self.calls += 1
        raise OSError("disk full")

    def close(self):
        raise OSError("still full")


def test_a_logger_that_keeps_failing_is_switched_off_with_one_warning(tmp_path, caplog):
    broken, lines = Broken(), JsonLines(tmp_path / "m.jsonl")
    loggers = Loggers([broken, lines])
    for step in range(10):
        loggers.write(Clock(step), 0.0, ROW)
    loggers.close()
    assert broken.calls == Logger.patience
    (warning,) = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert warning == "Broken could not write a row (disk full); the run continues"
    assert len(lines.path.read_text().splitlines()) == 10


class Quiet(Logger):
    def write(self, clock, seconds, row):
        pass


class Hanging(Quiet):
    def close(self):
        raise KeyboardInterrupt  # Ctrl-C while it waits


def test_a_logger_that_ends_the_program_ends_nothing():
    leaving = Quiet()
    leaving.write = leaving.close = lambda *about: sys.exit(9)
    loggers = Loggers([leaving])
    loggers.write(Clock(1), 0.0, ROW)
    loggers.close()


def test_one_more_interrupt_leaves_a_logger_that_hangs_and_closes_the_others():
    closed = []
    last = Quiet()
    last.close = lambda: closed.append(True)
    Loggers([Hanging(), last]).close()
    assert closed == [True]


class Counting(Quiet):
    def __init__(self, n=None):
        self.n, self.loaded = n, []

    def state_dict(self):
        return {"n": self.n}

    def load_state_dict(self, state):
        self.loaded.append(state["n"])


def test_a_resumed_run_may_have_other_loggers():
    class Added(Counting):
        pass

    state = Loggers([Quiet(), Counting(7)]).state_dict()
    counting, added = Counting(), Added()
    Loggers([added, counting]).load_state_dict(state)
    assert (counting.loaded, added.loaded) == ([7], [])


def test_loggers_get_the_summary_before_they_are_closed():
    got, last = [], Quiet()
    last.summarize, last.close = got.append, lambda: got.append("closed")
    Loggers([last]).close({"status": "finished"})
    assert got == [{"status": "finished"}, "closed"]
    last.summarize = full  # defect: one that could not take it was not closed
    Loggers([last]).close()
    assert got[2:] == ["closed"]


def test_what_a_logger_does_with_a_row_is_its_own():
    """Defect: a logger that took a metric out took it from the trainer and the other loggers."""
    row, seen, takes, keeps = {"test/return_mean": 1.0}, [], Quiet(), Quiet()
    takes.write = lambda clock, seconds, row: row.clear()
    keeps.write = lambda clock, seconds, row: seen.append(row)
    Loggers([takes, keeps]).write(Clock(), 0.0, row)
    assert row == {"test/return_mean": 1.0}
    assert seen == [row]


FAILURES = ("sync", "state_dict", "start", "load_state_dict")


def failing_in(method):
    """A logger with state that raises in one of its methods."""

    def fail(self, *given):
        raise KeyError(method)

    return type("Own", (Counting,), {method: fail})(3)


@pytest.mark.parametrize("method", FAILURES)
def test_a_logger_whose_state_cannot_be_kept_is_warned_of(method, caplog):
    """Defect: a run ended where a logger raised in these, and in the other methods it went on."""
    before = Loggers([failing_in(method), Counting(7)])
    other = Counting()
    loggers = Loggers([failing_in(method), other])
    loggers.load_state_dict(before.state_dict())
    loggers.start()
    assert other.loaded == [7]
    assert f"('{method}'); the run continues" in caplog.text


def test_the_states_of_loggers_of_one_class_are_kept_apart():
    """Also of two classes with one name."""
    class_of_one_name = type("Counting", (Counting,), {"__module__": "elsewhere"})
    kinds = (Counting, class_of_one_name, Counting)
    state = Loggers([kind(offset) for kind, offset in zip(kinds, (3, 5, 7), strict=True)])
    loggers = Loggers([kind() for kind in kinds])
    loggers.load_state_dict(state.state_dict())
    assert [logger.loaded for logger in loggers.loggers] == [[3], [5], [7]]


def test_loggers_are_told_apart_by_what_they_are_and_not_by_what_they_hold(tmp_path, caplog):
    """Defect: one that cannot be hashed, as those of data classes, ended the run."""

    @dataclass
    class Own(Logger):
        name: str

        def write(self, clock, seconds, row):
            raise ValueError(self.name)

    Loggers([Own("a"), Own("a")]).write(Clock(), 0.0, ROW)
    assert caplog.text.count("WARNING") == 2
