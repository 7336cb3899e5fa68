from dataclasses import replace

import pytest
import torch
from batches import (
    AGENTS,
    DISTRIBUTIONS,
    LOSSES,
    MIXERS,
    SPEC,
    Table,
    make_batch,
    make_loss,
    make_model,
    with_garbage,
)
from torch import nn
from torch.nn import functional as F

from rltrain.algo.loss import LambdaLoss, TDLoss
from rltrain.algo.mixer import Independent
from rltrain.types import Clock, EnvSpec, Model

LOSS = TDLoss(gamma=0.9, double=True, n_step=1)


def loss_and_grads(loss, online, target, batch):
    result = loss(online, target, batch, Clock())
    grads = torch.autograd.grad(result.loss_sum, list(online.parameters()))
    return [
        result.loss_sum.detach(),
        result.count,
        result.priority,
        *result.metrics.values(),
        *grads,
    ]


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("mixer", MIXERS)
@pytest.mark.parametrize("agents", AGENTS)
@pytest.mark.parametrize("lengths", [[5, 3, 1], [1, 3, 3]])
def test_garbage_in_the_padding_changes_nothing(agents, mixer, n_step, lengths):
    online, target = make_model(agents, mixer), make_model(agents, mixer, seed=1)
    batch = make_batch(lengths, n_steps=5, cut_off=[1])
    loss = TDLoss(gamma=0.9, double=True, n_step=n_step)
    clean = loss_and_grads(loss, online, target, batch)
    spoiled = loss_and_grads(loss, online, target, with_garbage(batch, lengths))
    for ours, theirs in zip(clean, spoiled, strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("name", LOSSES)
def test_garbage_in_the_padding_changes_no_loss(name, n_step):
    """Nor any gradient; levels and noise of both runs are drawn from the same seed."""
    lengths = [5, 3, 1]
    online, target = (q_model(name, seed) for seed in range(2))
    batch = make_batch(lengths, n_steps=5, cut_off=[1])
    loss = make_loss(name, n_step=n_step)
    torch.manual_seed(0)
    clean = loss_and_grads(loss, online, target, batch)
    torch.manual_seed(0)
    spoiled = loss_and_grads(loss, online, target, with_garbage(batch, lengths))
    for ours, theirs in zip(clean, spoiled, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_garbage_in_the_padding_does_not_change_q_lambda():
    lengths = [5, 3, 1]
    model, batch = make_model("mlp", "sum"), make_batch(lengths, n_steps=5)
    batch = replace(batch, td_target=torch.randn(5, 3, 1) * batch.mask.unsqueeze(-1))
    spoiled = with_garbage(batch, lengths)
    td_target = torch.where(batch.mask.unsqueeze(-1), batch.td_target, torch.nan)
    loss = LambdaLoss(gamma=0.9, trace=0.5)
    clean = loss_and_grads(loss, model, None, batch)
    spoiled = loss_and_grads(loss, model, None, replace(spoiled, td_target=td_target))
    for ours, theirs in zip(clean, spoiled, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("name", [*LOSSES, "q_lambda"])
def test_importance_weights_are_honoured_by_every_loss(name):
    """A window of weight 0 teaches nothing; one of weight 2 twice as much."""
    batch = make_batch([1, 1], n_steps=1)
    if name == "q_lambda":
        online = target = make_model("mlp", "independent")
        loss = LambdaLoss(gamma=0.9, trace=0.5)
        batch = replace(batch, td_target=torch.ones(1, 2, 2))
    else:
        online, target, loss = q_model(name, 0), q_model(name, 1), make_loss(name)

    def weighed(*weight):
        torch.manual_seed(0)
        return loss_and_grads(loss, online, target, replace(batch, weight=torch.tensor(weight)))

    first, second, both = weighed(1.0, 0.0), weighed(0.0, 1.0), weighed(0.5, 2.0)
    for index in (0, *range(7, len(both))):  # the loss and every gradient
        torch.testing.assert_close(both[index], 0.5 * first[index] + 2 * second[index])
    assert torch.equal(first[2], both[2])  # priorities know no weight


def q_model(loss, seed):
    distribution = DISTRIBUTIONS[LOSSES[loss][0]]
    return make_model("mlp", "independent", seed=seed, distribution=distribution, dueling=True)


def test_garbage_in_the_padding_changes_nothing_on_the_padded_path(monkeypatch):
    """What a GPU runs."""
    online, target = make_model(), make_model(seed=1)
    for agents in (online.agents, target.agents):
        monkeypatch.setattr(agents, "_unroll_packed", agents._unroll_padded)
    batch = make_batch([5, 3, 1])
    clean = loss_and_grads(LOSS, online, target, batch)
    spoiled = loss_and_grads(LOSS, online, target, with_garbage(batch, [5, 3, 1]))
    for ours, theirs in zip(clean, spoiled, strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("double", [True, False])
def test_one_step_and_one_agent_is_a_double_dqn(double):
    spec = EnvSpec(n_agents=1, n_actions=4, obs_shape=(3,))
    online, target = (
        make_model("mlp", "independent", spec=spec, seed=seed, last_action=False)
        for seed in range(2)
    )
    batch = make_batch([1] * 8, spec=spec, cut_off=[0, 1, 2, 3])
    batch = replace(batch, avail_actions=torch.ones_like(batch.avail_actions))
    result = TDLoss(gamma=0.9, double=double, n_step=1)(online, target, batch, Clock())
    loss = result.loss_sum / result.count

    net, target_net = (
        nn.Sequential(m.agents.torso, m.agents.head.advantage) for m in (online, target)
    )
    obs, next_obs = batch.obs[0, :, 0], batch.obs[1, :, 0]
    with torch.no_grad():
        best = (net if double else target_net)(next_obs).argmax(1, keepdim=True)
        next_q = target_net(next_obs).gather(1, best)[:, 0]
        y = batch.reward[0, :, 0] + 0.9 * next_q * (1 - batch.terminated[0].float())
    q = net(obs).gather(1, batch.action[0])[:, 0]
    expected = F.mse_loss(q, y)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    ours = torch.autograd.grad(loss, list(net.parameters()))
    theirs = torch.autograd.grad(expected, list(net.parameters()))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)


@pytest.fixture
def tiny():
    """Two windows of two steps, the second one step long, one agent, two actions."""
    spec = EnvSpec(n_agents=1, n_actions=2, obs_shape=(1,))
    batch = make_batch([2, 1], spec=spec)
    batch = replace(
        batch,
        action=torch.tensor([[[0], [1]], [[1], [0]]]),
        reward=torch.tensor([[[1.0], [2.0]], [[3.0], [0.0]]]),
        avail_actions=torch.ones_like(batch.avail_actions),
    )
    online = Model(Table([1.0, 2.0]), Independent(spec=spec))
    target = Model(Table([10.0, 20.0]), Independent(spec=spec))
    return online, target, batch


def test_metrics_are_means_over_the_taught_transitions(tiny):
    """q: 1, 2 | 2; targets: 1 + 0.9 · 20, 3 | 2; errors: -18, -1 | 0."""
    result = LOSS(*tiny, Clock())
    metrics = {name: value.item() for name, value in result.metrics.items()}
    assert metrics == pytest.approx(
        {
            "loss": (18**2 + 1) / 3,
            "td_error_abs": 19 / 3,
            "q_taken_mean": 5 / 3,
            "target_mean": (19 + 3 + 2) / 3,
        }
    )
    assert result.loss_sum.item() == pytest.approx(18**2 + 1)
    assert result.count.item() == 3


def test_priority_is_a_windows_mean_absolute_error(tiny):
    assert LOSS(*tiny, Clock()).priority.tolist() == pytest.approx([9.5, 0])


def test_weight_scales_a_windows_squared_errors(tiny):
    online, target, batch = tiny
    batch = replace(batch, weight=torch.tensor([0.5, 7.0]))
    assert LOSS(online, target, batch, Clock()).loss_sum.item() == pytest.approx((18**2 + 1) / 2)


def test_only_masked_transitions_teach(tiny):
    online, target, batch = tiny
    mask = torch.tensor([[False, False], [True, False]])
    result = LOSS(online, target, replace(batch, mask=mask), Clock())
    assert (result.loss_sum.item(), result.count.item()) == (1, 1)


def test_a_batchs_own_targets_are_used(tiny):
    online, target, batch = tiny
    batch = replace(batch, td_target=torch.full((2, 2, 1), 4.0))
    assert LOSS(online, target, batch, Clock()).metrics["target_mean"].item() == 4


def test_unavailable_actions_are_not_used_in_targets(tiny):
    online, target, batch = tiny
    avail_actions = batch.avail_actions.clone()
    avail_actions[1, 0, 0, 1] = False  # the better one
    result = LOSS(online, target, replace(batch, avail_actions=avail_actions), Clock())
    assert result.metrics["target_mean"].item() == pytest.approx((1 + 9 + 3 + 2) / 3)


def test_double_q_takes_the_online_agents_action(tiny):
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


def test_no_taught_transition_gives_zeros_not_nan():
    model, batch = make_model(), make_batch([2, 2])
    result = LOSS(model, model, replace(batch, mask=torch.zeros_like(batch.mask)), Clock())
    assert result.loss_sum.item() == result.count.item() == 0
    assert not any(value.isnan() for value in result.metrics.values())
