import pytest
import torch

from rltrain.algo.targets import greedy, n_step_target, pick
from rltrain.algo.window import Packing, inside


def column(*values, dtype=torch.float32):
    """[T, B = 1]"""
    return torch.tensor(values, dtype=dtype).unsqueeze(1)


def target(reward, terminated, last, value, gamma, n_step):
    y = n_step_target(
        column(*reward).unsqueeze(-1),
        column(*terminated, dtype=torch.bool),
        column(*last, dtype=torch.bool),
        column(*value).unsqueeze(-1),
        gamma,
        n_step,
    )
    return y[:, 0, 0].tolist()


@pytest.mark.parametrize(
    ("n_step", "expected"),
    [
        (1, [1 + 5, 2 + 10, 4 + 20]),
        (2, [1 + 1 + 5, 2 + 2 + 10, 4 + 20]),
        (3, [1 + 1 + 1 + 5, 2 + 2 + 10, 4 + 20]),
        (9, [1 + 1 + 1 + 5, 2 + 2 + 10, 4 + 20]),
    ],
)
def test_n_step_target_sums_to_the_windows_end(n_step, expected):
    """gamma 1/2, rewards 1, 2, 4, bootstraps 10, 20, 40, nothing ends."""
    y = target([1, 2, 4], [0, 0, 0], [0, 0, 0, 0], [10, 20, 40], 0.5, n_step)
    assert y == expected


@pytest.mark.parametrize(
    ("n_step", "expected"), [(1, [6, 2]), (2, [1 + 0.5 * 2, 2]), (3, [1 + 0.5 * 2, 2])]
)
def test_n_step_target_stops_at_termination(n_step, expected):
    y = target([1, 2, 4], [0, 1, 0], [0, 0, 1, 1], [10, 20, 40], 0.5, n_step)
    assert y[:2] == expected


@pytest.mark.parametrize(
    ("n_step", "expected"), [(1, [6, 12]), (2, [1 + 0.5 * 12, 12]), (3, [1 + 0.5 * 12, 12])]
)
def test_n_step_target_bootstraps_from_a_cut_off_episodes_last_slot(n_step, expected):
    y = target([1, 2, 4], [0, 0, 0], [0, 0, 1, 1], [10, 20, 40], 0.5, n_step)
    assert y[:2] == expected


def test_n_step_target_is_untouched_by_nan_behind_the_end():
    nan = float("nan")
    y = target([1, 2, nan], [0, 1, 0], [0, 0, 1, 0], [10, 20, nan], 0.5, 3)
    assert y[:2] == [2, 2]


def test_one_reward_is_broadcast_to_all_streams():
    y = n_step_target(
        torch.ones(1, 1, 1),
        torch.zeros(1, 1, dtype=torch.bool),
        torch.zeros(2, 1, dtype=torch.bool),
        torch.tensor([[[10.0, 20.0]]]),
        0.5,
        1,
    )
    assert y.tolist() == [[[6, 11]]]


def test_pick_takes_the_value_of_the_action():
    q = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert pick(q, torch.tensor([1, 0])).tolist() == [2, 3]


def test_greedy_never_takes_an_unavailable_action():
    q = torch.tensor([9.0, 1.0, 2.0])
    assert greedy(q, torch.tensor([False, True, True])).item() == 2


def test_greedy_breaks_ties_to_the_lowest_index():
    assert greedy(torch.zeros(4), torch.tensor([False, True, True, True])).item() == 1


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ([0, 0, 0], [1, 1, 1]),
        ([0, 1, 1], [1, 1, 0]),
        ([0, 1, 0], [1, 1, 0]),
        ([1, 0, 1], [1, 0, 0]),
    ],
)
def test_inside_ends_with_the_first_last(last, expected):
    assert inside(column(*last, dtype=torch.bool))[:, 0].int().tolist() == expected


def test_packing_is_time_first_and_longest_first_and_comes_back():
    real = torch.tensor([[1, 1], [0, 1], [0, 1]]).bool()
    packing = Packing(real, torch.tensor([1, 0]))
    x = torch.arange(6.0).view(3, 2, 1)
    packed = packing.pack(x)
    assert packed.flatten().tolist() == [1, 0, 3, 5]
    assert packing.unpack(packed).flatten().tolist() == [0, 1, 0, 3, 0, 5]
