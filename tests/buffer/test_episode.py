"""Replay against a plain Python one, and everything it promises: layout, room, state, refusals."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch

from rltrain.buffer.episode import EpisodeBuffer
from rltrain.buffer.fields import bytes_per_step
from rltrain.buffer.store import BLOCK
from rltrain.common.seeding import generator
from rltrain.types import (
    Batch,
    Clock,
    EnvSpec,
    Steps,
)
from tests.buffer.streams import SPEC, Stream, stack_frames

STEP_BYTES = bytes_per_step(SPEC, "float32")
CLOCK = Clock()


def make(**given: Any) -> EpisodeBuffer:
    values: dict[str, Any] = {
        "spec": SPEC,
        "n_envs": 3,
        "device": torch.device("cpu"),
        "rng": generator(7, 4),
        "capacity": 20,
        "max_bytes": None,
        "storage": "float32",
    }
    return EpisodeBuffer(**{**values, **given})


def saved(buffer: EpisodeBuffer) -> dict[str, Any]:
    """A replay's state with its pieces put together, as a checkpoint gives it back."""
    pieces = {k: np.asarray(v) for k, v in buffer.state_dict().items() if k.startswith("steps.")}
    return {**buffer.state_dict(), **pieces}


class PlainBuffer:
    """Lists of steps: every finished episode since the beginning, by age."""

    def __init__(self, n_envs: int) -> None:
        self.episodes: list[list[dict[str, np.ndarray]]] = []
        self.open: list[list[dict[str, np.ndarray]]] = [[] for _ in range(n_envs)]

    def add(self, steps: Steps) -> None:
        names = [f.name for f in fields(steps) if f.name not in ("lost", "episodes", "hidden")]
        for e in np.flatnonzero(steps.lost):
            self.open[e] = []
        for t in range(len(steps.last)):
            for e, episode in enumerate(self.open):
                episode.append({name: getattr(steps, name)[t, e] for name in names})
                if steps.last[t, e]:
                    self.episodes.append(episode)
                    self.open[e] = []


def assert_window_is_episode(
    batch: Batch, b: int, episode: list[dict[str, np.ndarray]], n_frames: int = 1
) -> None:
    """Window b shows the whole episode, step by step, and padding behind it."""
    length, n_steps = len(episode) - 1, len(batch.obs)
    frames = np.stack([step["obs"] for step in episode])
    stacked = stack_frames(frames, np.arange(length + 1) == length, n_frames)
    for t in range(n_steps):
        real = t <= length
        step = episode[t] if real else None
        obs = stacked[t] if real else np.zeros_like(stacked[0])
        np.testing.assert_array_equal(batch.obs[t, b], obs.astype(np.float32))
        state = np.zeros_like(episode[0]["state"]) if step is None else step["state"]
        np.testing.assert_array_equal(batch.state[t, b], state)
        assert bool(batch.last[t, b]) == (t >= length)
        if step is not None:
            np.testing.assert_array_equal(batch.avail_actions[t, b], step["avail_actions"] != 0)
        before = episode[t - 1]["action"] if 0 < t <= length else np.full(2, -1)
        np.testing.assert_array_equal(batch.last_action[t, b], before)
    for t in range(n_steps - 1):
        acted = t < length
        assert bool(batch.mask[t, b]) == acted
        assert bool(batch.terminated[t, b]) == (acted and bool(episode[t]["terminated"]))
        want = episode[t]["action"] if acted else np.zeros(2)
        np.testing.assert_array_equal(batch.action[t, b], want)
        want = episode[t]["reward"] if acted else np.zeros(2)
        np.testing.assert_array_equal(batch.reward[t, b], want)


def assert_holds_the_newest(buffer: EpisodeBuffer, plain: PlainBuffer) -> None:
    """All that can be sampled are the newest episodes of the plain buffer, bit for bit."""
    n = buffer.n_episodes
    assert buffer.n_steps == sum(len(e) - 1 for e in plain.episodes[len(plain.episodes) - n :])
    if n == 0:
        return
    batch = buffer.sample(n, CLOCK)
    total = len(plain.episodes)
    assert sorted(batch.index.tolist()) == list(range(total - n, total))
    for b, episode in enumerate(batch.index.tolist()):
        assert_window_is_episode(batch, b, plain.episodes[episode], buffer.spec.frame_stack)


