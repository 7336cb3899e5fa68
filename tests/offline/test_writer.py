"""The writer: whole episodes, bounded shards, exact resumption."""

import json
from contextlib import suppress

import numpy as np
import pytest

from rltrain.common.checkpoint.fit import UNFIT
from rltrain.errors import DatasetError, EnvError, UsageError
from rltrain.offline import shards
from rltrain.offline import writer as module
from rltrain.offline.dataset import open_dataset
from rltrain.offline.shards import INDEX, shard_name
from tests.helpers import full, unchanged
from tests.offline.hand_made import SPEC, Env, change_index, play, writer, written


def first_numbers(folder):
    """What the first agent saw in every piece."""
    data = open_dataset(folder, SPEC)
    return [data.piece(i)["obs"][:, 0, 0].astype(int).tolist() for i in range(len(data.length))]


def test_episodes_come_back_as_they_ended(tmp_path):
    written(tmp_path / "d", [Env([2, 3]), Env([4, 1], first=5)], n_envs=2)
    expected = [[0, 1, 2], [500, 501, 502, 503, 504], [100, 101, 102, 103], [600, 601]]
    assert first_numbers(tmp_path / "d") == expected


def test_a_final_slot_holds_no_transition(tmp_path):
    written(tmp_path / "d", [Env([2])])
    piece = open_dataset(tmp_path / "d", SPEC).piece(0)
    assert piece["last"].tolist() == [False, False, True]
    assert piece["reward"][:, 0].tolist() == [0, 1, 0]
    assert piece["action"].tolist() == [[0, 0], [1, 1], [0, 0]]
    assert piece["probability"].tolist() == [[0.5, 0.5], [0.5, 0.5], [1, 1]]


def test_an_episode_that_is_not_over_is_not_written(tmp_path):
    written(tmp_path / "d", [Env([2, 50])], stop=20)
    assert first_numbers(tmp_path / "d") == [[0, 1, 2]]


def test_a_full_shard_is_written_without_being_asked(tmp_path):
    to = writer(tmp_path / "d", shard_steps=6)
    play(to, [Env([2, 2, 2, 2, 2])])
    assert [shard["steps"] for shard in to.shards] == [6, 6]
    index = json.loads((tmp_path / "d" / INDEX).read_text())
    assert (index["episodes"], index["transitions"]) == (4, 8)
    assert {p.name for p in (tmp_path / "d").iterdir()} == {INDEX, shard_name(0), shard_name(1)}


def test_an_episode_longer_than_a_shard_is_cut_into_pieces_that_share_an_observation(tmp_path):
    written(tmp_path / "d", [Env([7, 2])], shard_steps=4)
    expected = [[0, 1, 2, 3], [3, 4, 5, 6], [6, 7], [100, 101, 102]]
    assert first_numbers(tmp_path / "d") == expected
    data = open_dataset(tmp_path / "d", SPEC)
    assert data.whole.tolist() == [False, False, False, True]
    rewards = np.concatenate([data.piece(i)["reward"][:-1, 0] for i in range(3)])
    assert rewards.tolist() == list(range(7))
    assert not data.piece(0)["terminated"].any()


def test_memory_is_bounded_whatever_the_length_of_episodes(tmp_path):
    to = writer(tmp_path / "d", shard_steps=100)
    play(to, [Env([1000])])
    assert to.open["last"].shape == (1, 100)
    assert to.pending_steps < 100


def test_recording_ends_before_the_dataset_is_too_large(tmp_path, caplog):
    to = writer(tmp_path / "d", shard_steps=6, max_bytes=2000)
    play(to, [Env([2] * 30)])
    size = sum(p.stat().st_size for p in (tmp_path / "d").glob("*.safetensors"))
    assert to.stopped
    assert 1 <= len(to.shards) < 10
    assert size <= 2000
    assert "dataset.max_bytes=2000" in caplog.text


def test_the_first_episodes_are_kept_not_the_first_to_end(tmp_path):
    envs = [Env([6, 1, 1]), Env([1, 1, 1, 1, 1, 1], first=5)]
    written(tmp_path / "d", envs, stop=11, n_envs=2, n_episodes=3)
    expected = [[500, 501], [0, 1, 2, 3, 4, 5, 6], [100, 101]]
    assert first_numbers(tmp_path / "d") == expected


def test_the_open_episode_of_a_crashed_copy_is_forgotten(tmp_path):
    to = writer(tmp_path / "d", n_envs=2)
    play(to, [Env([5]), Env([5], first=5)], stop=3)
    to.forget(np.array([True, False]))
    play(to, [Env([9, 9, 2], first=0), Env([5], first=5)], start=3, stop=6)
    to.flush()
    assert first_numbers(tmp_path / "d") == [[500, 501, 502, 503, 504, 505]]


