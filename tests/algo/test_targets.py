import pytest
import torch

from rltrain.algo.loss.distributional import at_step, n_step_bootstrap
from rltrain.algo.network.packing import Packing
from rltrain.algo.targets import greedy, huber, lambda_return, n_step_target, pick, rescale, unscale
from rltrain.types import inside


def column(*values, dtype=torch.float32):
    """[T, B = 1]"""
    return torch.tensor(values, dtype=dtype).unsqueeze(1)


def target(reward, terminated, last, value, gamma, n_step):
    ended = (column(*x, dtype=torch.bool) for x in (terminated, last))
    paid, worth = (column(*x).unsqueeze(-1) for x in (reward, value))
    y = n_step_target(paid, *ended, worth, gamma, n_step)
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
    assert target([1, 2, 4], [0, 0, 0], [0, 0, 0, 0], [10, 20, 40], 0.5, n_step) == expected


@pytest.mark.parametrize("n_step", [1, 2, 3])
@pytest.mark.parametrize(("terminated", "end"), [(1, 2), (0, 12)], ids=["terminated", "cut off"])
def test_n_step_target_bootstraps_from_the_last_slot_unless_it_terminated(n_step, terminated, end):
    y = target([1, 2, 4], [0, terminated, 0], [0, 0, 1, 1], [10, 20, 40], 0.5, n_step)
    assert y[:2] == [6 if n_step == 1 else 1 + 0.5 * end, end]


def test_n_step_target_is_untouched_by_nan_behind_the_end():
    nan = float("nan")
    assert target([1, 2, nan], [0, 1, 0], [0, 0, 1, 0], [10, 20, nan], 0.5, 3)[:2] == [2, 2]


def test_one_reward_is_broadcast_to_all_streams():
    terminated, last = torch.zeros(1, 1, dtype=torch.bool), torch.zeros(2, 1, dtype=torch.bool)
    value = torch.tensor([[[10.0, 20.0]]])
    y = n_step_target(torch.ones(1, 1, 1), terminated, last, value, 0.5, 1)
    assert y.tolist() == [[[6, 11]]]


def test_pick_takes_the_value_of_the_action():
    q = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert pick(q, torch.tensor([1, 0])).tolist() == [2, 3]