@pytest.mark.parametrize(
    "seed", [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 8))]
)
def test_random_streams_are_kept_as_a_plain_replay_keeps_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    capacity = int(rng.integers(1, 40))
    buffer, plain, stream = make(capacity=capacity), PlainBuffer(3), Stream(seed)
    for _ in range(60):
        steps = stream.steps(int(rng.integers(1, 90)), crash=0.1)
        buffer.add(steps)
        plain.add(steps)
        assert buffer.n_episodes == min(capacity, len(plain.episodes))
    assert_holds_the_newest(buffer, plain)


@pytest.mark.parametrize("seed", range(4))
def test_a_byte_limit_keeps_the_newest_that_fit(seed: int) -> None:
    max_bytes = 14 * BLOCK * STEP_BYTES
    buffer, plain, stream = make(capacity=1000, max_bytes=max_bytes), PlainBuffer(3), Stream(seed)
    for _ in range(50):
        steps = stream.steps(7, crash=0.05)
        buffer.add(steps)
        plain.add(steps)
        assert buffer.store.bytes_in_use <= max_bytes
    assert_holds_the_newest(buffer, plain)
    assert 0 < buffer.n_episodes < len(plain.episodes)
    assert buffer.store.bytes_in_use > max_bytes // 2


def test_one_add_may_be_longer_than_all_that_fits() -> None:
    max_bytes = 14 * BLOCK * STEP_BYTES
    buffer, plain, stream = make(capacity=1000, max_bytes=max_bytes), PlainBuffer(3), Stream(0)
    steps = stream.steps(2000)
    buffer.add(steps)
    plain.add(steps)
    assert_holds_the_newest(buffer, plain)
    assert buffer.store.bytes_in_use <= max_bytes


def test_capacity_is_reached_exactly_by_full_length_episodes() -> None:
    buffer, stream = make(capacity=5, n_envs=2), Stream(0, n_envs=2, longest=1)
    for _ in range(10):
        stream.left[:] = SPEC.max_steps
        buffer.add(stream.steps(13))
    assert buffer.n_episodes == 5
    assert buffer.n_steps == 5 * 12


def test_a_lost_environment_forgets_its_open_episode_only() -> None:
    buffer = make(n_envs=2)
    stream = Stream(0, n_envs=2)
    stream.left[:] = 9
    buffer.add(stream.steps(4))
    stream.left[:] = (
        3,
        5,
    )  # environment 0 crashed and begins an episode of 3; environment 1 has 5 to go
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


def test_every_episode_is_drawn_alike() -> None:
    buffer, stream = make(capacity=10), Stream(1)
    buffer.add(stream.steps(200))
    drawn = torch.cat([buffer.sample(3, CLOCK).index for _ in range(2000)])
    count = torch.unique(drawn, return_counts=True)[1]
    assert len(count) == 10
    assert float((count - 600).abs().max()) < 100  # five standard deviations


def test_update_priority_changes_nothing() -> None:
    one, other, stream = make(), make(), Stream(0)
    steps = stream.steps(100)
    one.add(steps)
    other.add(steps)
    one.update_priority(torch.arange(3), torch.tensor([9.0, 0.0, 1.0]))
    assert torch.equal(one.sample(4, CLOCK).index, other.sample(4, CLOCK).index)


def test_float16_rounds_obs_and_state_and_nothing_else() -> None:
    half, full, stream = make(storage="float16"), make(), Stream(3)
    steps = stream.steps(60)
    half.add(steps)
    full.add(steps)
    a, b = half.sample(4, CLOCK), full.sample(4, CLOCK)
    assert torch.equal(a.state, b.state.half().float())
    assert not torch.equal(a.state, b.state)
    assert torch.equal(a.reward, b.reward)
    assert a.state.dtype == torch.float32


