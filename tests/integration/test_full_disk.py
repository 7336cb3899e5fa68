"""A full disk, a failing write, a deleted folder, a replay on disk: training continues, or ends
clearly.
"""

import itertools
import json
import logging
import os
import re
import shutil
from pathlib import Path

import pytest

from rltrain.buffer import disk_store
from rltrain.callback import Callback
from rltrain.common.checkpoint import storage
from rltrain.common.checkpoint.run_checkpoints import seal
from rltrain.common.files import get_json
from rltrain.errors import CheckpointError, RltrainError, StorageError, UsageError
from rltrain.logger.metric_files import JsonLines
from rltrain.logger.train_log import LogFile
from rltrain.types import Clock
from tests.common.test_checkpoint import make
from tests.conftest import SMALL
from tests.helpers import full, no_room, said
from tests.marks import slow_except
from tests.mode.test_import_checkpoint import OVERRIDES, QMixer, RNNAgent, pymarl_folder

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
        "the run continues"
    ]
    record = get_json(Path("run/run.json"))
    assert (record["status"], record["degraded"]) == ("finished", True)
    assert Path(f"run/checkpoints/{record['env_steps']}/replay.json").exists()


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (1, "resume the run: there is no other, so it begins again at env step 0."),
        pytest.param(2, r"resume the run: it goes on from env step \d+\.", marks=pytest.mark.slow),
    ],
)
def test_a_run_without_its_last_checkpoint_fails_and_resumes(command, small, fails, first, said):
    fails(first, 100)
    assert command(*small, "hydra.run.dir=run") == 1
    record = get_json(Path("run/run.json"))
    assert record["status"] == "failed"
    assert re.search(f"Free space in the run folder, then {said}", record["error"])
    fails(100, 0)
    assert command("resume=run") == 0


class Deletes(Callback):
    """Deletes the run folder in the first iteration."""

    def on_iteration(self, trainer, value=None):
        shutil.rmtree(trainer.run_dir, ignore_errors=True)


def test_a_run_whose_folder_is_deleted_ends_and_does_not_make_another(command, small, own_folder):
    callback = f"callbacks=[{{_target_: {__name__}.Deletes}}]"
    assert command(*small, callback, "hydra.run.dir=run") == 1
    assert not (own_folder / "run").exists()


def test_a_run_does_not_begin_on_a_full_disk(command, small, monkeypatch):
    monkeypatch.setattr("rltrain.mode.run_folder.put_text", full)
    with pytest.raises(UsageError, match="cannot be written: No space left on device"):
        command(*small, "hydra.run.dir=run")


def test_a_row_that_does_not_fit_is_not_there_in_part(tmp_path):
    lines = JsonLines(tmp_path / "metrics.jsonl")
    lines.write(Clock(1), 0.0, {"x": 1.0})
    with no_room(lines.path.stat().st_size + 8):
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


@pytest.fixture
def on_a_full_disk(monkeypatch, own_folder, command):
    """Run a command on a disk with room for its first files; gives its exit code and its error."""
    replace = os.replace

    def run(n_written, *overrides):
        numbers = itertools.count()

        def failing(source, target):
            if Path(target).is_relative_to(own_folder) and next(numbers) >= n_written:
                full()
            replace(source, target)

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", failing)
            try:
                return command(*overrides), ""
            except RltrainError as error:  # and no other
                return error.exit_code, str(error)

    return run


IMPORT = ("mode=import", "checkpoint=models", "hydra.run.dir=new", *SMALL, *OVERRIDES)
COMMANDS = {
    "import": IMPORT,
    "report": ("mode=report", "runs=outputs", "report.dir=new"),
    "init": ("mode=init", "init.folder=new"),
}


@pytest.mark.parametrize("n_written", slow_except((0, 5), range(9)))
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_met_a_full_disk_does_its_work_when_there_is_room(
    command, trained, on_a_full_disk, figures_not_drawn, name, n_written
):
    pymarl_folder(Path("models/4000"), RNNAgent(), QMixer())
    code, said = on_a_full_disk(n_written, *COMMANDS[name])
    files = [path.name for path in Path("new").rglob("*")]
    assert not [file for file in files if re.search(r"\.\d+$|\.tmp", file)]
    if code != 0:
        assert re.search(r"new.* cannot be written: No space left.* Free disk space", said)
        if name == "import":
            with pytest.raises(CheckpointError):
                command("resume=new")
        if name == "init":
            assert files == []  # no half a project
        assert command(*COMMANDS[name]) == 0


