"""Priorities of a replay buffer: sampling, importance weights, removed items; ``SumTree`` against a
plain array.
"""

from typing import Any

import numpy as np
import pytest
import torch

from rltrain.buffer.priorities import Priorities, Sampling, SumTree
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


def tree_of(priority: list[float]) -> SumTree:
    tree = SumTree(len(priority))
    tree.set(np.arange(len(priority)), np.array(priority, float))
    return tree


def found(tree: SumTree, *mass: float) -> list[int]:
    return tree.find(np.array(mass)).tolist()


def test_mass_is_found_where_the_running_sum_passes_it() -> None:
    tree = tree_of([1, 2, 0, 3])
    assert found(tree, 0, 0.99, 1, 2.99, 3, 5.99) == [0, 0, 1, 1, 3, 3]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 9, 100])
def test_any_number_of_items_is_found(n: int) -> None:
    tree = tree_of([1.0] * n)
    assert found(tree, *range(n)) == list(range(n))
    assert tree.total == n


@pytest.mark.parametrize("seed", range(5))
def test_random_changes_leave_the_sums_of_a_plain_array(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 300))
    tree, plain = SumTree(n), np.zeros(n)
    for _ in range(50):
        item = rng.integers(0, n, 20)
        priority = rng.integers(0, 9, 20).astype(float)  # sums of whole numbers are exact
        tree.set(item, priority)
        for i, p in zip(item, priority, strict=True):
            plain[i] = p
        assert tree.total == plain.sum()
        np.testing.assert_array_equal(tree[np.arange(n)], plain)
        if plain.sum() > 0:
            mass = rng.random(50) * plain.sum()
            expected = np.searchsorted(plain.cumsum(), mass, side="right")
            np.testing.assert_array_equal(tree.find(mass), expected)


def test_of_equal_items_the_last_counts() -> None:
    tree = SumTree(3)
    tree.set(np.array([1, 1]), np.array([5.0, 2.0]))
    assert (tree[np.array([1])].tolist(), tree.total) == ([2], 2)


def test_the_whole_mass_finds_the_last_item_that_has_any() -> None:
    assert found(tree_of([1, 2, 0, 0, 0]), 3, 3.1) == [1, 1]


def test_no_mass_finds_the_first_item_that_has_any() -> None:
    assert found(tree_of([0, 0, 0, 2, 1]), 0) == [3]


@pytest.mark.parametrize("only", range(6))
def test_branches_without_mass_are_never_entered(only: int) -> None:
    tree = SumTree(6)
    tree.set(np.array([only]), np.array([1e-9]))
    assert found(tree, 0, 5e-10, 1e-9, 1.0) == [only] * 4


def test_rounding_does_not_accumulate() -> None:
    tree = tree_of([0.1] * 7)
    for k in range(1000):
        tree.set(np.array([k % 7]), np.array([1e12]))
        tree.set(np.array([k % 7]), np.array([0.1]))
    assert tree.total == tree_of([0.1] * 7).total


def test_items_are_drawn_in_proportion_to_their_priorities() -> None:
    priority = np.array([1, 0, 5, 2, 0, 8, 4])
    tree = tree_of(priority.tolist())
    n = 20_000
    drawn = tree.find(np.random.default_rng(0).random(n) * tree.total)
    count = np.bincount(drawn, minlength=7)
    assert count[priority == 0].sum() == 0
    some = priority > 0
    expected = n * priority[some] / priority.sum()
    chi_square = ((count[some] - expected) ** 2 / expected).sum()
    assert chi_square < 18.5  # the 99.9% point of 4 degrees of freedom


def test_loaded_priorities_equal_the_saved_ones() -> None:
    rng = np.random.default_rng(1)
    priorities, other = (Priorities(21, Sampling(sampler="proportional"), 1) for _ in range(2))
    every = np.arange(21)
    other.tree.set(every, np.full(21, 3.0))
    priorities.tree.set(rng.permutation(21), rng.random(21))
    state, nodes = priorities.state_dict(every), priorities.tree.nodes.copy()
    priorities.tree.set(np.array([0]), np.array([9.0]))  # the state is a copy
    other.load_state_dict(every, state)
    np.testing.assert_array_equal(other.tree.nodes, nodes)
