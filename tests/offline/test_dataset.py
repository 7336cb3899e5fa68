"""Opening, refusing and reading datasets."""

from dataclasses import replace

import numpy as np
import pytest

from rltrain.common.checkpoint.fit import UNFIT
from rltrain.errors import DatasetError, UsageError
from rltrain.offline.dataset import Reader, open_dataset
from rltrain.offline.shards import INDEX, shard_name
from rltrain.types import Clock
from tests.offline.hand_made import SPEC, Env, change_index, play, writer, written


@pytest.fixture
def folder(tmp_path):
    """Ten episodes of 1 … 10 transitions in a few shards."""
    return written(tmp_path / "d", [Env(range(1, 11))], shard_steps=12).folder


@pytest.mark.parametrize("final", [False, True])
def test_only_a_final_step_may_have_no_available_action(tmp_path, final):
    """Defect: what may be recorded was refused as damaged."""
    to = writer(tmp_path / "d")
    add = to.add

    def masked(step):
        closed = step["last"] if final else step["obs"][:, 0, 0] == 1
        add({**step, "avail_actions": step["avail_actions"] & ~closed[:, None, None]})

    to.add = masked
    play(to, [Env([2, 3])])
    to.flush()
    spec = replace(SPEC, masks_actions=True)
    if final:
        assert not open_dataset(tmp_path / "d", spec).piece(0)["avail_actions"][-1].any()
        return
    with pytest.raises(DatasetError, match="without an available action"):
        open_dataset(tmp_path / "d", spec)


def test_another_environment_is_refused_with_both_sizes(folder):
    other = replace(SPEC, n_actions=5, obs_shape=(2, 3))
    theirs, ours = ("3 actions, observation 1", "5 actions, observation 2×3")
    with pytest.raises(UsageError, match=f"2 agents, {theirs},.* 2 agents, {ours},"):
        open_dataset(folder, other)


def test_a_stack_of_frames_is_a_matter_of_reading(folder):
    open_dataset(folder, replace(SPEC, frame_stack=4, max_steps=7))


def test_no_dataset_is_a_wrong_command(tmp_path):
    with pytest.raises(UsageError, match="There is no dataset"):
        open_dataset(tmp_path, SPEC)


@pytest.mark.parametrize("how", ["shorter", "missing"])
def test_a_shard_of_another_size_is_found_at_once(folder, how):
    path = folder / shard_name(1)
    path.write_bytes(path.read_bytes()[:-5]) if how == "shorter" else path.unlink()
    with pytest.raises(DatasetError, match=r"shard-00001") as caught:
        open_dataset(folder, SPEC)
    assert caught.value.exit_code == 3


def test_an_index_that_is_no_index_is_refused(folder):
    (folder / INDEX).write_text("[]")
    with pytest.raises(DatasetError, match="cannot be read"):
        open_dataset(folder, SPEC)


@pytest.mark.parametrize("name", ["../d/" + shard_name(0), "", ".", "..", "a\0b", "x" * 5_000])
def test_an_index_cannot_name_files_elsewhere(folder, name):
    change_index(folder, lambda index: index["shards"][0].update(file=name))
    with pytest.raises(DatasetError, match="not a regular file there") as found:
        open_dataset(folder, SPEC)
    assert len(str(found.value)) < 500


def test_held_out_episodes_are_spread_evenly(folder):
    data = open_dataset(folder, SPEC)
    assert np.flatnonzero(data.held_out(0.2)).tolist() == [4, 9]
    assert data.held_out(0).sum() == 0
    assert data.held_out(1).sum() == 10


def test_pieces_of_cut_episodes_are_never_held_out(tmp_path):
    to = written(tmp_path / "d", [Env([7, 2, 9])], shard_steps=4)
    data = open_dataset(to.folder, SPEC)
    assert np.flatnonzero(data.held_out(1)).tolist() == [3]


def reader(folder, chosen=None, seed=0, reward_clip=None):
    data = open_dataset(folder, SPEC)
    chosen = np.arange(len(data.length)) if chosen is None else chosen
    rng = np.random.default_rng(seed)
    return Reader(dataset=data, chosen=chosen, rng=rng, reward_clip=reward_clip)


def numbers(steps):
    return steps.obs[:, 0, 0, 0].astype(int).tolist()


def test_rewards_are_clipped_as_in_training(folder):
    """Defect: env.reward_clip changed nothing, and evaluations record rewards as they are."""
    whole, clipped = (reader(folder, reward_clip=x).collect(40, Clock()) for x in (None, 3.0))
    assert whole.reward.max() > 3
    assert (clipped.reward == whole.reward.clip(-3, 3)).all()


def test_every_piece_is_read_once_in_a_pass_and_passes_differ(folder):
    source, passes = reader(folder), []
    for _ in range(2):
        seen = numbers(source.collect(40, Clock()))
        while len(source.order):
            seen += numbers(source.collect(5, Clock()))
        passes.append(seen)
    assert passes[0] != passes[1]
    assert sorted(passes[0]) == sorted(passes[1])
    assert len(passes[0]) == sum(range(2, 12))


def test_as_many_transitions_are_read_as_were_asked_for(folder):
    source, read = reader(folder), 0
    for n in range(1, 200):
        read += source.collect(3, Clock()).env_steps
        assert 3 * n - 3 < read < 3 * n + 10  # an episode too many at most


def test_a_reader_goes_on_from_its_state(folder):
    whole, first, second = reader(folder), reader(folder), reader(folder, seed=9)
    for _ in range(4):
        whole.collect(7, Clock())
        first.collect(7, Clock())
    second.load_state_dict(first.state_dict())
    for _ in range(10):
        assert numbers(whole.collect(7, Clock())) == numbers(second.collect(7, Clock()))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("order", x) for x in ([0.0], [[0]], [-1], [99], [0, 0], [True], "x", None)),
        *((name, x) for name in ("passes", "ahead") for x in (0.5, 10**18, "x", None)),
        *(("rng", x) for x in (None, {}, {"bit_generator": "PCG64", "state": {"state": -1}})),
    ],
)
def test_a_state_that_no_reader_has_is_refused(folder, name, value):
    """Defect: it read what was held out, or failed at the first batch."""
    given = np.array(value) if name == "order" and value is not None else value
    with pytest.raises(UNFIT):
        reader(folder).load_state_dict({**reader(folder).state_dict(), name: given})


def test_a_reader_does_not_go_on_with_another_dataset(folder, tmp_path):
    """Defect: of another dataset only the number of pieces was compared."""
    state = reader(folder).state_dict()
    written(tmp_path / "other", [Env(range(1, 11), first=1)], shard_steps=12)
    folder.rename(tmp_path / "first")
    (tmp_path / "other").rename(folder)
    with pytest.raises(DatasetError, match=r"/d is not the dataset that this run was saved with"):
        reader(folder).load_state_dict(state)
    reader(tmp_path / "first").load_state_dict(state)  # wherever it lies


def test_only_chosen_pieces_are_read(folder):
    source = reader(folder, chosen=np.array([2]))
    assert numbers(source.collect(3, Clock())) == [200, 201, 202, 203]