def test_a_report_whose_figures_do_not_fit_says_so(command, trained, monkeypatch):
    monkeypatch.setattr("rltrain.mode.report.draw_all", full)
    with pytest.raises(StorageError, match=r"report new cannot be written: .*Free disk space"):
        command(*COMMANDS["report"])


def test_an_import_that_was_killed_is_not_resumed_with_other_weights(command):
    pymarl_folder(Path("models/4000"), RNNAgent(), QMixer())
    assert command(*IMPORT) == 0
    assert command("resume=new", "total_env_steps=4050") == 0
    shutil.rmtree("new/checkpoints")
    with pytest.raises(CheckpointError, match=r"imported weights, .* mode=import again"):
        command("resume=new")


@pytest.mark.parametrize("wanted", [[], ["load_step=all"]])
@pytest.mark.parametrize("n", [0, 1])
def test_results_that_cannot_be_written_are_printed(trained, on_a_full_disk, capsys, wanted, n):
    evaluate = ("mode=evaluate", f"checkpoint={trained}", "test.episodes=1", *wanted)
    code, said = on_a_full_disk(n, *evaluate)
    assert (code == 0) == (said == "") == (n > len(wanted))
    assert "return" in capsys.readouterr().out
    assert not list(trained.glob(".evaluation*.*.*"))


def test_an_evaluation_below_a_link_to_nothing_is_refused(command, own_folder):
    (own_folder / "outputs").symlink_to("nowhere")
    with pytest.raises(UsageError, match=r"evaluate/.* cannot be written"):
        command("mode=evaluate", "checkpoint=demo/cartpole", "record=video", "test.episodes=1")


DISK = ("buffer.storage=disk", "save.interval=40", "hydra.run.dir=run")


def weights(run):
    (newest, *_) = sorted((Path(run) / "checkpoints").glob("[0-9]*"), key=lambda p: -int(p.name))
    return (newest / "model.safetensors").read_bytes()


@pytest.fixture
def in_memory(trained_once):
    """The weights of the run in memory."""
    return weights(trained_once)


@pytest.mark.slow
def test_a_full_disk_ends_the_run_with_its_last_checkpoint_which_goes_on(
    command, single, in_memory, monkeypatch, capfd
):
    allocate, left = os.posix_fallocate, [30]

    def nearly_full(handle, offset, n_bytes):
        left[0] -= 1
        if left[0] < 0:
            raise FULL
        allocate(handle, offset, n_bytes)

    with monkeypatch.context() as patch:
        patch.setattr(disk_store, "CHUNK", 1)
        patch.setattr(disk_store.os, "posix_fallocate", nearly_full)
        assert command(*single, *DISK, "logger.console=true") == 4
    shown = said(capfd)
    assert "on disk, in run/replay" in shown
    assert "Kept: the last checkpoint" in shown
    assert "No space left on device" in get_json(Path("run/run.json"))["error"]
    assert command("resume=run") == 0
    assert weights("run") == in_memory


def test_a_copied_run_goes_on_and_a_damaged_one_names_the_file(command, single, in_memory):
    assert command(*single, *DISK, "total_env_steps=60") == 0
    shutil.move("run", "moved")
    shutil.copytree("moved", "copy")
    assert command("resume=moved", "total_env_steps=150") == 0
    assert weights("moved") == in_memory
    file = Path("copy/replay/obs.bin")
    file.unlink()
    with pytest.raises(CheckpointError, match=r"copy/replay/obs\.bin cannot be used .*weights"):
        command("resume=copy", "total_env_steps=200")
    assert {path.name for path in file.parent.iterdir()} >= {"last.bin", "reward.bin"}


@pytest.mark.slow
def test_files_that_no_checkpoint_refers_to_are_removed_at_the_end(command, single, capfd):
    folder = "buffer.folder=fast"
    assert command(*single, *DISK, "save.replay_buffer=false", folder) == 0
    assert "fast/run/replay was removed: no checkpoint refers to" in capfd.readouterr().err
    assert list(Path("fast").iterdir()) == []
    assert command("resume=run", "total_env_steps=200", "buffer.folder=fast") == 0
