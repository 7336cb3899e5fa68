"""Runs with their replay on disk: the bytes of memory, a full disk, damage, and what is left."""

import os
import shutil
from pathlib import Path

import pytest

from rltrain import main as entry
from rltrain.buffer import disk_store
from rltrain.common.files import get_json
from rltrain.errors import CheckpointError
from tests.conftest import SMALL

DISK = ("buffer.storage=disk", "save.interval=40", "hydra.run.dir=run")


def weights(run):
    (newest, *_) = sorted((Path(run) / "checkpoints").glob("[0-9]*"), key=lambda p: -int(p.name))
    return (newest / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def in_memory(tmp_path_factory):
    """The weights of the run in memory."""
    folder = tmp_path_factory.mktemp("runs") / "memory"
    assert entry.run([*SMALL, "save.interval=40", f"hydra.run.dir={folder}"]) == 0
    return weights(folder)


@pytest.mark.slow
def test_a_full_disk_ends_the_run_with_its_last_checkpoint_which_goes_on(
    command, single, in_memory, monkeypatch, capfd
):
    allocate, left = os.posix_fallocate, [30]

    def nearly_full(handle, offset, n_bytes):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        allocate(handle, offset, n_bytes)

    with monkeypatch.context() as patch:
        patch.setattr(disk_store, "CHUNK", 1)
        patch.setattr(disk_store.os, "posix_fallocate", nearly_full)
        assert command(*single, *DISK, "logger.console=true") == 4
    said = " ".join(capfd.readouterr().out.replace("│", " ").split())
    assert "on disk, in run/replay" in said
    assert "Kept: the last checkpoint" in said
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
