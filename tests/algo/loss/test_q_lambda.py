"""Targets and loss of Q(λ)."""

from dataclasses import replace

import torch

from rltrain.algo.loss.q_lambda import LambdaLoss
from rltrain.algo.mixer.sum import Independent
from rltrain.interfaces import Model
from rltrain.types import Clock, EnvSpec
from tests.algo.batches import Table, make_batch, make_model, one_step, open_batch

SPEC = EnvSpec(n_agents=1, n_actions=2, obs_shape=(1,))
LOSS = LambdaLoss(gamma=0.5, trace=0.5)
MODEL = Model(Table([10.0, 20.0]), Independent(spec=SPEC))


def test_q_lambda_targets_of_collected_steps_by_hand():
    """Two environments, two steps and the carried one; γ = λ = ½, greedy values 20, the second one
    terminates first: y = 1 + ½ (½ 20 + ½ (2 + ½ 20)), 2 + ½ 20 | 3.
    """
    transitions = open_batch([1] * 4, SPEC, [0, 2], reward=[1.0, 3.0, 2.0, 0.0])  # step by step
    last = torch.tensor([[False, False], [False, True], [False, False]])
    y = LOSS.targets(MODEL, transitions, last)
    assert (y.shape, y[:, 0, 0].tolist(), y[0, 1, 0].item()) == ((2, 2, 1), [9, 12], 3)


def test_q_lambda_bootstraps_from_available_actions_only():
    """γ = ½, one step that ends nothing; the action worth 20 is not available: y = 1 + ½ 10."""
    transition = one_step(SPEC, reward=1.0)
    transition.avail_actions[1, :, :, 1] = False
    y = LOSS.targets(MODEL, transition, torch.zeros(2, 1).bool())
    assert y.item() == 6


def test_q_lambda_targets_have_noise_also_after_a_test_switched_it_off():
    """Defect: with worker processes, which act elsewhere, a test changed the next targets."""
    model = make_model("mlp", "independent", SPEC, noisy_sigma=0.5)
    model.agents.eval()
    state, transition = torch.get_rng_state(), make_batch([1], spec=SPEC)
    LOSS.targets(model, transition, torch.zeros(2, 1).bool())
    assert not torch.equal(torch.get_rng_state(), state)


def test_q_lambda_learns_the_given_targets(tiny):
    """q: 1, 2 | 2; targets 3 throughout: errors -2, -1 | -1; no target network is asked."""
    online, _, batch = tiny
    batch = replace(batch, td_target=torch.full((2, 2, 1), 3.0))
    result = LambdaLoss(gamma=0.9, trace=0.5)(online, None, batch, Clock())
    assert (result.loss_sum.item(), result.count.item()) == (6, 3)
    assert result.priority.tolist() == [1.5, 1]
