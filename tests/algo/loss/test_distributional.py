import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from rltrain.algo.loss.distributional import (
    CategoricalLoss,
    QuantileLoss,
    categorical_projection,
    quantile_huber,
    taken_outputs,
)
from rltrain.algo.mixer.sum import Independent
from rltrain.algo.network.distribution import Categorical, ImplicitQuantile, Quantile, Scalar
from rltrain.interfaces import Model
from rltrain.types import Clock, EnvSpec, Output
from tests.algo.batches import one_step as of_spec
from tests.algo.batches import open_batch

SPEC = EnvSpec(n_agents=1, n_actions=2, obs_shape=(1,))
ATOMS = Categorical(atoms=3, v_min=-1.0, v_max=1.0)


class Says(nn.Module):
    """Agents that say the same distributions [A, K] in every step."""

    hidden_dim = 0

    def __init__(self, distribution, dist, tau=None):
        super().__init__()
        self.distribution, self.dist = distribution, nn.Parameter(torch.tensor(dist))
        self.tau = tau

    def unroll(self, batch, start=0, stop=None):
        shape = batch.last_action.shape
        q = self.distribution.mean(self.dist)
        tau = None if self.tau is None else torch.tensor(self.tau).expand(*shape, -1)
        dist = self.dist.expand(*shape, *self.dist.shape)
        return Output(q.expand(*shape, -1), q.new_empty(*shape, 0), dist, tau)


def models(distribution, online, target, **other):
    return [
        Model(Says(distribution, dist, **other), Independent(spec=SPEC))
        for dist in (online, target)
    ]


one_step = partial(of_spec, SPEC)


def logs(*prob):
    return [[math.log(p) for p in row] for row in prob]


UNIFORM = [1 / 3] * 3
BAD, GOOD = [0.5, 0.3, 0.2], [0.2, 0.3, 0.5]


def categorical(double=False, n_step=1, distribution=ATOMS):
    return CategoricalLoss(gamma=0.5, double=double, n_step=n_step, distribution=distribution)


def test_projection_gives_the_two_nearest_atoms_their_shares():
    """Of every moved atom: m_i = Σ_j p_j max(0, 1 − |T z_j − z_i| / Δz) (algorithm 1)."""
    generator = torch.Generator().manual_seed(0)
    support = torch.linspace(-10, 10, 51)
    prob = torch.rand(4, 5, 51, generator=generator).softmax(-1)
    reward = 8 * torch.randn(4, 5, generator=generator)
    discount = torch.tensor([0.0, 0.5, 0.9, 0.99, 1.0]).expand(4, 5)
    moved = (reward.unsqueeze(-1) + discount.unsqueeze(-1) * support).clamp(-10, 10)
    apart = (moved.unsqueeze(-2) - support.unsqueeze(-1)).abs() / 0.4
    expected = ((1 - apart).clamp(min=0) @ prob.unsqueeze(-1)).squeeze(-1)
    found = categorical_projection(prob, support, reward, discount)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_projection_of_a_reward_that_is_not_a_number_is_not_a_number():
    """The learner undoes such an update."""
    reward, support = torch.tensor([torch.nan]), torch.linspace(-1, 1, 3)
    found = categorical_projection(torch.full((1, 3), 1 / 3), support, reward, torch.ones(1))
    assert found.isnan().any()


@pytest.mark.slow
def test_projection_needs_memory_for_atoms_and_not_for_their_pairs():
    """It was [windows, K, K], most of the time of an update."""
    prob = torch.full((1, 4096), 1 / 4096)
    with torch.profiler.profile(profile_memory=True) as profile:
        categorical_projection(prob, torch.linspace(-1, 1, 4096), torch.zeros(1), torch.ones(1))
    allocated = sum(max(0, event.self_cpu_memory_usage) for event in profile.events())
    assert allocated < 100 * prob.nbytes


