"""A checkpoint is complete or it is not there; what was changed is noticed."""

import gc
import json
import math
import os
import struct
import weakref

import numpy as np
import pytest
import torch

from rltrain.common import checkpoint
from rltrain.common.checkpoint import run_checkpoints, storage
from rltrain.errors import CheckpointError, UsageError
from rltrain.types import Pieces
from tests.helpers import full

STATE = {
    "weights": {"a.b": torch.arange(6.0).view(2, 3), "empty": torch.zeros(0)},
    "rng": np.array([2**63 + 5, 1], np.uint64),
    "flags": np.array([True, False]),
    "big": 2**127 + 1,
    "list": [1, 2.5, None, "x", {"deep": np.int64(3)}],
}


def make(folder, step, kind="full", state=STATE):
    return checkpoint.write(folder, step, {"model": state, "note": {"x": 1}}, kind)


def test_state_survives_bit_for_bit(tmp_path):
    back = checkpoint.read(make(tmp_path, 5), "model")
    assert torch.equal(back["weights"]["a.b"], STATE["weights"]["a.b"])
    assert (back["weights"]["empty"].shape, back["rng"].dtype) == ((0,), np.uint64)
    assert back["rng"].tolist() == STATE["rng"].tolist()
    assert (back["flags"].tolist(), back["big"]) == ([True, False], STATE["big"])
    assert back["list"] == [1, 2.5, None, "x", {"deep": 3}]
    assert not list(tmp_path.glob(".tmp*"))


