"""Targets from settings, with values that differ from step to step."""

import math

import pytest
import torch

from rltrain.algo.return_settings import Returns
from rltrain.types import EnvSpec
from tests.algo.batches import open_batch

SPEC = EnvSpec(n_agents=1, n_actions=2, obs_shape=(1,))
TAU, ALPHA = 0.5, 0.9


def values(*steps):
    """[T, B = 1, M = 1]"""
    return torch.tensor(steps).view(-1, 1, 1)


def two_steps(*rewards):
    """A window of two transitions that ends inside its episode."""
    return open_batch([2], SPEC, cut_off=[0], action=[0, 1], reward=rewards, last=False)


def test_the_log_policy_is_of_the_step_taken_and_the_soft_value_of_the_next():
    """exp(q / τ): (1, 3), (2, 2), (5, 3), so policies (¼, ¾), (½, ½), and ln Σ exp(q / τ) - max q/τ
    of steps 1 and 2: ln 4/2, ln 8/5.
    """
    q = TAU * torch.tensor([[1.0, 3.0], [2.0, 2.0], [5.0, 3.0]]).log().view(3, 1, 1, 2)
    r = Returns(gamma=0.5, double=False, n_step=1, munchausen=ALPHA, temperature=TAU, floor=-5.0)
    target = r(two_steps(1.0, 2.0), values(10.0, 20.0), q=q).flatten().tolist()
    log_policy = [TAU * math.log(1 / 4), TAU * math.log(1 / 2)]
    gap = [TAU * math.log(4 / 2), TAU * math.log(8 / 5)]
    expected = [
        1 + ALPHA * log_policy[0] + 0.5 * (10 + gap[0]),
        2 + ALPHA * log_policy[1] + 0.5 * (20 + gap[1]),
    ]
    assert target == pytest.approx(expected, rel=1e-6)


def test_the_correction_of_q_lambda_is_nothing_where_the_window_is_cut():
    """γ = λ = ½, X 4 and 8, actions taken worth 100 and 3 (steps 0, 1): y₁ = 2 + ½ 8 whatever the
    action of the next window is worth, y₀ = 1 + ½ (4 + ½ (6 - 3)).
    """
    returns = Returns(gamma=0.5, double=False, n_step=1, trace=0.5, corrected=True)
    target = returns(two_steps(1.0, 2.0), values(4.0, 8.0), taken=values(100.0, 3.0))
    assert target.flatten().tolist() == [3.75, 6]


def test_munchausen_returns_choose_no_action():
    said = r"munchausen=0\.9 and .*Type algo\.loss\.double=false, or"
    with pytest.raises(ValueError, match=said):
        Returns(gamma=0.9, double=True, n_step=1, munchausen=0.9)