@pytest.mark.parametrize("stop", [1, 5, 12, 17])
def test_a_writer_goes_on_from_its_state_as_if_nothing_had_happened(tmp_path, stop):
    envs = [Env([2, 9, 2, 2]), Env([3, 3, 9], first=5)]
    whole = written(tmp_path / "a", envs, n_envs=2, shard_steps=6)
    first = writer(tmp_path / "b", n_envs=2, shard_steps=6)
    play(first, envs, stop=stop)
    state = first.state_dict()
    play(first, envs, start=stop)  # continues, and is lost
    first.flush()
    second = writer(tmp_path / "b", n_envs=2, shard_steps=6)
    second.load_state_dict(state)
    play(second, envs, start=stop)
    second.flush()
    for shard in whole.shards:
        name = shard["file"]
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert whole.shards == second.shards
    assert json.loads((tmp_path / "b" / INDEX).read_text())["shards"] == whole.shards


WRONG = [("n",), ("cut",), ("episode",), ("shards",)]
WRONG += [("open", name) for name in ("obs", "action", "reward", "probability", "last")]
WRONG += [("pending", name) for name in ("obs", "action", "avail_actions", "length", "whole")]


@pytest.mark.parametrize("path", WRONG)
def test_a_state_that_no_writer_has_is_refused(tmp_path, path):
    """Defect: a stranger's arrays were written as they were, or failed only then."""
    first = writer(tmp_path / "d")
    play(first, [Env([2, 9])], stop=6)
    writer(tmp_path / "e").load_state_dict(first.state_dict())
    *parts, name = path
    for change in (
        lambda own: np.asarray(own)[..., None],
        lambda own: np.asarray(own, complex),
        lambda own: None,
        lambda own: (
            np.full_like(own, np.nan if name in ("obs", "reward") else -7)
            if np.asarray(own).dtype != np.bool_
            else np.zeros(0, np.bool_)
        ),
    ):
        state = first.state_dict()
        node = state[parts[0]] if parts else state
        node[name] = change(node[name])
        with pytest.raises(UNFIT):
            writer(tmp_path / "e").load_state_dict(state)


def test_a_writer_goes_on_with_smaller_shards(tmp_path):
    """Defect: it looped forever where the open episode was longer than a shard."""
    envs = [Env([30]), Env([9, 30], first=5)]
    first = writer(tmp_path / "d", n_envs=2, shard_steps=100)
    play(first, envs, stop=20)
    second = writer(tmp_path / "d", n_envs=2, shard_steps=6)
    second.load_state_dict(first.state_dict())
    play(second, envs, start=20)
    second.flush()
    expected = [range(500, 510), range(21), range(600, 611), range(20, 26), range(610, 616)]
    expected += [range(25, 31), range(615, 621)]
    assert first_numbers(tmp_path / "d") == [[*piece] for piece in expected]


def test_a_writer_does_not_go_on_in_another_dataset(tmp_path):
    """Defect: its index was cut to as many shards as the run had written."""
    first, other = (writer(tmp_path / name, shard_steps=6) for name in "do")
    play(first, [Env([2] * 5)])
    play(other, [Env([2] * 9, first=3)])
    state = first.state_dict()
    (tmp_path / "d").rename(tmp_path / "kept")
    (tmp_path / "o").rename(tmp_path / "d")
    said = "/d is not the dataset that this run was saved with"
    with unchanged(tmp_path), pytest.raises(DatasetError, match=said):
        writer(tmp_path / "d").load_state_dict(state)
    writer(tmp_path / "kept").load_state_dict(state)


@pytest.mark.parametrize("identified", [True, False])
@pytest.mark.parametrize("n_written", [0, 1])
def test_a_writer_leaves_the_dataset_of_another_run_as_it_is(tmp_path, n_written, identified):
    """Defect: a run that had no shard yet emptied the index and wrote over the shards."""
    folder, env = tmp_path / "d", Env([2] * 5)
    whole, first, other = (writer(at, shard_steps=6) for at in (tmp_path / "w", folder, folder))
    play(first, [env], stop=2 + 6 * n_written)
    state = first.state_dict()
    if n_written:
        folder.rename(tmp_path / "kept")
    play(other, [env])  # whose shards are the same, byte for byte
    if not identified:
        change_index(folder, lambda index: index.pop("recording"))
    resumed, said = writer(folder, shard_steps=6), r"was recorded by another run\. Move it"
    with unchanged(folder), pytest.raises(DatasetError, match=said):
        resumed.load_state_dict(state)
    folder.rename(tmp_path / "moved")
    if n_written:
        (tmp_path / "kept").rename(folder)
    resumed = writer(folder, shard_steps=6)
    resumed.load_state_dict(state)
    for to, start in ((resumed, 2 + 6 * n_written), (whole, 0)):
        play(to, [env], start=start)
    assert resumed.shards == whole.shards
    assert resumed.state_dict()["recording"] == state["recording"]


