"""metrics.csv: the rows of metrics.jsonl as a table."""

import csv

import pytest

from rltrain.logger.csv_file import CsvFile
from rltrain.logger.jsonl import JsonLines
from rltrain.logger.loggers import Loggers
from rltrain.types import Clock


@pytest.fixture
def loggers(tmp_path):
    return Loggers([JsonLines(tmp_path / "metrics.jsonl"), CsvFile(run_dir=tmp_path)])


def table(folder):
    return list(csv.DictReader((folder / "metrics.csv").open()))


def test_every_row_is_there_and_new_metrics_become_columns(loggers, tmp_path):
    loggers.write(Clock(1), 0.5, {"a": 1.0})
    loggers.write(Clock(2), 1.5, {"a": float("nan")})
    loggers.write(Clock(3), 2.5, {"b": 3.0})
    loggers.write(Clock(4), 3.5, {"a": 4.0, "b": 5.0})
    rows = table(tmp_path)
    assert [row["env_steps"] for row in rows] == ["1", "2", "3", "4"]
    assert [row["a"] for row in rows] == ["1.0", "", "", "4.0"]
    assert ([row["b"] for row in rows], rows[0]["seconds"]) == (["", "", "3.0", "5.0"], "0.5")


def test_a_resumed_run_has_no_rows_after_its_checkpoint(loggers, tmp_path):
    loggers.write(Clock(1), 0.5, {"a": 1.0})
    state = loggers.state_dict()
    loggers.write(Clock(2), 1.5, {"a": 2.0})
    again = Loggers([JsonLines(tmp_path / "metrics.jsonl"), CsvFile(run_dir=tmp_path)])
    for each in (again, loggers):  # in another process, and in the same one
        each.load_state_dict(state)
        each.write(Clock(3), 2.5, {"a": 3.0})
        assert [row["env_steps"] for row in table(tmp_path)] == ["1", "3"]
