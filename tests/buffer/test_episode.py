"""Episodes stored and sampled by EpisodeBuffer, also by priority, against plain Python lists."""

from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from rltrain.buffer import windows
from rltrain.buffer.episode import EpisodeBuffer
from rltrain.buffer.store import BLOCK
from rltrain.types import Clock, EnvSpec
from tests.buffer.episodes import (
    CLOCK,
    STEP_BYTES,
    PlainBuffer,
    assert_holds_the_newest,
    make,
)
from tests.buffer.streams import SPEC, Stream, add, saved
from tests.marks import slow_except


@pytest.mark.parametrize("seed", slow_except([0, 1], range(8)))
def test_random_streams_are_stored_as_plain_lists_store_them(seed: int, monkeypatch) -> None:
    monkeypatch.setattr(windows, "LARGE", (1, 1 << 24)[seed % 2])
    rng = np.random.default_rng(seed)
    capacity = int(rng.integers(1, 40))
    buffer, plain, stream = make(capacity=capacity), PlainBuffer(3), Stream(seed)
    for _ in range(60):
        add(stream.steps(int(rng.integers(1, 90)), crash=0.1), buffer, plain)
        assert buffer.n_episodes == min(capacity, len(plain.episodes))
    assert_holds_the_newest(buffer, plain)


@pytest.mark.parametrize("seed", slow_except([0, 1], range(4)))
def test_a_byte_limit_keeps_the_newest_that_fit(seed: int) -> None:
    max_bytes = 14 * BLOCK * STEP_BYTES
    buffer, plain, stream = make(capacity=1000, max_bytes=max_bytes), PlainBuffer(3), Stream(seed)
    for _ in range(50):
        add(stream.steps(7, crash=0.05), buffer, plain)
        assert buffer.store.bytes_in_use <= max_bytes
    assert_holds_the_newest(buffer, plain)
    assert 0 < buffer.n_episodes < len(plain.episodes)
    assert buffer.store.bytes_in_use > max_bytes // 2


def test_one_add_may_hold_more_steps_than_the_buffer() -> None:
    max_bytes = 14 * BLOCK * STEP_BYTES
    buffer, plain, stream = make(capacity=1000, max_bytes=max_bytes), PlainBuffer(3), Stream(0)
    add(stream.steps(2000), buffer, plain)
    assert_holds_the_newest(buffer, plain)
    assert buffer.store.bytes_in_use <= max_bytes


def test_capacity_is_reached_exactly_by_full_length_episodes() -> None:
    buffer, stream = make(capacity=5, n_envs=2), Stream(0, n_envs=2, longest=1)
    for _ in range(10):
        stream.left[:] = SPEC.max_steps
        buffer.add(stream.steps(13))
    assert (buffer.n_episodes, buffer.n_steps) == (5, 5 * 12)


def test_a_crashed_environment_drops_its_open_episode_only() -> None:
    buffer = make(n_envs=2)
    stream = Stream(0, n_envs=2)
    stream.left[:] = 9
    buffer.add(stream.steps(4))
    stream.left[:] = (3, 5)  # environment 0 crashed and begins an episode of 3; 1 has 5 to go
    after = stream.steps(6)
    buffer.add(replace(after, lost=np.array([True, False])))
    batch = buffer.sample(2, CLOCK)
    assert batch.mask.sum(0).tolist() == [9, 3]
    np.testing.assert_array_equal(batch.state[:4, 1], after.state[:4, 0])


def test_an_episode_can_be_sampled_only_with_its_final_step() -> None:
    buffer, stream = make(n_envs=1), Stream(0, n_envs=1)
    stream.left[:] = 3
    buffer.add(stream.steps(3))
    assert not buffer.ready(1)
    buffer.add(stream.steps(1))
    assert buffer.ready(1)
    assert not buffer.ready(2)


def test_an_episode_without_a_transition_is_not_kept() -> None:
    buffer, stream = make(n_envs=1), Stream(0, n_envs=1)
    stream.left[:] = 0
    buffer.add(stream.steps(1))
    assert buffer.n_episodes == 0
    stream.left[:] = 2
    steps = stream.steps(3)
    buffer.add(steps)
    np.testing.assert_array_equal(buffer.sample(1, CLOCK).state[:, 0], steps.state[:, 0])