def test_a_writer_that_went_on_without_a_shard_writes_into_a_new_folder_only(tmp_path):
    first, other = (writer(tmp_path / "d", shard_steps=6) for _ in range(2))
    state = first.state_dict()
    first.load_state_dict(state)
    play(other, [Env([2] * 5)])
    with unchanged(tmp_path), pytest.raises(EnvError, match="Another command has written"):
        play(first, [Env([2] * 5)])


@pytest.mark.parametrize("resumed", [False, True])
@pytest.mark.parametrize("there", [[shard_name(0)], ["notes.txt"], [f".{shard_name(0)}.77"]])
def test_what_no_index_lists_is_not_written_over(tmp_path, there, resumed):
    """Defect: a run that was resumed wrote over it."""
    to = writer(tmp_path / "d", shard_steps=6)
    if resumed:
        state, to = to.state_dict(), writer(tmp_path / "d", shard_steps=6)
    (tmp_path / "d").mkdir()
    for name in there:
        (tmp_path / "d" / name).write_text("mine")
    if resumed:
        to.load_state_dict(state)
    if there[0].startswith("."):  # of this run, which was killed
        play(to, [Env([2] * 5)])
        assert {p.name for p in (tmp_path / "d").glob("[!.]*")} >= {INDEX, shard_name(0)}
        return
    with pytest.raises(EnvError, match="Another command has written"):
        play(to, [Env([2] * 5)])
    assert [(tmp_path / "d" / name).read_text() for name in there] == ["mine"]


@pytest.mark.parametrize("n_written", [0, 1])
@pytest.mark.parametrize("nth", range(3))
@pytest.mark.parametrize("at", ["put_text", "write_shard"])
def test_a_run_killed_while_it_writes_continues(tmp_path, monkeypatch, at, nth, n_written):
    """Defect: killed between its first shard and the index, it was refused as another run."""
    env, start = Env([2] * 5), 6 * n_written
    to = writer(tmp_path / "d", shard_steps=6)
    play(to, [env], stop=start)
    state, left = to.state_dict(), nth
    original = getattr(shards, at)

    def killed(*args):
        nonlocal left
        written = original(*args)
        left -= 1
        if left < 0:
            raise SystemExit
        return written

    with monkeypatch.context() as patch, suppress(SystemExit):
        patch.setattr(shards if at == "put_text" else module, at, killed)
        play(to, [env], start=start)
    resumed = writer(tmp_path / "d", shard_steps=6)
    resumed.load_state_dict(state)
    play(resumed, [env], start=start)
    resumed.flush()
    assert first_numbers(tmp_path / "d") == [[100 * e + t for t in range(3)] for e in range(5)]


def test_a_folder_in_use_is_refused(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="already exists"):
        writer(tmp_path / "d").begin()


def test_of_two_that_began_at_once_the_first_to_write_keeps_the_folder(tmp_path):
    first, second = writer(tmp_path / "d"), writer(tmp_path / "d")
    for each in (first, second):
        each.begin()
        play(each, [Env([3, 2])])
    second.flush()
    with unchanged(tmp_path), pytest.raises(EnvError, match="Another command has written"):
        first.flush()


def test_a_disk_that_refuses_is_named_and_leaves_no_half_shard(tmp_path, monkeypatch):
    monkeypatch.setattr("rltrain.offline.shards.sync", full)
    to = writer(tmp_path / "d")
    play(to, [Env([2])])
    with pytest.raises(EnvError, match=r"No space left .* dataset\.max_bytes"):
        to.flush()
    assert [path.name for path in (tmp_path / "d").iterdir()] == [INDEX]


@pytest.mark.parametrize("resumed", [False, True])
@pytest.mark.parametrize("failing", ["sync", "put_text"])  # of a shard, of the index
@pytest.mark.parametrize("n_written", [0, 1])
def test_what_could_not_be_written_is_written_when_there_is_room(
    tmp_path, monkeypatch, n_written, failing, resumed
):
    """Defect: recording had ended without a message, also in a resumed run."""
    env = Env([2] * 5)
    to = writer(tmp_path / "d", shard_steps=6)
    start = 6 * n_written
    play(to, [env], stop=start)
    with monkeypatch.context() as patch:
        patch.setattr(f"rltrain.offline.shards.{failing}", full)
        with pytest.raises(EnvError, match="No space left"):
            play(to, [env], start=start, stop=start + 6)
    if resumed:
        state, to = to.state_dict(), writer(tmp_path / "d", shard_steps=6)
        to.load_state_dict(state)
    play(to, [env], start=start + 6)
    to.flush()
    assert first_numbers(tmp_path / "d") == [[100 * e + t for t in range(3)] for e in range(5)]