@pytest.mark.parametrize("where", ["start", "middle", "end"])
@pytest.mark.parametrize("file", ["model.safetensors", "model.json", "note.json"])
def test_one_changed_byte_is_noticed(tmp_path, file, where):
    path = make(tmp_path, 5) / file
    data = bytearray(path.read_bytes())
    data[{"start": 0, "middle": len(data) // 2, "end": -1}[where]] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(CheckpointError, match=file):
        checkpoint.find(tmp_path / "5")


def test_of_many_damaged_checkpoints_the_first_are_named(tmp_path):
    """Defect: a line for each."""
    for step in range(33):
        path = make(tmp_path, step) / "model.json"
        path.write_text("{}")
    with pytest.raises(CheckpointError) as refused:
        checkpoint.find(tmp_path)
    lines = str(refused.value).splitlines()
    assert len(lines) == 5
    assert lines[1].startswith("Skipped checkpoint 32: ")
    assert lines[-1] == "Skipped 30 more that cannot be read."
    sound = make(tmp_path, 5).parent
    assert checkpoint.find(sound).remarks == (*lines[1:4], "Skipped 24 more that cannot be read.")


@pytest.mark.parametrize("harm", ["truncate", "delete", "symlink", "folder"])
def test_broken_files_are_noticed(tmp_path, harm):
    path = make(tmp_path, 5) / "model.safetensors"
    data = path.read_bytes()
    path.unlink()
    if harm == "truncate":
        path.write_bytes(data[:-7])
    elif harm == "symlink":
        (tmp_path / "elsewhere").write_bytes(data)
        path.symlink_to(tmp_path / "elsewhere")
    elif harm == "folder":
        path.mkdir()
    with pytest.raises(CheckpointError):
        checkpoint.find(tmp_path / "5")


@pytest.mark.parametrize(
    "manifest",
    ["", "[]", "{}", '{"format": 99, "files": {}}', '{"format": 1, "files": {"../x": {}}}'],
)
def test_hostile_manifests_are_refused(tmp_path, manifest):
    (make(tmp_path, 5) / "manifest.json").write_text(manifest)
    with pytest.raises(CheckpointError):
        checkpoint.find(tmp_path / "5")


def test_the_newest_valid_checkpoint_is_taken_and_the_broken_one_named(tmp_path):
    for step in (100, 200, 300):
        make(tmp_path / "checkpoints", step)
    (tmp_path / "checkpoints/300/model.safetensors").write_bytes(b"x")
    found = checkpoint.find(tmp_path)
    assert found.step == 200
    assert "300" in found.remarks[0]


@pytest.mark.parametrize(
    ("path", "load_step", "full", "step"),
    [
        ("", None, False, 250),
        ("", None, True, 200),  # a resume passes over those that hold weights only
        ("", 220, False, 200),  # the nearest
        ("", 0, False, 100),
        ("best", None, False, 100),
        ("", "best", False, 100),
    ],
)
def test_which_checkpoint_a_path_and_a_step_refer_to(tmp_path, path, load_step, full, step):
    for at in (100, 200):
        make(tmp_path, at)
    make(tmp_path, 250, "weights")
    checkpoint.name_pointer(tmp_path, "best", 100)
    assert checkpoint.find(tmp_path / path, load_step, full=full).step == step


@pytest.mark.parametrize("path", ["nothing", "nothing/7"])
def test_a_missing_checkpoint_says_what_was_expected(tmp_path, path):
    with pytest.raises(CheckpointError, match="no checkpoint at"):
        checkpoint.find(tmp_path / path)


def test_prune_keeps_the_newest_and_the_best(tmp_path):
    for step in (100, 200, 300, 400):
        make(tmp_path, step)
    make(tmp_path, 150, "weights")
    make(tmp_path, 250, "weights")
    checkpoint.name_pointer(tmp_path, "best", 150)
    run_checkpoints.prune(tmp_path, 2)
    assert checkpoint.list_steps(tmp_path) == [400, 300, 150]


@pytest.mark.parametrize("damaged", [False, True])
def test_no_folder_with_other_files_is_deleted(tmp_path, damaged):
    """Defect: all folders named after later steps were deleted, with what was in them."""
    foreign = {tmp_path / "350" / "notes.txt", tmp_path / "20240101" / "x" / "y"}
    for step in (100, 200, 300, 350):
        make(tmp_path, step)
    for file in foreign:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("kept")
    if damaged:
        (tmp_path / "300" / "manifest.json").unlink()
        (tmp_path / "300" / "note.json").unlink()
    checkpoint.drop_later(tmp_path, 200)
    run_checkpoints.prune(tmp_path, 1)
    checkpoint.make_latest(tmp_path, 200, 1, "note")
    assert checkpoint.list_steps(tmp_path) == [20240101, 350, 200]
    assert {path.read_text() for path in foreign} == {"kept"}


def drop(folder, part):
    """Remove a part, which leaves a valid checkpoint without its files."""
    run_checkpoints.drop_part(folder, part)
    checkpoint.checked_manifest(folder)
    assert not list(folder.glob(f"{part}*"))


def test_a_dropped_part_leaves_a_valid_checkpoint(tmp_path):
    folder = make(tmp_path, 5)
    drop(folder, "model")
    assert checkpoint.read(folder, "note") == {"x": 1}


def test_a_failed_write_leaves_the_old_checkpoint(tmp_path):
    make(tmp_path, 5)
    with pytest.raises(TypeError):
        make(tmp_path, 5, state={"thing": object()})
    checkpoint.checked_manifest(tmp_path / "5")
    assert [p.name for p in tmp_path.iterdir()] == ["5"]


def test_the_same_step_is_replaced(tmp_path):
    make(tmp_path, 5, "weights")
    folder = make(tmp_path, 5, "full")
    assert json.loads((folder / "manifest.json").read_text())["kind"] == "full"


def test_large_arrays_are_written_in_pieces_and_mapped_back(tmp_path):
    whole = np.arange(30, dtype=np.float16).reshape(10, 3)
    pieces = Pieces(whole.shape, whole.dtype, lambda: iter([whole[:4], whole[4:]]))
    folder = checkpoint.write(tmp_path, 1, {"replay": {"steps": pieces, "n": 2}})
    back = checkpoint.read(folder, "replay")
    assert isinstance(back["steps"], np.memmap)
    np.testing.assert_array_equal(back["steps"], whole)
    drop(folder, "replay")


def test_the_arrays_that_were_saved_are_freed_at_once(tmp_path):
    """Defect: a reference cycle kept them until the garbage collector ran, and memory grew."""
    array = np.zeros(3)
    kept, tensor = weakref.ref(array), torch.from_numpy(array)
    gc.collect()
    gc.disable()
    try:
        make(tmp_path, 5, state={"array": array, "tensor": tensor})
        del array, tensor
        assert kept() is None
    finally:
        gc.enable()


def test_arrays_of_objects_are_not_read(tmp_path):
    folder = make(tmp_path, 5)
    np.save(folder / "model.evil.npy", np.array([{}], object), allow_pickle=True)
    assert "evil" not in checkpoint.read(folder, "model")  # the manifest does not list it
    run_checkpoints.seal(folder, "full")
    with pytest.raises(CheckpointError):
        checkpoint.read(folder, "model")


HEADERS = [
    "",
    "(",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 9)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999999,)}",
    "{'descr': '|O', 'fortran_order': False, 'shape': (1,)}",
    "{'descr': 'nonsense', 'fortran_order': False, 'shape': (1,)}",
    "{'descr': [('a', '<f4', 10**9)], 'fortran_order': 3, 'shape': 'x'}",
    "{'descr': " + "[" * 3000 + "]" * 3000 + ", 'fortran_order': False, 'shape': ()}",
    "1 if 1 else\n 2",
    "\t\n'",
]
FILES = [b"", b"\x93", b"\x93NUMPY", b"\x93NUMPY\x09\x09\xff\xff", b"PK\x03\x04", b"\x80\x04N."] + [
    b"\x93NUMPY" + version + struct.pack(size, len(header)) + header.encode()
    for version, size in ((b"\x01\x00", "<H"), (b"\x02\x00", "<I"), (b"\x03\x00", "<I"))
    for header in HEADERS
]


@pytest.mark.parametrize("text", FILES, ids=range(len(FILES)))
def test_what_is_no_array_is_refused(tmp_path, text):
    folder = make(tmp_path, 5)
    (folder / "model.odd.npy").write_bytes(text)
    run_checkpoints.seal(folder, "full")
    with pytest.raises(CheckpointError, match="model"):
        checkpoint.read(folder, "model")


