"""A full disk, a failing write, a deleted folder: training goes on, or ends clearly."""

import json
import logging
import shutil
from pathlib import Path

import pytest

from rltrain.callback import Callback
from rltrain.common.checkpoint import storage
from rltrain.common.checkpoint.locate import seal
from rltrain.common.files import get_json
from rltrain.errors import UsageError
from rltrain.logger.jsonl import JsonLines
from rltrain.logger.train_log import LogFile
from rltrain.types import Clock
from tests.common.test_checkpoint import make

FULL = OSError(28, "No space left on device")


@pytest.fixture
def fails(monkeypatch):
    """Let the n-th and later full checkpoints fail, up to another one."""

    def install(first, last):
        calls = []

        def failing(folder, kind):
            calls.append(kind)
            if kind == "full" and first <= calls.count("full") <= last:
                raise FULL
            seal(folder, kind)

        monkeypatch.setattr(storage, "seal", failing)

    return install


def test_a_run_goes_on_without_a_checkpoint_that_cannot_be_written(command, small, fails, capfd):
    fails(1, 2)
    assert command(*small, "hydra.run.dir=run") == 0
    said = capfd.readouterr().err.splitlines()
    assert [line for line in said if "could not" in line] == [
        "warning: a checkpoint could not be written ([Errno 28] No space left on device); "
        "the run goes on"
    ]
    record = get_json(Path("run/run.json"))
    assert (record["status"], record["degraded"]) == ("finished", True)
    assert Path(f"run/checkpoints/{record['env_steps']}/replay.json").exists()


@pytest.mark.slow
def test_a_run_whose_last_checkpoint_cannot_be_written_fails_and_resumes(command, small, fails):
    fails(2, 100)
    assert command(*small, "hydra.run.dir=run") == 1
    record = get_json(Path("run/run.json"))
    assert record["status"] == "failed"
    assert "Make room in the run folder" in record["error"]
    fails(100, 0)
    assert command("resume=run") == 0


class Deletes(Callback):
    """Deletes the run folder in the first iteration."""

    def on_iteration(self, trainer, value=None):
        shutil.rmtree(trainer.run_dir, ignore_errors=True)


def test_a_run_whose_folder_is_deleted_ends_and_does_not_make_another(command, small, own_folder):
    callback = "callbacks=[{_target_: tests.integration.test_full_disk.Deletes}]"
    assert command(*small, callback, "hydra.run.dir=run") == 1
    assert not (own_folder / "run").exists()


def test_a_run_does_not_begin_on_a_full_disk(command, small, monkeypatch):
    def full(path, text):
        raise FULL

    monkeypatch.setattr("rltrain.mode.run_folder.put_text", full)
    monkeypatch.setattr("rltrain.mode.run_folder.make_folder", full)
    monkeypatch.setattr("rltrain.mode.train.make_folder", full)
    with pytest.raises(UsageError, match="cannot be written: No space left on device"):
        command(*small, "hydra.run.dir=run")


def test_a_row_that_does_not_fit_is_not_there_in_part(tmp_path, monkeypatch):
    lines = JsonLines(tmp_path / "metrics.jsonl")
    lines.write(Clock(1), 0.0, {"x": 1.0})

    def half(row):
        with lines.path.open("a") as file:
            file.write('{"env_st')
        raise FULL

    with monkeypatch.context() as patch:
        patch.setattr(json, "dumps", half)
        with pytest.raises(OSError, match="No space"):
            lines.write(Clock(2), 0.0, {"x": 2.0})
    lines.write(Clock(3), 0.0, {"x": 3.0})
    assert [json.loads(row)["env_steps"] for row in lines.path.read_text().splitlines()] == [1, 3]


def test_messages_that_do_not_fit_are_lost_without_a_word(capfd):
    log = LogFile("/dev/full")
    log.emit(logging.makeLogRecord({"msg": "x"}))
    log.close()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("nth", [2, 3])
def test_a_checkpoint_that_cannot_replace_another_leaves_it(tmp_path, monkeypatch, nth):
    make(tmp_path, 5)
    renames, replace = [], storage.os.replace

    def failing(source, target):
        renames.append(target)
        if len(renames) == nth:
            raise FULL
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(storage.os, "replace", failing)
        with pytest.raises(OSError, match="No space"):
            make(tmp_path, 5)
    assert [path.name for path in tmp_path.iterdir()] == ["5"]