def test_dtypes_and_shapes_are_those_of_a_batch() -> None:
    buffer, stream = make(), Stream(0)
    buffer.add(stream.steps(100))
    batch = buffer.sample(4, CLOCK)
    n_steps = len(batch.action)
    found = {
        f.name: (tuple(getattr(batch, f.name).shape), getattr(batch, f.name).dtype)
        for f in fields(batch)
        if isinstance(getattr(batch, f.name), torch.Tensor)
    }
    assert found == {
        "obs": ((n_steps + 1, 4, 2, 4), torch.float32),
        "avail_actions": ((n_steps + 1, 4, 2, 3), torch.bool),
        "state": ((n_steps + 1, 4, 5), torch.float32),
        "last_action": ((n_steps + 1, 4, 2), torch.int64),
        "last": ((n_steps + 1, 4), torch.bool),
        "action": ((n_steps, 4, 2), torch.int64),
        "reward": ((n_steps, 4, 2), torch.float32),
        "terminated": ((n_steps, 4), torch.bool),
        "mask": ((n_steps, 4), torch.bool),
        "weight": ((4,), torch.float32),
        "index": ((4,), torch.int64),
    }


def test_windows_are_sorted_and_cut_to_the_longest() -> None:
    buffer, stream = make(), Stream(1)
    buffer.add(stream.steps(100))
    for _ in range(20):
        batch = buffer.sample(5, CLOCK)
        length = batch.mask.sum(0).tolist()
        assert length == sorted(length, reverse=True)
        assert length[0] == len(batch.action)
        assert len(set(batch.index.tolist())) == 5


def test_padding_leaves_action_0_available() -> None:
    buffer, stream = make(), Stream(1)
    buffer.add(stream.steps(100))
    batch = buffer.sample(8, CLOCK)
    behind = batch.last.cumsum(0) > 1  # [T+1, B]
    assert behind.any()
    only = torch.tensor([True, False, False]).expand(int(behind.sum()), 2, 3)
    assert torch.equal(batch.avail_actions[behind], only)


def test_every_episode_is_equally_likely() -> None:
    buffer, stream = make(capacity=10), Stream(1)
    buffer.add(stream.steps(200))
    drawn = torch.cat([buffer.sample(3, CLOCK).index for _ in range(1000)])
    count = torch.unique(drawn, return_counts=True)[1]
    assert len(count) == 10
    assert float((count - 300).abs().max()) < 72  # five standard deviations


def test_update_priority_changes_nothing() -> None:
    one, other, stream = make(), make(), Stream(0)
    add(stream.steps(100), one, other)
    one.update_priority(torch.arange(3), torch.tensor([9.0, 0.0, 1.0]))
    assert torch.equal(one.sample(4, CLOCK).index, other.sample(4, CLOCK).index)


def test_float16_rounds_obs_and_state_and_nothing_else() -> None:
    half, full, stream = make(precision="float16"), make(), Stream(3)
    add(stream.steps(60), half, full)
    a, b = half.sample(4, CLOCK), full.sample(4, CLOCK)
    assert torch.equal(a.state, b.state.half().float())
    assert not torch.equal(a.state, b.state)
    assert torch.equal(a.reward, b.reward)
    assert a.state.dtype == torch.float32


def test_images_stay_bytes_and_come_back_as_the_same_numbers() -> None:
    spec = EnvSpec(n_agents=2, n_actions=3, obs_shape=(3, 4), obs_dtype="uint8", max_steps=12)
    buffer, plain, stream = make(spec=spec), PlainBuffer(3), Stream(0, spec=spec)
    add(stream.steps(60), buffer, plain)
    batch = buffer.sample(2, CLOCK)
    episode = plain.episodes[int(batch.index[0])]
    np.testing.assert_array_equal(batch.obs[:, 0], np.stack([s["obs"] for s in episode]))
    assert (batch.obs.dtype, batch.state.shape[2]) == (torch.float32, 0)


@pytest.mark.parametrize("n_frames", [2, 8, 40])
def test_stacked_frames_repeat_the_first_of_their_episode_and_never_those_of_another(n_frames):
    spec = replace(SPEC, frame_stack=n_frames)
    buffer, plain, stream = make(spec=spec), PlainBuffer(3), Stream(1, spec=spec)
    for _ in range(6):
        add(stream.steps(21, crash=0.2), buffer, plain)
    assert buffer.sample(3, CLOCK).obs.shape[2:] == (2, 4 * n_frames)
    assert_holds_the_newest(buffer, plain)