@pytest.mark.parametrize("name", [*"0123456789abcdef"[::5], "kind", "bytes", "format"])
def test_any_change_of_the_manifest_is_noticed(tmp_path, name):
    path = make(tmp_path, 5) / "manifest.json"
    text = path.read_text()
    at = text.index(name) + len(name) - 1
    path.write_text(text[:at] + ("1" if text[at] == "0" else "0") + text[at + 1 :])
    with pytest.raises(CheckpointError, match="manifest"):
        checkpoint.find(tmp_path / "5")


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"x": ' * 100_000, '{"a": 1, "a": 2}', "1" * 10_000, "\ud800"]
)
def test_json_that_is_deep_ambiguous_or_huge_is_refused(tmp_path, text):
    folder = make(tmp_path, 5)
    (folder / "note.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    run_checkpoints.seal(folder, "full")
    with pytest.raises(CheckpointError):
        checkpoint.read(folder, "note")


def test_a_kill_between_the_two_renames_of_a_replacement_loses_nothing(tmp_path, monkeypatch):
    """Defect: the checkpoint of that step was gone, with it the run's only one."""
    make(tmp_path, 5)
    renames = []

    def killed(source, target):
        renames.append(source)
        if len(renames) == 3:  # after the manifest's and the old checkpoint's
            raise SystemExit
        replace(source, target)

    replace = os.replace
    monkeypatch.setattr(os, "replace", killed)
    monkeypatch.setattr(storage, "restore_replaced", lambda parent: None)
    with pytest.raises(SystemExit):
        make(tmp_path, 5)
    monkeypatch.undo()
    with pytest.raises(CheckpointError):
        checkpoint.find(tmp_path)
    checkpoint.restore_replaced(tmp_path)
    assert checkpoint.find(tmp_path, full=True).step == 5


def test_what_killed_processes_left_is_removed_with_the_next_latest(tmp_path):
    """Defect: a replay whose removal was interrupted stayed, with names of temporary files."""
    for step in (5, 10):
        make(tmp_path, step)
    manifest = run_checkpoints.stored_manifest(tmp_path / "5")
    note = {"note.json": manifest["files"]["note.json"]}
    run_checkpoints.put_manifest(tmp_path / "5", {**manifest, "files": note})
    for name in (".best.77", ".latest.78", "5/.manifest.json.79"):
        (tmp_path / name).write_text("7")
    (tmp_path / ".tmp-1-2").mkdir()
    checkpoint.make_latest(tmp_path, 10, 2, "model")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["10", "5", "latest"]
    assert {p.name for p in (tmp_path / "5").iterdir()} == {"manifest.json", *note}
    checkpoint.checked_manifest(tmp_path / "10")


def test_the_folder_of_a_run_that_was_deleted_is_not_made_again(tmp_path):
    with pytest.raises(FileNotFoundError):
        checkpoint.write(tmp_path / "run/checkpoints", 100, {"model": {}})
    assert not list(tmp_path.iterdir())


def test_an_interruption_between_both_renames_of_a_replacement_loses_nothing(tmp_path, monkeypatch):
    make(tmp_path, 5)
    before = run_checkpoints.stored_manifest(tmp_path / "5")

    def interrupted(source, target):
        if ".tmp-5-" in str(source) and not str(source).endswith("-replaced"):
            raise KeyboardInterrupt
        replace(source, target)

    replace = os.replace
    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path, 5)
    assert run_checkpoints.stored_manifest(tmp_path / "5") == before
    assert [path.name for path in tmp_path.iterdir()] == ["5"]


def test_of_a_copy_that_fails_nothing_is_left(tmp_path, monkeypatch):
    """Defect: a folder of half a checkpoint stayed."""
    source = make(tmp_path / "source", 5)
    monkeypatch.setattr(storage.shutil, "copy", full)
    with pytest.raises(OSError, match="No space"):
        checkpoint.copy_weights(source, tmp_path / "copies/one")
    assert not [*(tmp_path / "copies").iterdir()]


@pytest.mark.parametrize("load_step", [math.nan, math.inf, -math.inf])
def test_a_step_that_is_not_finite_is_refused(tmp_path, load_step):
    """Defect: it was the newest one."""
    make(tmp_path, 5)
    with pytest.raises(UsageError, match="expected the env step"):
        checkpoint.find(tmp_path, load_step)


def test_a_checkpoint_without_one_of_its_tensors_is_named(tmp_path):
    folder = checkpoint.write(tmp_path, 5, {"model": {"weight": torch.ones(2)}}, "weights")
    tree = folder / "model.json"
    tree.write_text(
        tree.read_text().replace('"weight"}', '"other"}').replace(': "weight"', ': "other"')
    )
    with pytest.raises(CheckpointError, match=rf"{folder}: 'model' .*tensor 'other' is missing"):
        checkpoint.read(folder, "model")
