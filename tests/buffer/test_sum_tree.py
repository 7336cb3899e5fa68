"""SumTree against a plain array of priorities."""

import numpy as np
import pytest

from rltrain.buffer.priorities import Priorities, Sampling, SumTree


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
