import math
from dataclasses import replace
from functools import partial

import pytest
import torch

from rltrain.algo.loss.td import TDLoss
from rltrain.algo.mixer.sum import Independent, Sum
from rltrain.algo.targets import rescale, unscale
from rltrain.interfaces import Model
from rltrain.types import Clock, EnvSpec
from tests.algo.batches import Table, one_step, open_batch

SPEC = EnvSpec(n_agents=1, n_actions=3, obs_shape=(1,))
TAU, ALPHA, GAMMA = 0.5, 0.9, 0.5
Q = [TAU * math.log(x) for x in (1.0, 3.0, 4.0)]  # policy 1/8, 3/8, 4/8; 1/4, 3/4 without the last


def loss_of(floor=-5.0, n_step=1, alpha=ALPHA):
    return TDLoss(
        gamma=GAMMA, double=False, n_step=n_step, munchausen=alpha, temperature=TAU, floor=floor
    )


def models():
    mixer = Independent(spec=SPEC)
    return Model(Table([0.0, 0.0, 0.0]), mixer), Model(Table(Q), mixer)


step = partial(one_step, SPEC, reward=2.0)


def target_mean(loss, batch):
    return loss(*models(), batch, Clock()).metrics["target_mean"].item()


def only_two(batch):
    """The last action is not available."""
    batch.avail_actions[:, 0, 0, 2] = False
    return batch


def bonus(policy):
    return ALPHA * TAU * math.log(policy)


SOFT = GAMMA * TAU * math.log(8)  # Σ π (q - τ ln π) = τ ln Σ exp(q / τ)
TARGETS = {
    "first": (loss_of(), step(action=0, terminated=True), bonus(1 / 8)),
    "second": (loss_of(), step(action=1, terminated=True), bonus(3 / 8)),
    "third": (loss_of(), step(action=2, terminated=True), bonus(4 / 8)),
    "soft bootstrap": (loss_of(), step(action=2), bonus(4 / 8) + SOFT),
    "not less than the floor": (loss_of(floor=-0.1), step(terminated=True), ALPHA * -0.1),
    "available": (loss_of(), only_two(step(action=1)), bonus(3 / 4) + GAMMA * TAU * math.log(4)),
    "without log-policy": (loss_of(alpha=0.0), step(), SOFT),
}


@pytest.mark.parametrize("name", TARGETS)
def test_the_scaled_log_policy_is_added_to_the_reward_and_the_bootstrap_is_soft(name):
    loss, batch, added = TARGETS[name]
    assert target_mean(loss, batch) == pytest.approx(2 + added, rel=1e-5)


def test_every_reward_of_several_steps_has_its_log_policy():
    """Two transitions, then termination: y₀ = r'₀ + γ r'₁."""
    batch = open_batch([2], SPEC, action=[0, 2], reward=[1.0, 4.0], mask=[True, False])
    expected = 1 + bonus(1 / 8) + GAMMA * (4 + bonus(4 / 8))
    assert target_mean(loss_of(n_step=2), batch) == pytest.approx(expected, rel=1e-5)


def test_a_teams_log_policy_and_soft_value_are_the_sums_of_its_agents():
    """Both agents take actions of probability 1/8 and 4/8; Σ τ ln 8."""
    spec = replace(SPEC, n_agents=2)
    mixer = Sum(spec=spec)
    batch = open_batch([1], spec, cut_off=[0], action=[0, 2], reward=2.0)
    online, target = Model(Table([0.0, 0.0, 0.0]), mixer), Model(Table(Q), mixer)
    y = loss_of()(online, target, batch, Clock()).metrics["target_mean"].item()
    assert y == pytest.approx(2 + bonus(1 / 8) + bonus(4 / 8) + 2 * SOFT, rel=1e-5)


def test_a_floor_above_zero_is_refused():
    with pytest.raises(ValueError, match=r"algo.loss.floor=1.*0 or less"):
        loss_of(floor=1.0)


def test_rescaled_values_have_the_policy_of_the_values_themselves():
    """h(Q) is learned, and Q = (100, 101) decides: the clipped log-policy of action 0 is -1, and
    y = 0.9 * -1 + 101. The softmax of h(Q), (9.15, 9.20), would clip nothing.
    """
    returns = {"gamma": 1.0, "double": False, "munchausen": 0.9, "temperature": 0.03}
    raw, mixer = torch.tensor([100.0, 101.0, -1000.0]), Independent(spec=SPEC)
    for epsilon, values in ((None, raw), (1e-3, rescale(raw, 1e-3))):
        loss = TDLoss(**returns, n_step=1, rescale=epsilon)
        model = Model(Table(values.tolist()), mixer)
        y = loss(model, model, step(action=0, reward=0.0), Clock()).metrics["target_mean"]
        y = y if epsilon is None else unscale(y, epsilon)
        assert y.item() == pytest.approx(100.1, abs=0.05)