@pytest.mark.parametrize("q", [[9.0, 1.0, 2.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
def test_greedy_takes_available_actions_only_and_the_first_of_equals(q):
    available = torch.tensor([False, True, True, True])
    assert greedy(torch.tensor(q), available).item() == (2 if any(q) else 1)


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


def brute_force_n_step(reward, terminated, last, value, gamma, n_step, t):
    """Reward sum, discount and step of the bootstrap from step t, one reward after the other."""
    total, discount = 0.0, 1.0
    for k in range(n_step):
        total += discount * reward[t + k]
        discount *= 0.0 if terminated[t + k] else gamma
        if last[t + k + 1] or t + k + 1 == len(reward):
            break
    return total, discount, t + k + 1


@pytest.mark.parametrize("n_step", [1, 2, 3, 5, 20])
def test_n_step_discounts_by_the_steps_really_summed(n_step):
    """Defect: a bootstrap behind a short tail was discounted by the nominal n. Four ends within
    twelve steps: terminated, cut off, an episode of one transition, the window's end."""
    reward = [float(2**k) for k in range(12)]
    terminated = [k in (3, 6) for k in range(12)]
    last = [k in (4, 7, 9) for k in range(13)]
    value = [1000.0 * (k + 1) for k in range(12)]  # X of steps 1 … 12
    y = target(reward, terminated, last, value, 0.5, n_step)
    ended = (column(*x, dtype=torch.bool) for x in (terminated, last))
    parts = n_step_bootstrap(column(*reward).unsqueeze(-1), *ended, 0.5, n_step)
    for t in (t for t in range(12) if not last[t]):  # steps that hold a transition
        total, discount, step = brute_force_n_step(reward, terminated, last, value, 0.5, n_step, t)
        assert y[t] == total + discount * value[step - 1]
        assert (parts.reward_sum[t, 0, 0], parts.discount[t, 0]) == (total, discount)
        assert parts.step[t, 0] == step


@pytest.mark.parametrize("n_step", [1, 2, 4])
def test_the_parts_of_an_n_step_target_add_up_to_it(n_step):
    torch.manual_seed(0)
    n_steps, n_windows = 9, 50
    last = torch.rand(n_steps + 1, n_windows) < 0.3
    terminated = last[1:] & (torch.rand(n_steps, n_windows) < 0.5)
    reward, value = torch.randn(n_steps, n_windows, 2), torch.randn(n_steps + 1, n_windows, 2)
    whole = n_step_target(reward, terminated, last, value[1:], 0.9, n_step)
    reward_sum, discount, step = n_step_bootstrap(reward, terminated, last, 0.9, n_step)
    parts = reward_sum + discount.unsqueeze(-1) * at_step(value, step)
    torch.testing.assert_close(parts, whole)


@pytest.mark.parametrize("trace", [0.0, 0.6, 1.0])
def test_lambda_return_equals_the_recursion_written_out(trace):
    """Steps 2 (terminated), 5 (cut off) and 6 (an episode's only observation) close episodes."""
    gamma, n_steps = 0.9, 8
    torch.manual_seed(0)
    reward, value = torch.randn(n_steps, 1, 1), torch.randn(n_steps, 1, 1)
    last = column(0, 0, 1, 0, 0, 1, 1, 0, 0, dtype=torch.bool)
    terminated = column(0, 1, 0, 0, 0, 0, 0, 0, dtype=torch.bool)
    reward[last[:-1]] = torch.nan  # no transition begins in a last step
    y = lambda_return(reward, terminated, last, value, gamma, trace)

    def expected(t):
        if terminated[t, 0]:
            return reward[t, 0, 0].item()
        ahead = value[t, 0, 0].item()
        if not last[t + 1, 0] and t + 1 < n_steps:
            ahead = (1 - trace) * ahead + trace * expected(t + 1)
        return reward[t, 0, 0].item() + gamma * ahead

    for t in (t for t in range(n_steps) if not last[t, 0]):
        assert y[t, 0, 0].item() == pytest.approx(expected(t), abs=1e-6)


@pytest.mark.parametrize(("taken", "first"), [(None, 3.5), (3.0, 3.75)])
def test_lambda_return_and_q_lambda_with_correction_by_hand(taken, first):
    """γ = ½, λ = ½, rewards 1, 2, bootstraps 4, 8: y₁ = 2 + 4, y₀ = 1 + ½ (½ 4 + ½ 6); with the
    correction, the action taken at step 1 worth 3: y₀ = 1 + ½ (4 + ½ (6 - 3)).
    """
    baseline = {} if taken is None else {"baseline": torch.tensor([[[taken]], [[8.0]]])}
    open_ends, bootstrap = torch.zeros(3, 1, dtype=torch.bool), torch.tensor([[[4.0]], [[8.0]]])
    rewards = torch.tensor([[[1.0]], [[2.0]]])
    y = lambda_return(rewards, open_ends[:-1], open_ends, bootstrap, 0.5, 0.5, **baseline)
    assert y.flatten().tolist() == [first, 6]


@pytest.mark.parametrize(
    ("error", "delta", "expected"),
    [(0.5, 1.0, 0.125), (1, 1.0, 0.5), (-3, 1.0, 2.5), (-3, 2.0, 4), (-3, None, 9)],
)
def test_huber_is_square_then_straight(error, delta, expected):
    assert huber(torch.tensor(float(error)), delta).item() == expected


@pytest.mark.parametrize("epsilon", [1e-3, 1e-2, 1.0])
@pytest.mark.parametrize("x", [0.0, 1e-3, -0.5, 3.0, -250.0, 1e4])
def test_unscale_undoes_rescale(x, epsilon):
    x = torch.tensor(x, dtype=torch.float64)
    assert unscale(rescale(x, epsilon), epsilon).item() == pytest.approx(x.item(), abs=1e-9)


@pytest.mark.parametrize(("x", "expected"), [(0, 0), (3, 1 + 0.3), (-8, -2 - 0.8)])
def test_rescale_by_hand(x, expected):
    assert rescale(torch.tensor(float(x)), 0.1).item() == pytest.approx(expected)


@pytest.mark.parametrize("x", [0.0, 1e-3, 0.02, 1.0, 300.0])
def test_unscale_is_exact_enough_in_single_precision(x):
    """With R2D2's epsilon the plain formula loses digits near 0."""
    x = torch.tensor(x)
    assert unscale(rescale(x, 1e-3), 1e-3).item() == pytest.approx(x.item(), rel=1e-3, abs=2e-4)
