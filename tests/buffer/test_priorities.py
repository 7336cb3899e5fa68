"""Priorities of a replay buffer: sampling, importance weights, removed items."""

from typing import Any

import numpy as np
import pytest
import torch

from rltrain.buffer.priorities import Priorities
from rltrain.buffer.replay import ReplayBuffer
from rltrain.types import Clock
from tests.buffer.replays import CLOCK, PlainBuffer, filled, make
from tests.buffer.streams import Stream, add


def prioritized(**given: Any) -> tuple[ReplayBuffer, Priorities, Stream]:
    """Environment 0 alone, with the starts 0 … 9 of one long episode; its priorities."""
    buffer = make(**{"n_envs": 1, "capacity": 40, "sampler": "proportional", **given})
    stream = Stream(0, n_envs=1, longest=200)
    stream.left[:] = 200
    filled(buffer, stream, 11)
    assert buffer.starts.priorities is not None
    return buffer, buffer.starts.priorities, stream


def items(buffer: ReplayBuffer) -> torch.Tensor:
    """The items that can be drawn."""
    assert buffer.starts.priorities is not None
    return torch.from_numpy(
        np.flatnonzero(buffer.starts.priorities.tree[np.arange(buffer.starts.priorities.tree.n)])
    )


def test_new_items_enter_at_the_largest_priority_so_far() -> None:
    buffer, priorities, stream = prioritized()
    buffer.update_priority(torch.tensor([3]), torch.tensor([7.0]))
    buffer.update_priority(torch.tensor([3]), torch.tensor([0.5]))
    buffer.add(stream.steps(1))
    assert priorities.tree[np.array([3, 10])].tolist() == pytest.approx([0.5, 7], rel=1e-5)


def test_priorities_are_raised_to_alpha_above_a_floor() -> None:
    buffer, priorities, _ = prioritized(alpha=0.5, priority_floor=0.25)
    buffer.update_priority(torch.tensor([0, 1]), torch.tensor([0.0, 3.75]))
    assert priorities.tree[np.array([0, 1])].tolist() == [0.5, 2]


def test_draws_are_stratified() -> None:
    buffer, _, _ = prioritized()
    for _ in range(5):  # ten equal items, ten shares: each exactly once
        assert sorted(buffer.sample(10, CLOCK).index.tolist()) == list(range(10))


def test_draws_are_in_proportion_to_priorities() -> None:
    buffer, _, _ = prioritized(priority_floor=1e-12)
    buffer.update_priority(torch.arange(10), torch.arange(1.0, 11))
    count = np.bincount(buffer.sample(5_500, CLOCK).index, minlength=10)
    assert np.abs(count - 100 * np.arange(1, 11)).max() <= 1  # stratified: exact but for the edges


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_weights_undo_the_sampling_and_are_at_most_one(beta: float) -> None:
    buffer, _, _ = prioritized(beta=beta, beta_end=beta, priority_floor=1e-12)
    buffer.update_priority(torch.arange(10), torch.arange(1.0, 11))
    batch = buffer.sample(6, CLOCK)
    probability = (batch.index + 1) / 55
    weight = (10 * probability) ** -beta
    torch.testing.assert_close(batch.weight, weight / weight.max())
    assert batch.weight.dtype == torch.float32


OVER_THE_RUN = {"beta_env_steps": None, "total_env_steps": 100}  # the default


@pytest.mark.parametrize("over", [{"beta_env_steps": 100}, OVER_THE_RUN], ids=["100", "the run"])
@pytest.mark.parametrize(("env_steps", "beta"), [(0, 0.4), (50, 0.7), (100, 1.0), (900, 1.0)])
def test_beta_follows_the_clock(env_steps: int, beta: float, over: dict[str, int | None]) -> None:
    buffer, _, _ = prioritized(beta=0.4, beta_end=1.0, priority_floor=1e-12, **over)
    buffer.update_priority(torch.arange(10), torch.arange(1.0, 11))
    batch = buffer.sample(6, Clock(env_steps=env_steps))
    weight = (batch.index + 1.0) ** -beta
    torch.testing.assert_close(batch.weight, weight / weight.max())


def test_uniform_windows_have_weight_one() -> None:
    buffer = make()
    filled(buffer, Stream(0), 60)
    assert buffer.sample(5, CLOCK).weight.tolist() == [1] * 5


def test_an_overwritten_item_takes_no_priority() -> None:
    buffer, priorities, stream = prioritized()
    # 42 steps of 40: steps 0 and 1 are gone, 2 has lost what it did before
    buffer.add(stream.steps(31))
    before = priorities.tree.total
    buffer.update_priority(torch.arange(3), torch.full((3,), 100.0))
    assert (priorities.tree.total, priorities.largest) == (before, 1)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_priority_that_is_not_finite_is_ignored(bad: float) -> None:
    buffer, priorities, _ = prioritized()
    buffer.update_priority(torch.tensor([0, 1]), torch.tensor([bad, 3.0]))
    assert priorities.tree[np.array([0, 1])].tolist() == pytest.approx([1, 3], rel=1e-5)
    assert priorities.largest == pytest.approx(3, rel=1e-5)


@pytest.mark.parametrize("chunk", [1, 7, 60])
def test_exactly_the_legal_starts_have_a_priority(chunk: int) -> None:
    given = {"sampler": "proportional", "sequence_length": 15, "capacity": 60}
    buffer, stream = make(**given), Stream(1)
    plain = PlainBuffer(buffer)
    for _ in range(40):
        add(stream.steps(chunk, crash=0.1), buffer, plain)
        assert len(items(buffer)) == len(plain.starts())