def test_categorical_loss_is_the_cross_entropy_to_the_projected_best_action():
    """reward 0.5, γ = ½: GOOD's atoms move to 0, 0.5, 1; m = (0, 0.35, 0.65)."""
    result = learned("categorical", one_step())
    expected = -(0.35 * math.log(0.3) + 0.65 * math.log(0.2))
    assert result.loss_sum.item() == pytest.approx(expected, rel=1e-5)
    assert result.priority.tolist() == pytest.approx([expected], rel=1e-5)
    metrics = {name: value.item() for name, value in result.metrics.items()}
    assert metrics.pop("clipped_target_mass") == 0
    assert metrics == pytest.approx(
        {"loss": expected, "td_error_abs": 0.95, "q_taken_mean": -0.3, "target_mean": 0.65},
        rel=1e-5,
    )


@pytest.mark.parametrize(("reward", "clipped"), [(0.5, 0.0), (0.75, 0.5), (-0.75, 0.2), (2.0, 1.0)])
def test_clipped_target_mass_is_what_lay_outside_the_support(reward, clipped):
    """γ = ½: GOOD's atoms (0.2, 0.3, 0.5) move to reward + (-0.5, 0, 0.5)."""
    result = learned("categorical", one_step(reward))
    assert result.metrics["clipped_target_mass"].item() == pytest.approx(clipped)


def test_categorical_gradient_is_the_difference_of_distributions():
    online, target = models(ATOMS, logs(BAD, UNIFORM), logs(BAD, GOOD))
    result = categorical()(online, target, one_step(), Clock())
    (grad,) = torch.autograd.grad(result.loss_sum, [online.agents.dist])
    torch.testing.assert_close(grad[0], torch.tensor([0.5, 0.3 - 0.35, 0.2 - 0.65]))
    assert not grad[1].any()


def test_a_terminated_transition_puts_all_probability_at_its_reward():
    result = learned("categorical", one_step(terminated=True))
    assert result.loss_sum.item() == pytest.approx(-0.5 * (math.log(0.3) + math.log(0.2)))


@pytest.mark.parametrize(
    ("double", "m"), [(True, [0, 0.65, 0.35]), (False, [0, 0.35, 0.65])], ids=["double", "plain"]
)
def test_double_takes_the_online_networks_action(double, m):
    """The online network prefers action 0, the target network action 1."""
    online, target = models(ATOMS, logs(GOOD, BAD), logs(BAD, GOOD))
    result = categorical(double)(online, target, one_step(), Clock())
    expected = -sum(p * math.log(q) for p, q in zip(m, GOOD, strict=True))
    assert result.loss_sum.item() == pytest.approx(expected)


def test_unavailable_actions_are_not_bootstrapped_from():
    batch = one_step()
    batch.avail_actions[1, 0, 0, 1] = False
    result = learned("categorical", batch)
    assert result.metrics["target_mean"].item() == pytest.approx(0.5 + 0.5 * -0.3)


@pytest.mark.parametrize("kind", ["categorical", "quantile"])
def test_n_steps_stop_at_an_episodes_end(kind):
    """Two transitions of reward 0.25 and 0.5 terminate; with three steps the first is worth ½."""
    fields = {"action": 0, "reward": [0.25, 0.5, 100.0], "mask": [True, False, False]}
    batch = open_batch([2], SPEC, n_steps=3, **fields)
    result = learned(kind, batch, n_step=3)
    assert result.metrics["target_mean"].item() == pytest.approx(0.5)


QUANTILES = Quantile(quantiles=2)  # levels 1/4, 3/4
QUARTERS = [[0.0, 2.0], [4.0, 8.0]]


def quantile(distribution=QUANTILES, **given):
    plain = {"gamma": 0.5, "double": False, "n_step": 1, "kappa": 1.0}
    return QuantileLoss(**{**plain, **given}, distribution=distribution)


def learned(kind, batch, **given):
    """The result of a loss of this name for models of its distribution."""
    if kind == "categorical":
        pair = models(ATOMS, logs(BAD, UNIFORM), logs(BAD, GOOD))
        return categorical(**given)(*pair, batch, Clock())
    return quantile(**given)(*models(QUANTILES, QUARTERS, QUARTERS), batch, Clock())


