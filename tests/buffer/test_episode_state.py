"""Saved states of EpisodeBuffer, and sizes that are refused."""

import json
from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from rltrain.buffer.store import BLOCK
from rltrain.common.seeding import generator
from tests.buffer import episodes
from tests.buffer.streams import SPEC, Stream, add, saved


@pytest.mark.parametrize("max_bytes", [None, 14 * BLOCK * episodes.STEP_BYTES])
@pytest.mark.parametrize("shortest", [0, 1])
def test_a_loaded_buffer_continues_bit_for_bit(max_bytes: int | None, shortest: int) -> None:
    one = episodes.make(capacity=30, max_bytes=max_bytes)
    stream = Stream(5, shortest=shortest, longest=12 if shortest else 3)
    for _ in range(40):
        one.add(stream.steps(5, crash=0.05))
    one.sample(4, episodes.CLOCK)
    state = saved(one)
    other = episodes.make(capacity=30, max_bytes=max_bytes, rng=generator(99))
    other.add(Stream(6).steps(33))  # what it held before is gone
    other.load_state_dict(state)
    for _ in range(60):
        add(stream.steps(5, crash=0.05), one, other)
        assert one.n_episodes == other.n_episodes
        assert one.store.bytes_in_use == other.store.bytes_in_use
        a, b = one.sample(4, episodes.CLOCK), other.sample(4, episodes.CLOCK)
        for f in fields(a):
            x, y = getattr(a, f.name), getattr(b, f.name)
            assert torch.equal(x, y) if isinstance(x, torch.Tensor) else x == y


def test_the_numbers_of_a_state_survive_json() -> None:
    buffer = episodes.make()
    buffer.add(Stream(5).steps(50))
    state = saved(buffer)
    plain = {name: v for name, v in state.items() if not isinstance(v, np.ndarray)}
    other = episodes.make(rng=generator(1))
    other.load_state_dict({**state, **json.loads(json.dumps(plain))})
    assert torch.equal(buffer.sample(4, episodes.CLOCK).obs, other.sample(4, episodes.CLOCK).obs)


def test_a_state_is_a_copy() -> None:
    buffer, stream = episodes.make(capacity=3), Stream(5)
    buffer.add(stream.steps(50))
    state = saved(buffer)
    kept = {name: np.array(v) for name, v in state.items()}
    buffer.add(stream.steps(200))
    buffer.sample(2, episodes.CLOCK)
    np.testing.assert_equal({name: state[name] for name in kept}, kept)


def test_a_smaller_buffer_loads_the_newest_episodes() -> None:
    big, plain, stream = episodes.make(capacity=20), episodes.PlainBuffer(3), Stream(5)
    add(stream.steps(300), big, plain)
    small = episodes.make(capacity=6)
    small.load_state_dict(saved(big))
    assert small.n_episodes == 6
    episodes.assert_holds_the_newest(small, plain)


def test_an_empty_state_round_trips() -> None:
    other = episodes.make()
    other.load_state_dict(saved(episodes.make()))
    assert (other.n_episodes, other.store.bytes_in_use) == (0, 0)


def test_a_state_of_another_number_of_environments_is_refused() -> None:
    with pytest.raises(ValueError, match=r"3 environments, this run has 2: set hardware\.n_"):
        episodes.make(n_envs=2).load_state_dict(saved(episodes.make()))


def test_a_state_of_another_environment_is_refused() -> None:
    other = replace(SPEC, state_dim=6)
    with pytest.raises(ValueError, match=r"'state' of a step should be float32 \(6,\), got .*\(5,"):
        episodes.make(spec=other).load_state_dict(saved(episodes.make()))


def test_a_buffer_that_cannot_hold_a_batch_is_refused_with_what_to_type() -> None:
    buffer = episodes.make(capacity=32, max_bytes=10 * BLOCK * episodes.STEP_BYTES)
    with pytest.raises(ValueError, match=r"max_bytes=(\d+), or buffer\.precision=float16") as error:
        buffer.check(32)
    assert f"{episodes.STEP_BYTES} bytes a step" in str(error.value)
    enough = int(str(error.value).split("buffer.max_bytes=")[1].split(",")[0])
    episodes.make(capacity=32, max_bytes=enough).check(32)
    with pytest.raises(ValueError, match=r"one batch of 32 episodes of 12 steps"):
        episodes.make(capacity=32, max_bytes=enough - 1).check(32)


def test_the_size_that_check_requires_is_enough_to_be_ready() -> None:
    needed = episodes.make(capacity=8).plan().cap_bytes
    buffer, stream = episodes.make(capacity=100, max_bytes=needed), Stream(0)
    buffer.check(8)
    for _ in range(30):
        stream.left[:] = SPEC.max_steps
        buffer.add(stream.steps(13))
        assert buffer.store.bytes_in_use <= needed
    assert buffer.ready(8)


def test_a_capacity_below_the_batch_is_refused() -> None:
    with pytest.raises(ValueError, match=r"buffer\.capacity=20 .* set buffer\.capacity=32 or more"):
        episodes.make().check(32)


def test_too_few_bytes_to_begin_with_are_refused() -> None:
    with pytest.raises(ValueError, match=r"buffer\.max_bytes=1000 is too little: 3 environment"):
        episodes.make(max_bytes=1000)


def test_episodes_without_an_end_fill_it_with_a_clear_error() -> None:
    spec = replace(SPEC, max_steps=None)
    buffer, stream = episodes.make(spec=spec, max_bytes=6 * BLOCK * episodes.STEP_BYTES), Stream(0)
    stream.left[:] = 10_000
    with pytest.raises(RuntimeError, match=r"full of open episodes.*buffer\.max_bytes"):
        buffer.add(stream.steps(5 * BLOCK))


def test_the_plan_counts_every_step() -> None:
    plan = episodes.make(capacity=20).plan()
    assert plan.bytes_per_step == episodes.STEP_BYTES
    assert plan.worst_case_bytes == 20 * 13 * episodes.STEP_BYTES
    assert plan.capacity == 20
    assert plan.worst_case_bytes <= plan.cap_bytes
    assert (
        episodes.make(spec=replace(SPEC, max_steps=None), max_bytes=10**6).plan().worst_case_bytes
        is None
    )


def test_without_a_byte_limit_the_cap_is_a_share_of_the_free_memory(monkeypatch):
    class Memory:
        available = 10**7

    monkeypatch.setattr("psutil.virtual_memory", Memory)
    plan = episodes.make(capacity=10**6).plan()
    assert 6 * 10**6 - BLOCK * episodes.STEP_BYTES < plan.cap_bytes <= 6 * 10**6
