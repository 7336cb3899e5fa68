"""Steps on disk: the batches of a buffer in memory, also after a kill at any moment."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rltrain.buffer import disk_store
from rltrain.common import checkpoint
from rltrain.errors import CheckpointError, FullDiskError, UsageError
from tests.buffer import episodes, replays
from tests.buffer.streams import SPEC, Stream, add
from tests.marks import slow_except

STACKED = replace(SPEC, frame_stack=3, obs_dtype="uint8")
KINDS = {
    "uniform": (replays.make, {"n_step": 2}),
    "prioritized": (replays.make, {"sampler": "proportional", "n_step": 3}),
    "stacks": (replays.make, {"spec": STACKED}),
    "sequences": (replays.make, {"sequence_length": 5, "burn_in": 2, "precision": "float16"}),
    "episodes": (episodes.make, {}),
    "few bytes": (episodes.make, {"max_bytes": 40_000}),
    "prioritized episodes": (episodes.make, {"sampler": "proportional"}),
}


@pytest.fixture(params=KINDS)
def pair(request, tmp_path):
    """Makes a buffer in memory and its equal on disk."""
    make, given = KINDS[request.param]
    twice = {**given, "max_bytes": given["max_bytes"] * 2} if "max_bytes" in given else given
    place = {"storage": "disk", "own_folder": tmp_path / "replay", "saves_steps": True}
    return lambda: (make(**given), make(**twice, **place))


def drawn(buffer):
    """Every array of a batch, with its priorities set; none before the first."""
    if not buffer.ready(4):
        return None
    batch = buffer.sample(4, replays.CLOCK)
    buffer.update_priority(batch.index, batch.reward.sum((0, 2)) + 0.1)
    names = ("obs", "avail_actions", "state", "last_action", "last", "action", "reward")
    return [
        np.asarray(getattr(batch, n)) for n in (*names, "terminated", "mask", "weight", "index")
    ]


def save(folder: Path, buffer, step: int, *, complete: bool = True) -> None:
    checkpoint.write(folder, step, {"replay": buffer.state_dict()})
    if complete:
        buffer.saved(True)


def load(folder: Path, buffer, step: int) -> None:
    buffer.load_state_dict(checkpoint.read(folder / str(step), "replay"))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", slow_except(range(2), range(8)))
def test_batches_are_those_of_memory_also_after_kills(pair, tmp_path, monkeypatch, seed):
    monkeypatch.setattr(disk_store, "LARGE", (1, 1 << 26)[seed % 2])
    rng, (memory, disk) = np.random.default_rng(seed), pair()
    stream = Stream(seed, spec=memory.spec, shortest=seed % 2)
    for step in range(30):
        add(stream.steps(int(rng.integers(1, 40)), crash=0.2), memory, disk)
        np.testing.assert_equal(drawn(memory), drawn(disk))
        if rng.random() < 0.3:
            complete = bool(rng.random() < 0.7)  # else killed before anybody knows
            save(tmp_path / "m", memory, step)
            save(tmp_path / "d", disk, step, complete=complete)
            for _ in range(0 if complete and rng.random() < 0.3 else int(rng.integers(1, 3))):
                for _ in range(int(rng.integers(1, 6)) * complete):  # lost by the kill
                    disk.add(Stream(int(rng.integers(1000)), spec=disk.spec).steps(30, crash=0.3))
                    drawn(disk)
                memory, disk = pair()
                load(tmp_path / "m", memory, step)
                load(tmp_path / "d", disk, step)
        if rng.random() < 0.4:  # a checkpoint that cannot be written
            disk.state_dict()


def test_a_checkpoint_of_steps_on_disk_is_small_and_is_not_read_elsewhere(pair, tmp_path):
    memory, disk = pair()
    add(Stream(0, spec=memory.spec).steps(90), memory, disk)
    save(tmp_path / "m", memory, 1)
    save(tmp_path / "d", disk, 1)
    size = {n: sum(f.stat().st_size for f in (tmp_path / n / "1").iterdir()) for n in "md"}
    assert size["d"] < 0.6 * size["m"]
    with pytest.raises(ValueError, match=r"on disk: use the buffer\.storage=disk"):
        load(tmp_path / "d", memory, 1)
    with pytest.raises(ValueError, match=r"in its checkpoint: use the buffer\.storage=memory"):
        load(tmp_path / "m", disk, 1)


def disk_buffer(tmp_path, **given):
    place = {"storage": "disk", "own_folder": tmp_path / "replay", "saves_steps": True}
    return replays.make(**{**place, **given})


def flipped(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


DAMAGE = {
    "flipped": lambda f: f.write_bytes(flipped(f.read_bytes(), len(f.read_bytes()) // 8)),
    "cut": lambda f: f.write_bytes(f.read_bytes()[: len(f.read_bytes()) // 8]),
    "gone": lambda f: f.unlink(),
    "link": lambda f: f.symlink_to(f.rename(f.with_name("x"))),
}


@pytest.mark.parametrize("name", ["obs", "last", "reward"])
@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_files_are_named(tmp_path, kind, name):
    buffer = disk_buffer(tmp_path)
    buffer.add(Stream(0).steps(90))
    save(tmp_path, buffer, 1)
    file = tmp_path / "replay" / f"{name}.bin"
    DAMAGE[kind](file)
    other = disk_buffer(tmp_path)
    with pytest.raises(CheckpointError, match=rf"{file} (is damaged|cannot be used).*weights"):
        load(tmp_path, other, 1)
    other.close()
    assert (tmp_path / "replay" / "state.bin").exists()


HOSTILE = {
    "blocks": lambda d: d | {"blocks": d["blocks"] + 1_000_000},
    "negative": lambda d: d | {"blocks": d["blocks"] - 5},
    "twice": lambda d: d | {"blocks": d["blocks"] * 0},
    "fewer": lambda d: d | {"blocks": d["blocks"][1:]},
    "ends": lambda d: d | {"end": d["end"] + 10**12},
    "overflow": lambda d: d | {"end": d["end"] * 0 + np.int64(2**63 - 1)},
    "sums": lambda d: d | {"sums": d["sums"][:, :2]},
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_places_that_are_none_are_refused(tmp_path, kind):
    buffer = disk_buffer(tmp_path)
    buffer.add(Stream(0).steps(90))
    state = buffer.state_dict()
    state["disk"] = HOSTILE[kind](state["disk"])
    with pytest.raises((ValueError, MemoryError, CheckpointError)):
        disk_buffer(tmp_path).load_state_dict(state)


def test_files_are_made_with_the_first_step_and_removed_where_nothing_refers_to_them(tmp_path):
    buffer = disk_buffer(tmp_path)
    assert not (tmp_path / "replay").exists()
    buffer.add(Stream(0).steps(90))
    buffer.state_dict()
    buffer.saved(True)
    buffer.close()
    assert (tmp_path / "replay").exists()
    buffer.saved(False)
    buffer.close()
    assert not (tmp_path / "replay").exists()


def test_a_full_disk_is_an_error_before_anything_is_overwritten(tmp_path, monkeypatch):
    buffer = disk_buffer(tmp_path, capacity=3000)
    monkeypatch.setattr(disk_store, "CHUNK", 1)
    buffer.add(Stream(0).steps(90))
    save(tmp_path, buffer, 1)

    def full(handle, offset, n_bytes):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(disk_store.os, "posix_fallocate", full)
        with pytest.raises(FullDiskError, match=r"No space left on device.*resume") as error:
            buffer.add(Stream(1).steps(90))
    assert error.value.exit_code == 4
    load(tmp_path, disk_buffer(tmp_path, capacity=3000), 1)


def test_a_buffer_that_would_be_larger_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"needs .* set .*buffer\.max_bytes=(\d+)") as error:
        disk_buffer(tmp_path, max_bytes=1000)
    enough = int(str(error.value).partition("buffer.max_bytes=")[2].partition(" ")[0])
    buffer = disk_buffer(tmp_path, max_bytes=enough)
    assert buffer.plan().cap_bytes == enough
    for seed in range(20):
        buffer.add(Stream(seed).steps(90))
        save(tmp_path, buffer, seed)
    used = sum(file.stat().st_size for file in (tmp_path / "replay").iterdir())
    assert used <= enough + 32 * buffer.store.bytes_per_step
    with pytest.raises(ValueError, match=r"are free for .*/replay: set buffer\.capacity"):
        disk_buffer(tmp_path, capacity=10**13, max_bytes=10**18)


def test_runs_have_folders_of_their_own_in_a_given_one(tmp_path):
    given = {"folder": str(tmp_path / "fast"), "own_folder": tmp_path / "run" / "replay"}
    buffer = disk_buffer(tmp_path, **given)
    buffer.add(Stream(0).steps(9))
    assert (tmp_path / "fast/run/replay/obs.bin").exists()
    with pytest.raises(UsageError, match=r"not empty .*Choose another buffer\.folder"):
        disk_buffer(tmp_path, **given)
    buffer.close()
    assert list((tmp_path / "fast").iterdir()) == []


@pytest.mark.parametrize(
    ("marker", "below"), [("sweep.json", "0_seed-1"), ("study.json", "t/0000")]
)
def test_runs_of_the_same_name_in_two_sweeps_do_not_share_a_folder(tmp_path, marker, below):
    """Defect: the second sweep with the same buffer.folder was refused."""
    for name in ("one", "two"):
        whole, place = tmp_path / name, {"storage": "disk", "saves_steps": True}
        whole.mkdir()
        (whole / marker).touch()
        own = {"folder": str(tmp_path / "fast"), "own_folder": whole / below / "replay"}
        replays.make(**place, **own).add(Stream(0).steps(9))
    names = [f"{name}-{below.replace('/', '-')}" for name in ("one", "two")]
    assert sorted(path.name for path in (tmp_path / "fast").iterdir()) == names