def test_quantile_loss_by_hand():
    """Learned 0, 2 at 1/4, 3/4; target 0.5 + ½ (4, 8) = 2.5, 4.5.

    Errors 2.5, 4.5 | 0.5, 2.5; Huber 2, 4 | 0.125, 2; weights 1/4 | 3/4.
    """
    result = learned("quantile", one_step())
    assert result.loss_sum.item() == pytest.approx(0.25 * 3 + 0.75 * 1.0625)
    assert result.priority.tolist() == [2.5]
    metrics = {name: value.item() for name, value in result.metrics.items()}
    assert metrics == pytest.approx(
        {"loss": 1.546875, "td_error_abs": 2.5, "q_taken_mean": 1, "target_mean": 3.5}
    )


def test_quantiles_too_high_weigh_with_the_other_share():
    """Learned 0, 2; the target is -1 throughout: errors -1 | -3, Huber ½ | 2.5."""
    result = learned("quantile", one_step(reward=-1.0, terminated=True))
    assert result.loss_sum.item() == pytest.approx(0.75 * 0.5 + 0.25 * 2.5)


class Apart(Says):
    """Agents whose values choose another action than their distributions would."""

    def unroll(self, batch, start=0, stop=None):
        output = super().unroll(batch, start, stop)
        return output if torch.is_grad_enabled() else output._replace(q=-output.q)


@pytest.mark.parametrize("double", [False, True])
def test_implicit_quantiles_choose_the_next_action_by_the_values_drawn_for_it(double):
    """Action 1 (target 0.5 + 0.5 · 4) by the values, action 0 (0.5 + 0.5 · 9) by the outputs."""
    implicit = ImplicitQuantile(online=2, target=2, acting=4, cosines=4)
    dist, level = [[9.0, 9.0], [4.0, 4.0]], [0.1, 0.6]
    online, target = (
        Model(kind(implicit, dist, tau=level), Independent(spec=SPEC))
        for kind in ((Apart, Says) if double else (Says, Apart))
    )
    result = QuantileLoss(gamma=0.5, double=double, n_step=1, kappa=1.0, distribution=implicit)(
        online, target, one_step(reward=0.5), Clock()
    )
    assert result.metrics["target_mean"].item() == pytest.approx(0.5 + 0.5 * 4)


def test_implicit_quantiles_weigh_with_the_levels_they_were_drawn_at():
    """As above with levels 0.1, 0.6 and another number of target quantiles."""
    implicit = ImplicitQuantile(online=2, target=3, acting=4, cosines=4)
    online, target = models(implicit, QUARTERS, QUARTERS, tau=[0.1, 0.6])
    target.agents.dist = nn.Parameter(torch.tensor([[-2.0] * 3, [-1.0] * 3]))
    result = quantile(implicit)(online, target, one_step(reward=-0.5), Clock())
    assert result.loss_sum.item() == pytest.approx(0.9 * 0.5 + 0.4 * 2.5)


@pytest.mark.parametrize("kind", ["categorical", "quantile"])
def test_weight_scales_a_windows_loss_and_not_its_priority(kind):
    batch = one_step()
    plain = learned(kind, batch)
    weighed = learned(kind, replace(batch, weight=torch.tensor([0.25])))
    assert weighed.loss_sum.item() == pytest.approx(plain.loss_sum.item() / 4)
    assert torch.equal(weighed.priority, plain.priority)


def test_outputs_of_takes_the_row_of_the_action():
    dist = torch.arange(12.0).view(1, 1, 2, 2, 3)  # two agents, two actions
    taken = taken_outputs(dist, torch.tensor([[[1, 0]]]))
    assert taken.tolist() == [[[[3, 4, 5], [6, 7, 8]]]]


