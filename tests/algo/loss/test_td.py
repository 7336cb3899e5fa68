"""TDLoss against numbers worked out by hand and a plain double DQN."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from rltrain.algo.loss.td import TDLoss
from rltrain.algo.targets import rescale, unscale
from rltrain.interfaces import Model
from rltrain.kernels.layers.td_step import CompiledTDLoss
from rltrain.types import Clock, EnvSpec
from tests.algo.batches import SPEC, Table, gradients, make_batch, make_model, open_batch

LOSS = TDLoss(gamma=0.9, double=True, n_step=1)


@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize("huber", [None, 1.0, 0.25])
@pytest.mark.parametrize("double", [True, False])
def test_one_step_and_one_agent_is_a_double_dqn(double, huber, dueling, weighed):
    """Written out by hand; loss and gradients to 1e-6. Half of the windows do not terminate."""
    spec = EnvSpec(n_agents=1, n_actions=4, obs_shape=(3,))
    online, target = (
        make_model("mlp", "independent", spec, seed, last_action=False, dueling=dueling)
        for seed in range(2)
    )
    batch = open_batch([1] * 8, spec, cut_off=[0, 1, 2, 3])
    if weighed:
        batch = replace(batch, weight=torch.linspace(0.1, 1, 8))
    result = TDLoss(gamma=0.9, double=double, n_step=1, huber=huber)(online, target, batch, Clock())
    loss = result.loss_sum / result.count

    def net(model, x):
        layer, head = model.agents.torso[0], model.agents.head
        x = F.relu(F.linear(x, layer.weight, layer.bias))
        advantage = F.linear(x, head.advantage[0].weight, head.advantage[0].bias)
        if not dueling:
            return advantage
        value = F.linear(x, head.value[0].weight, head.value[0].bias)
        return value + advantage - advantage.mean(1, keepdim=True)

    obs, next_obs = batch.obs[0, :, 0], batch.obs[1, :, 0]
    with torch.no_grad():
        best = net(online if double else target, next_obs).argmax(1, keepdim=True)
        next_q = net(target, next_obs).gather(1, best)[:, 0]
        y = batch.reward[0, :, 0] + 0.9 * next_q * (1 - batch.terminated[0].float())
    q = net(online, obs).gather(1, batch.action[0])[:, 0]
    each = (q - y) ** 2 if huber is None else F.huber_loss(q, y, reduction="none", delta=huber)
    expected = (batch.weight * each).mean()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    assert result.priority.tolist() == pytest.approx((q - y).abs().tolist(), rel=1e-5, abs=1e-6)
    ours = [grad / result.count for grad in gradients(result, online)]
    theirs = list(torch.autograd.grad(expected, list(online.agents.parameters())))
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)


def test_metrics_are_means_over_the_transitions_in_the_mask(tiny):
    """q: 1, 2 | 2; targets: 1 + 0.9 · 20, 3 | 2; errors: -18, -1 | 0."""
    result = LOSS(*tiny, Clock())
    metrics = {name: value.item() for name, value in result.metrics.items()}
    expected = {"loss": (18**2 + 1) / 3, "td_error_abs": 19 / 3, "q_taken_mean": 5 / 3}
    assert metrics == pytest.approx({**expected, "target_mean": (19 + 3 + 2) / 3})
    assert result.loss_sum.item() == pytest.approx(18**2 + 1)
    assert result.count.item() == 3


def test_priority_is_a_windows_mean_absolute_error(tiny):
    assert LOSS(*tiny, Clock()).priority.tolist() == pytest.approx([9.5, 0])


def test_weight_scales_a_windows_squared_errors(tiny):
    online, target, batch = tiny
    batch = replace(batch, weight=torch.tensor([0.5, 7.0]))
    assert LOSS(online, target, batch, Clock()).loss_sum.item() == pytest.approx((18**2 + 1) / 2)


def test_only_transitions_in_the_mask_count(tiny):
    online, target, batch = tiny
    mask = torch.tensor([[False, False], [True, False]])
    result = LOSS(online, target, replace(batch, mask=mask), Clock())
    assert (result.loss_sum.item(), result.count.item()) == (1, 1)


FIRST_ALONE = torch.ones(3, 2, 1, 2, dtype=torch.bool)
FIRST_ALONE[1, 0, 0, 1] = False  # the better one
TARGETS = {
    "given": ({"td_target": torch.full((2, 2, 1), 4.0)}, 4),
    "available": ({"avail_actions": FIRST_ALONE}, (1 + 9 + 3 + 2) / 3),
    "cut off": ({"terminated": torch.zeros(2, 2, dtype=torch.bool)}, (1 + 2 + 3 + 3 * 18) / 3),
}


@pytest.mark.parametrize("name", TARGETS)
def test_targets_are_those_given_or_bootstrap_from_available_actions(name, tiny):
    """Defect: a time limit was stored as termination. A last step that is cut off is worth 20."""
    online, target, batch = tiny
    changes, mean = TARGETS[name]
    result = LOSS(online, target, replace(batch, **changes), Clock())
    assert result.metrics["target_mean"].item() == pytest.approx(mean)


def test_double_q_uses_the_online_agents_action(tiny):
    online, _, batch = tiny
    target = Model(Table([20.0, 10.0]), online.mixer)
    chosen = {
        double: TDLoss(gamma=0.9, double=double, n_step=1)(online, target, batch, Clock())
        for double in (True, False)
    }
    means = {double: result.metrics["target_mean"].item() for double, result in chosen.items()}
    assert means == pytest.approx({True: (1 + 9 + 5) / 3, False: (1 + 18 + 5) / 3})


def test_each_agent_may_have_its_own_reward():
    spec = replace(SPEC, n_rewards=2)
    model = make_model("mlp", "independent", spec=spec)
    batch = make_batch([1], spec=spec)
    result = LOSS(model, model, batch, Clock())
    assert result.count.item() == 2
    assert result.metrics["target_mean"].item() == pytest.approx(batch.reward.mean().item())


def test_an_empty_mask_gives_zeros_not_nan():
    model, batch = make_model(), make_batch([2, 2])
    result = LOSS(model, model, replace(batch, mask=torch.zeros_like(batch.mask)), Clock())
    assert result.loss_sum.item() == result.count.item() == 0
    assert not any(value.isnan() for value in result.metrics.values())


def test_rescaled_values_are_bootstrapped_unscaled(tiny):
    """h(r + γ h⁻¹(q)) for the one transition that bootstraps."""
    result = TDLoss(gamma=0.9, double=True, n_step=1, rescale=0.01)(*tiny, Clock())
    y = [1 + 0.9 * unscale(torch.tensor(20.0), 0.01), torch.tensor(2.0), torch.tensor(3.0)]
    expected = sum(rescale(x, 0.01).item() for x in y) / 3
    assert result.metrics["target_mean"].item() == pytest.approx(expected)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("n_agents", [1, 2])
def test_the_priority_of_a_window_mixes_its_largest_and_mean_error(n_agents, compiled):
    """R2D2's 0.9 max + 0.1 mean over the steps learned from, of errors averaged over agents."""
    spec = replace(SPEC, n_agents=n_agents)
    online, target = (
        make_model("mlp", "independent", spec, i, last_action=False, agent_id=False)
        for i in range(2)
    )
    loss = CompiledTDLoss(LOSS) if compiled else LOSS
    batch = make_batch([4, 3, 1], spec)
    batch = replace(batch, mask=batch.mask & (torch.arange(4).unsqueeze(1) != 1))
    steps = [  # |error| of one step at a time
        loss(online, target, replace(batch, mask=batch.mask & one.unsqueeze(1)), Clock()).priority
        for one in torch.eye(4, dtype=torch.bool)
    ]
    error, n = torch.stack(steps), batch.mask.sum(0)
    mean, largest = error.sum(0) / n, error.amax(0)
    for eta in (0.0, 0.9, 1.0):
        found = loss(online, target, replace(batch, eta=eta), Clock()).priority
        torch.testing.assert_close(found, eta * largest + (1 - eta) * mean)
    one_step = replace(batch, mask=batch.mask & (torch.arange(4).unsqueeze(1) == 0))
    priorities = [loss(online, target, replace(one_step, eta=e), Clock()).priority for e in (0, 1)]
    assert torch.equal(*priorities)  # of one step largest and mean are the same