def test_images_stay_bytes_and_come_back_as_the_same_numbers() -> None:
    spec = EnvSpec(n_agents=2, n_actions=3, obs_shape=(3, 4), obs_dtype="uint8", max_steps=12)
    buffer, plain, stream = make(spec=spec), PlainBuffer(3), Stream(0, spec=spec)
    steps = stream.steps(60)
    buffer.add(steps)
    plain.add(steps)
    batch = buffer.sample(2, CLOCK)
    episode = plain.episodes[int(batch.index[0])]
    np.testing.assert_array_equal(batch.obs[:, 0], np.stack([s["obs"] for s in episode]))
    assert batch.obs.dtype == torch.float32
    assert batch.state.shape[2] == 0


@pytest.mark.parametrize("n_frames", [2, 8, 40])
def test_stacked_frames_repeat_the_first_of_their_episode_and_never_those_of_another(
    n_frames: int,
) -> None:
    spec = replace(SPEC, frame_stack=n_frames)
    buffer, plain, stream = make(spec=spec), PlainBuffer(3), Stream(1, spec=spec)
    for _ in range(6):
        steps = stream.steps(21, crash=0.2)
        buffer.add(steps)
        plain.add(steps)
    assert buffer.sample(3, CLOCK).obs.shape[2:] == (2, 4 * n_frames)
    assert_holds_the_newest(buffer, plain)


def test_stacked_images_grow_along_their_channels_and_stay_bytes() -> None:
    shape = {"obs_shape": (2, 5, 5), "obs_dtype": "uint8"}
    spec = EnvSpec(n_agents=2, n_actions=3, n_rewards=2, frame_stack=3, **shape)
    buffer, plain, stream = make(spec=spec), PlainBuffer(3), Stream(2, spec=spec)
    steps = stream.steps(60)
    buffer.add(steps)
    plain.add(steps)
    assert buffer.sample(3, CLOCK).obs.shape[2:] == (2, 6, 5, 5)
    assert_holds_the_newest(buffer, plain)
    assert buffer.store.arrays["obs"].dtype == np.uint8


def test_every_frame_of_a_stack_is_stored_once() -> None:
    single, stacked = make(), make(spec=replace(SPEC, frame_stack=8))
    steps = Stream(0).steps(60)
    single.add(steps)
    stacked.add(steps)
    assert stacked.plan().bytes_per_step == single.plan().bytes_per_step == STEP_BYTES
    assert stacked.store.bytes_in_use == single.store.bytes_in_use


@pytest.mark.parametrize("max_bytes", [None, 14 * BLOCK * STEP_BYTES])
def test_a_loaded_replay_goes_on_bit_for_bit(max_bytes: int | None) -> None:
    one = make(capacity=30, max_bytes=max_bytes)
    stream = Stream(5)
    for _ in range(40):
        one.add(stream.steps(5, crash=0.05))
    one.sample(4, CLOCK)
    state = saved(one)
    other = make(capacity=30, max_bytes=max_bytes, rng=generator(99))
    other.add(Stream(6).steps(33))  # what it held before is gone
    other.load_state_dict(state)
    for _ in range(60):
        steps = stream.steps(5, crash=0.05)
        one.add(steps)
        other.add(steps)
        assert one.n_episodes == other.n_episodes
        assert one.store.bytes_in_use == other.store.bytes_in_use
        a, b = one.sample(4, CLOCK), other.sample(4, CLOCK)
        for f in fields(a):
            x, y = getattr(a, f.name), getattr(b, f.name)
            assert torch.equal(x, y) if isinstance(x, torch.Tensor) else x == y


def test_the_numbers_of_a_state_survive_json() -> None:
    buffer = make()
    buffer.add(Stream(5).steps(50))
    state = saved(buffer)
    plain = {name: v for name, v in state.items() if not isinstance(v, np.ndarray)}
    other = make(rng=generator(1))
    other.load_state_dict({**state, **json.loads(json.dumps(plain))})
    assert torch.equal(buffer.sample(4, CLOCK).obs, other.sample(4, CLOCK).obs)