@pytest.mark.parametrize(
    ("build", "wrong", "message"),
    [
        (categorical, Scalar(), "needs algo/distribution=categorical, got scalar"),
        (categorical, QUANTILES, "needs algo/distribution=categorical, got quantile"),
        (quantile, ATOMS, "needs algo/distribution=quantile or implicit_quantile"),
    ],
)
def test_a_loss_refuses_a_distribution_it_cannot_learn(build, wrong, message):
    with pytest.raises(ValueError, match=message):
        build(distribution=wrong)


SUPPORT = torch.tensor([-1.0, 0.0, 1.0])


@pytest.mark.parametrize(
    ("reward", "discount", "expected"),
    [
        (0.0, 1.0, [0.2, 0.3, 0.5]),  # every atom falls on an atom
        (1.0, 1.0, [0.0, 0.2, 0.8]),  # … the greatest beyond the support
        (0.0, 0.5, [0.1, 0.65, 0.25]),
        (0.25, 0.0, [0.0, 0.75, 0.25]),  # terminated: all at the reward
        (-1.0, 0.0, [1.0, 0.0, 0.0]),
        (9.0, 1.0, [0.0, 0.0, 1.0]),
        (-9.0, 1.0, [1.0, 0.0, 0.0]),
    ],
)
def test_categorical_projection_by_hand(reward, discount, expected):
    m = categorical_projection(
        torch.tensor([0.2, 0.3, 0.5]), SUPPORT, torch.tensor(reward), torch.tensor(discount)
    )
    assert m.tolist() == pytest.approx(expected)


def test_categorical_projection_equals_the_papers_loop():
    """Bellemare et al. 2017, algorithm 1, in double precision; a whole b keeps all of its mass."""
    rng = np.random.default_rng(0)
    support = torch.linspace(-10, 10, 51)
    prob = rng.dirichlet(np.ones(51), 40)
    reward = np.concatenate([rng.normal(0, 8, 30), 0.4 * np.arange(-5, 5)])
    discount = np.concatenate([rng.choice([0, 0.99, 0.5], 30), np.ones(10)])
    expected = np.zeros((40, 51))
    for row in range(40):
        for j in range(51):
            moved = np.clip(reward[row] + discount[row] * (-10 + 0.4 * j), -10, 10)
            b = round((moved + 10) / 0.4, 9)
            low, high = int(np.floor(b)), int(np.ceil(b))
            expected[row, low] += prob[row, j] * (1.0 if low == high else high - b)
            expected[row, high] += prob[row, j] * (b - low)
    prob, reward, discount = (torch.from_numpy(x).float() for x in (prob, reward, discount))
    ours = categorical_projection(prob, support, reward, discount)
    assert ours.numpy() == pytest.approx(expected, abs=1e-5)
    assert ours.sum(-1).numpy() == pytest.approx(np.ones(40), abs=1e-5)


@pytest.mark.parametrize(
    ("error", "tau", "kappa", "expected"),
    [
        (0.5, 0.25, 1.0, 0.25 * 0.125),  # the quantile is too low
        (-0.5, 0.25, 1.0, 0.75 * 0.125),  # … too high
        (3.0, 0.25, 1.0, 0.25 * 2.5),
        (-3.0, 0.9, 2.0, 0.1 * 4 / 2),
        (3.0, 0.9, 0.0, 0.9 * 3),
        (-3.0, 0.9, 0.0, 0.1 * 3),
        (0.0, 0.9, 1.0, 0),
    ],
)
def test_quantile_huber_by_hand(error, tau, kappa, expected):
    loss = quantile_huber(torch.tensor([[float(error)]]), torch.tensor([tau]), kappa)
    assert loss.item() == pytest.approx(expected)


def test_quantile_levels_belong_to_the_learned_quantiles():
    """Rows are learned quantiles, columns samples of the target."""
    loss = quantile_huber(torch.ones(2, 3), torch.tensor([0.25, 0.75]), 1.0)
    assert loss.tolist() == [[0.125] * 3, [0.375] * 3]
