"""metrics.jsonl: damaged lines are left out wherever it is read, with one warning."""

import json
import logging

import numpy as np
import pytest

from rltrain.common import json_text
from rltrain.logger import curve
from rltrain.logger.loggers import Loggers
from rltrain.logger.metric_files import CsvFile, JsonLines, read_rows
from rltrain.report.run_groups import load_runs
from rltrain.types import Clock
from tests.helpers import sparse
from tests.marks import each_once

GOOD = [
    {"env_steps": n, "updates": n, "episodes": 1, "seconds": n / 10, "test/return_mean": n / 2}
    for n in (10, 20, 30)
]
DAMAGE = {
    "a byte that is not UTF-8": b'{"env_steps": 15, "a\xff": 1}',
    "a zero byte": b'{"env_steps": 15, "a\x00": 1}',
    "zeros": bytes(100),
    "cut": b'{"env_steps": 15, "test/retu',
    "empty": b"",
    "too long": b'{"env_steps": 15, "a": "' + b"x" * 2000 + b'"}',
    "nested deep": b'{"env_steps": 15, "a": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    "a list": b"[15]",
    "a number": b"15",
    "a number of 5000 digits": b'{"env_steps": ' + b"1" * 5000 + b"}",
    "two rows in one": b'{"env_steps": 15}{"env_steps": 16}',
    "UTF-16": '{"env_steps": 15}'.encode("utf-16"),
}
ODD = {
    "no env steps": {"test/return_mean": 7.0},
    "env steps as text": {"env_steps": "15"},
    "env steps of 401 digits": {"env_steps": 10**400},
    "no env steps but null": {"env_steps": None},
    "true": {"env_steps": True},
}
"""Objects that are not rows."""
VALUES = ["text", [1], {"a": 1}, True, 10**400, 1e308, -1e308, float("inf"), float("nan")]


@pytest.fixture
def damaged(tmp_path, monkeypatch):
    """Write good rows with another line before the last one."""
    monkeypatch.setattr(json_text, "LONGEST", 1000)

    def write(line, end=b"\n"):
        lines = [json.dumps(row).encode() for row in GOOD]
        text = b"\n".join([*lines[:2], line, lines[2]])
        (tmp_path / "metrics.jsonl").write_bytes(text + end)
        about = {"choices": {"algo": "dqn", "env": "cartpole"}}
        (tmp_path / "config.json").write_text(json.dumps(about))
        (tmp_path / "run.json").write_text('{"status": "finished"}')
        return tmp_path / "metrics.jsonl"

    return write


def env_steps(path, name):
    """The env steps of the rows as one of the readers has them."""
    if name == "rows":
        return [row["env_steps"] for row in read_rows(path)]
    if name == "history":
        return list(curve.history(path)["env_steps"])
    if name == "curve":
        return curve.panels(list(read_rows(path)))[0].test[0]
    if name == "csv":
        CsvFile(run_dir=path.parent).write(Clock(30), 0.0, {"b": 1.0})
        lines = (path.parent / "metrics.csv").read_text().splitlines()[1:]
        return [int(line.partition(",")[0]) for line in lines]
    return list(load_runs(path.parent)["env_steps"])


READERS = ("rows", "history", "curve", "csv", "load_runs")


@each_once(kind=DAMAGE, reader=READERS)
def test_a_damaged_line_is_left_out(damaged, kind, reader):
    assert env_steps(damaged(DAMAGE[kind]), reader) == [10, 20, 30]


@each_once(kind=ODD, reader=READERS)
def test_an_object_that_is_no_row_is_left_out(damaged, kind, reader):
    assert env_steps(damaged(json.dumps(ODD[kind]).encode()), reader) == [10, 20, 30]


@pytest.mark.sampled(3)
@each_once(value=VALUES, reader=READERS)
def test_a_value_that_is_no_number_is_left_out(damaged, value, reader):
    row = {"env_steps": 25, "updates": value, "test/return_mean": value, "custom/x": value}
    path = damaged(json.dumps(row).encode())
    assert env_steps(path, reader)[:2] == [10, 20]
    if reader == "curve":
        curve.save(path.with_name("curve.png"), list(read_rows(path)), "title")


def test_all_readers_together_warn_once(damaged, caplog):
    caplog.set_level(logging.WARNING, "rltrain")
    path = damaged(DAMAGE["zeros"])
    for reader in ("rows", "history", "curve", "csv", "rows"):
        env_steps(path, reader)
    (record,) = caplog.records
    assert record.getMessage() == (
        f"{path.parent}: lines of metrics.jsonl that cannot be read are left out: 3"
    )


def test_a_half_written_last_line_is_left_out_without_a_warning(damaged, caplog):
    path = damaged(b"[1]")
    path.write_bytes(b'{"env_steps": 10}\n{"env_st')
    assert [row["env_steps"] for row in read_rows(path)] == [10]
    assert not caplog.records


def test_a_file_without_an_end_is_left_out_with_a_warning(tmp_path, caplog):
    sparse(tmp_path / "metrics.jsonl")
    assert list(read_rows(tmp_path / "metrics.jsonl")) == []
    assert "metrics.jsonl is larger than 1,073,741,824 bytes" in caplog.text


def test_a_resumed_run_ends_a_line_that_was_cut(tmp_path):
    loggers = Loggers([JsonLines(tmp_path / "metrics.jsonl")])
    for n in (1, 2):
        loggers.write(Clock(n), 0.0, {"a": 1.0})
    state, path = loggers.state_dict(), tmp_path / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-5])
    loggers.load_state_dict(state)
    loggers.write(Clock(3), 0.0, {"a": 1.0})
    assert [row["env_steps"] for row in read_rows(path)] == [1, 3]


def test_a_flipped_bit_anywhere_loses_two_rows_at_most(tmp_path):
    path = tmp_path / "metrics.jsonl"
    good = "".join(json.dumps(row) + "\n" for row in GOOD * 3).encode()
    rng = np.random.default_rng(0)
    for at in rng.choice(len(good), 200, replace=False):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1 << rng.integers(8)]) + good[at + 1 :])
        assert len(list(read_rows(path))) >= len(GOOD) * 3 - 2
        curve.history(path)
        curve.panels(list(read_rows(path)))


@pytest.mark.parametrize("before", [b"", b'{"env_steps": 1}\n'])
def test_rows_of_an_edited_file_are_not_cut_in_their_middle(tmp_path, caplog, before):
    """Defect: rows before the checkpoint were lost, without a word."""
    rows = JsonLines(tmp_path / "metrics.jsonl")
    rows.write(Clock(10), 0, {})
    rows.load_state_dict(rows.state_dict())
    rows.write(Clock(20), 0, {})
    content = before + b"# a remark of mine\n" + rows.path.read_bytes()
    rows.path.write_bytes(content)
    rows.start()
    assert rows.path.read_bytes() == content
    assert "was edited" in caplog.text