def test_a_state_is_a_copy() -> None:
    buffer, stream = make(capacity=3), Stream(5)
    buffer.add(stream.steps(50))
    state = saved(buffer)
    kept = {name: np.array(v) for name, v in state.items()}
    buffer.add(stream.steps(200))
    buffer.sample(2, CLOCK)
    for name, value in kept.items():
        np.testing.assert_array_equal(state[name], value)


def test_a_smaller_replay_loads_the_newest_episodes() -> None:
    big, plain, stream = make(capacity=20), PlainBuffer(3), Stream(5)
    steps = stream.steps(300)
    big.add(steps)
    plain.add(steps)
    small = make(capacity=6)
    small.load_state_dict(saved(big))
    assert small.n_episodes == 6
    assert_holds_the_newest(small, plain)


def test_an_empty_state_round_trips() -> None:
    other = make()
    other.load_state_dict(saved(make()))
    assert (other.n_episodes, other.store.bytes_in_use) == (0, 0)


def test_a_state_of_another_number_of_environments_is_refused() -> None:
    with pytest.raises(ValueError, match=r"3 environments, this run has 2: set hardware\.n_"):
        make(n_envs=2).load_state_dict(saved(make()))


def test_a_state_of_another_environment_is_refused() -> None:
    other = replace(SPEC, state_dim=6)
    with pytest.raises(ValueError, match=r"'state' of a step should be float32 \(6,\), got .*\(5,"):
        make(spec=other).load_state_dict(saved(make()))


def test_a_replay_that_cannot_hold_a_batch_says_what_to_type() -> None:
    buffer = make(capacity=32, max_bytes=10 * BLOCK * STEP_BYTES)
    with pytest.raises(ValueError, match=r"max_bytes=(\d+), or buffer\.storage=float16") as error:
        buffer.check(32)
    assert f"{STEP_BYTES} bytes a step" in str(error.value)
    enough = int(str(error.value).split("buffer.max_bytes=")[1].split(",")[0])
    make(capacity=32, max_bytes=enough).check(32)
    with pytest.raises(ValueError, match=r"one batch of 32 episodes of 12 steps"):
        make(capacity=32, max_bytes=enough - 1).check(32)


def test_what_check_asks_for_is_enough_to_be_ready() -> None:
    needed = make(capacity=8).plan().cap_bytes
    buffer, stream = make(capacity=100, max_bytes=needed), Stream(0)
    buffer.check(8)
    for _ in range(30):
        stream.left[:] = SPEC.max_steps
        buffer.add(stream.steps(13))
        assert buffer.store.bytes_in_use <= needed
    assert buffer.ready(8)


def test_a_capacity_below_the_batch_is_refused() -> None:
    with pytest.raises(ValueError, match=r"buffer\.capacity=20 .* set buffer\.capacity=32 or more"):
        make().check(32)


def test_too_few_bytes_to_begin_with_are_refused() -> None:
    with pytest.raises(ValueError, match=r"buffer\.max_bytes=1000 is too little: 3 environment"):
        make(max_bytes=1000)


def test_episodes_without_an_end_fill_it_with_a_clear_error() -> None:
    spec = replace(SPEC, max_steps=None)
    buffer, stream = make(spec=spec, max_bytes=6 * BLOCK * STEP_BYTES), Stream(0)
    stream.left[:] = 10_000
    with pytest.raises(RuntimeError, match=r"full of open episodes.*buffer\.max_bytes"):
        buffer.add(stream.steps(5 * BLOCK))


def test_the_plan_counts_every_step() -> None:
    plan = make(capacity=20).plan()
    assert plan.bytes_per_step == STEP_BYTES
    assert plan.worst_case_bytes == 20 * 13 * STEP_BYTES
    assert plan.capacity == 20
    assert plan.worst_case_bytes <= plan.cap_bytes
    assert make(spec=replace(SPEC, max_steps=None), max_bytes=10**6).plan().worst_case_bytes is None


def test_without_a_byte_limit_the_cap_is_a_share_of_the_free_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Memory:
        available = 10**7

    monkeypatch.setattr("psutil.virtual_memory", Memory)
    plan = make(capacity=10**6).plan()
    assert 6 * 10**6 - BLOCK * STEP_BYTES < plan.cap_bytes <= 6 * 10**6