def test_stacked_images_grow_along_their_channels_and_stay_bytes() -> None:
    shape = {"obs_shape": (2, 5, 5), "obs_dtype": "uint8"}
    spec = EnvSpec(n_agents=2, n_actions=3, n_rewards=2, frame_stack=3, **shape)
    buffer, plain, stream = make(spec=spec), PlainBuffer(3), Stream(2, spec=spec)
    add(stream.steps(60), buffer, plain)
    assert buffer.sample(3, CLOCK).obs.shape[2:] == (2, 6, 5, 5)
    assert_holds_the_newest(buffer, plain)
    assert buffer.store.arrays["obs"].dtype == np.uint8


def test_every_frame_of_a_stack_is_stored_once() -> None:
    single, stacked = make(), make(spec=replace(SPEC, frame_stack=8))
    add(Stream(0).steps(60), single, stacked)
    assert stacked.plan().bytes_per_step == single.plan().bytes_per_step == STEP_BYTES
    assert stacked.store.bytes_in_use == single.store.bytes_in_use


def filled(**given) -> EpisodeBuffer:
    buffer = make(sampler="proportional", alpha=1.0, total_env_steps=100, **given)
    stream = Stream(3)
    while buffer.n_episodes < 12 and not buffer.full:
        buffer.add(stream.steps(4))
    return buffer


def drawn(buffer, n=3000, clock=CLOCK):
    batch = buffer.sample(n, clock)
    return batch.index.numpy(), batch.weight.numpy()


def test_new_episodes_are_drawn_alike():
    buffer = filled()
    index, weight = drawn(buffer)
    counts = np.bincount(index - index.min(), minlength=buffer.n_episodes)
    assert (weight == 1).all()
    np.testing.assert_allclose(counts / len(index), 1 / buffer.n_episodes, atol=0.01)


@pytest.mark.parametrize(("env_steps", "beta"), [(0, 0.4), (50, 0.7), (200, 1.0)])
def test_episodes_are_drawn_by_priority_and_weighed_against_it(env_steps, beta):
    buffer = filled()
    ids = np.unique(drawn(buffer)[0])
    priority = np.arange(1, len(ids) + 1)
    buffer.update_priority(torch.from_numpy(ids), torch.from_numpy(priority / 10))
    index, weight = drawn(buffer, clock=Clock(env_steps=env_steps))
    counts = np.bincount(index - ids[0], minlength=len(ids))
    np.testing.assert_allclose(counts / len(index), priority / priority.sum(), atol=0.01)
    expected = (priority[index - ids[0]].astype(float)) ** -beta
    np.testing.assert_allclose(weight, expected / expected.max(), rtol=1e-3)


def test_a_priority_of_an_episode_that_was_removed_is_dropped():
    buffer = filled(capacity=6)
    oldest = drawn(buffer)[0].min()
    stale = torch.tensor([oldest - 1, oldest])  # the row of the first is the newest episode's
    buffer.update_priority(stale, torch.tensor([1e9, 1e-3]))
    index, _ = drawn(buffer)
    assert (index == oldest).mean() < 0.01
    counts = np.bincount(index - oldest, minlength=6)[1:]
    np.testing.assert_allclose(counts / len(index), 1 / 5, atol=0.02)


def test_a_restored_buffer_draws_the_same_episodes():
    buffer = filled()
    ids = torch.from_numpy(np.unique(drawn(buffer)[0]))
    buffer.update_priority(ids, torch.rand(len(ids)))
    other = make(sampler="proportional", alpha=1.0, total_env_steps=100)
    other.load_state_dict(saved(buffer))
    np.testing.assert_equal(drawn(buffer), drawn(other))


def test_a_smaller_buffer_restores_the_priorities_of_the_episodes_it_keeps():
    buffer = filled()
    ids = np.unique(drawn(buffer)[0])
    priority = np.arange(1, len(ids) + 1)
    buffer.update_priority(torch.from_numpy(ids), torch.from_numpy(priority / 10))
    small = make(sampler="proportional", alpha=1.0, total_env_steps=100, capacity=6)
    small.load_state_dict(saved(buffer))
    index, _ = drawn(small)
    counts = np.bincount(index - ids[-6], minlength=6)
    np.testing.assert_allclose(counts / len(index), priority[-6:] / priority[-6:].sum(), atol=0.02)
