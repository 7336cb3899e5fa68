from dataclasses import replace
from functools import partial

import pytest
import torch
from torch.nn import functional as F

from rltrain.algo import kernels
from rltrain.algo.kernels.feed_forward import Stack
from rltrain.algo.kernels.td_step import CompiledTDLoss
from rltrain.algo.loss import TDLoss
from rltrain.algo.mixer import Independent
from rltrain.algo.network.feed_forward import FeedForward
from rltrain.algo.optimizer import adam
from rltrain.algo.q_lambda import LambdaLoss
from rltrain.algo.target_update import TargetUpdate
from rltrain.algo.targets import rescale, unscale
from rltrain.types import Clock, EnvSpec, Model
from tests.algo.batches import (
    AGENTS,
    DISTRIBUTIONS,
    LOSSES,
    MIXERS,
    SPEC,
    Table,
    gradients,
    loss_and_grads,
    make_batch,
    make_learner,
    make_loss,
    make_model,
    with_garbage,
)

LOSS = TDLoss(gamma=0.9, double=True, n_step=1)


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
    """A window of weight 0 changes nothing; one of weight 2 twice as much."""
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
    batch = make_batch([1] * 8, spec=spec, cut_off=[0, 1, 2, 3])
    batch = replace(batch, avail_actions=torch.ones_like(batch.avail_actions))
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
    theirs = torch.autograd.grad(expected, list(online.agents.parameters()))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)


BARE = {"last_action": False, "agent_id": False}
PLAIN = {
    "mlp": ("mlp", (3,), {**BARE, "hidden_sizes": [8, 5]}),
    "mlp-dueling": ("mlp", (3,), {**BARE, "dueling": True, "head_sizes": [4]}),
    "conv": ("conv", (2, 9, 8), BARE),
    "conv-dueling": ("conv", (2, 9, 8), {**BARE, "dueling": True}),
    "conv-one-layer": ("conv", (2, 9, 8), {**BARE, "filters": [[4, 3, 1]], "hidden_sizes": []}),
}


@pytest.mark.parametrize("n_agents", [1, 2])
@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("huber", [None, 0.5])
@pytest.mark.parametrize("double", [True, False])
@pytest.mark.parametrize("mask_end", [None, 2])
@pytest.mark.parametrize("network", PLAIN)
def test_the_compiled_step_says_what_tensors_say(
    network, mask_end, double, huber, n_step, n_agents
):
    """Windows of unequal length, some of them cut off, of which the first step is masked."""
    kind, obs_shape, changes = PLAIN[network]
    spec = EnvSpec(n_agents=n_agents, n_actions=5, obs_shape=obs_shape)
    online, target = (make_model(kind, "independent", spec, seed, **changes) for seed in range(2))
    batch = make_batch([5, 3, 1, 5], spec=spec, cut_off=[0, 2])
    mask = batch.mask.clone()
    mask[0] = False
    if mask_end is not None:
        mask[mask_end:] = False
    weight = torch.linspace(0.1, 1, 4)
    batch = replace(batch, mask=mask, weight=weight, mask_end=mask_end, eta=0.9)
    loss = TDLoss(gamma=0.9, double=double, n_step=n_step, huber=huber)
    compiled = loss_and_grads(CompiledTDLoss(loss), online, target, batch)
    for ours, theirs in zip(compiled, loss_and_grads(loss, online, target, batch), strict=True):
        torch.testing.assert_close(ours, theirs.to(ours.dtype), rtol=1e-5, atol=5e-6)


@pytest.mark.parametrize("n_rows", [1, 7, 40])
@pytest.mark.parametrize("network", PLAIN)
def test_compiled_acting_says_what_tensors_say(network, n_rows):
    kind, obs_shape, changes = PLAIN[network]
    spec = EnvSpec(n_agents=1, n_actions=5, obs_shape=obs_shape)
    agents = make_model(kind, "independent", spec, **changes).agents
    kernels.compile_agents(agents)
    none = torch.zeros(n_rows, 1, dtype=torch.int64), torch.zeros(n_rows, 1, 0)
    obs = torch.randn(n_rows, 1, *obs_shape)
    with torch.no_grad():
        compiled, _ = agents.step(obs, *none)
    tensors, _ = FeedForward.step(agents, obs, *none)
    torch.testing.assert_close(compiled, tensors.detach())


@pytest.mark.parametrize(
    ("agents", "more"),
    [
        ("mlp", {"layer_norm": True}),
        ("mlp", {"agent_id": True}),
        ("mlp", {"noisy_sigma": 0.5}),
        ("conv", {"layer_norm": True}),
        ("conv", {"agent_id": True}),
        ("conv", {"last_action": True}),
    ],
)
def test_networks_that_are_more_than_layers_are_not_compiled(agents, more):
    spec = EnvSpec(n_agents=2, n_actions=3, obs_shape=(2, 9, 8))
    model = make_model(agents, "independent", spec, **{**BARE, **more})
    assert Stack.of(model.agents) is None
    assert kernels.compile_loss(LOSS, model) is LOSS


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


def test_metrics_are_means_over_the_transitions_in_the_mask(tiny):
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


def test_only_transitions_in_the_mask_count(tiny):
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


def test_a_cut_off_episode_is_bootstrapped_from(tiny):
    """Defect: a time limit was stored as termination. Its last slot is worth 20 here."""
    online, target, batch = tiny
    batch = replace(batch, terminated=torch.zeros_like(batch.terminated))
    result = LOSS(online, target, batch, Clock())
    assert result.metrics["target_mean"].item() == pytest.approx((1 + 2 + 3 + 3 * 18) / 3)


def test_q_lambda_targets_of_a_collect_by_hand():
    """Two copies, two slots and the carried one; γ = λ = ½, greedy values 20, the second copy
    terminates first: y = 1 + ½ (½ 20 + ½ (2 + ½ 20)), 2 + ½ 20 | 3.
    """
    spec = EnvSpec(n_agents=1, n_actions=2, obs_shape=(1,))
    model = Model(Table([10.0, 20.0]), Independent(spec=spec))
    transitions = make_batch([1] * 4, spec=spec, cut_off=[0, 2])  # slot by slot
    transitions = replace(
        transitions,
        reward=torch.tensor([1.0, 3.0, 2.0, 0.0]).view(1, 4, 1),
        avail_actions=torch.ones_like(transitions.avail_actions),
    )
    last = torch.tensor([[False, False], [False, True], [False, False]])
    y = LambdaLoss(gamma=0.5, trace=0.5).targets(model, transitions, last)
    assert y.shape == (2, 2, 1)
    assert y[:, 0, 0].tolist() == [9, 12]
    assert y[0, 1, 0].item() == 3


def test_q_lambda_learns_the_given_targets(tiny):
    """q: 1, 2 | 2; targets 3 throughout: errors -2, -1 | -1; no target network is asked."""
    online, _, batch = tiny
    batch = replace(batch, td_target=torch.full((2, 2, 1), 3.0))
    result = LambdaLoss(gamma=0.9, trace=0.5)(online, None, batch, Clock())
    assert (result.loss_sum.item(), result.count.item()) == (6, 3)
    assert result.priority.tolist() == [1.5, 1]


# not IQN: its levels are drawn in other portions, so other numbers are right too
@pytest.mark.parametrize("name", [name for name in LOSSES if name != "implicit_quantile"])
def test_only_the_first_slots_of_n_step_windows_need_a_gradient(name):
    """With ``mask_end`` the other slots are evaluated without one: the same loss, to the bit of
    what is drawn."""
    online, target = (q_model(name, seed) for seed in range(2))
    batch = make_batch([3, 3, 2, 1], n_steps=3)
    mask = batch.mask.clone()
    mask[1:] = False
    batch, loss = replace(batch, mask=mask), make_loss(name, n_step=3)
    plain = loss_and_grads(loss, online, target, batch)
    short = loss_and_grads(loss, online, target, replace(batch, mask_end=1))
    for ours, theirs in zip(short, plain, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("n_agents", [1, 2])
def test_the_priority_of_a_window_leans_on_its_largest_error(n_agents, compiled):
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


@pytest.mark.parametrize("name", LOSSES)
def test_a_mask_changed_by_a_callback_is_honored_also_where_nothing_is_padding(name):
    """Defect: networks without a compiled step learned from every transition of such a batch."""
    online, target = (q_model(name, seed) for seed in range(2))
    batch = replace(make_batch([1, 1, 1]), mask=torch.tensor([[True, False, True]]))
    found = []
    for whole in (False, True):
        torch.manual_seed(0)
        found.append(loss_and_grads(make_loss(name), online, target, replace(batch, whole=whole)))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("agents", ["mlp", "gru"])
def test_marks_from_the_end_of_the_mask_on_are_ignored_by_every_path(agents):
    """Their targets would be shorter than n steps, and nothing computed their gradient."""
    changes = {"last_action": False, "agent_id": False}
    online, target = (make_model(agents, "independent", seed=i, **changes) for i in range(2))
    batch = replace(make_batch([3, 3, 2], n_steps=3), mask_end=1)
    mask = batch.mask.clone()
    mask[1:] = False
    loss = TDLoss(gamma=0.9, double=True, n_step=3)
    clean = loss_and_grads(loss, online, target, replace(batch, mask=mask))
    marked = loss_and_grads(loss, online, target, batch)
    for ours, theirs in zip(marked, clean, strict=True):
        assert torch.equal(ours, theirs)


# a corridor: right, right, right ends with reward 1; left ends at once with 0.1
N_CELLS, GAMMA = 3, 0.9
CORRIDOR = EnvSpec(n_agents=1, n_actions=2, obs_shape=(N_CELLS + 1,))
SOLUTION = torch.tensor([[0.1, GAMMA**2], [0.1, GAMMA], [0.1, 1.0]])


def corridor():
    """Every transition as a window."""
    cell = torch.arange(N_CELLS).repeat_interleave(2)
    action = torch.tensor([0, 1] * N_CELLS)
    ends = (action == 0) | (cell == N_CELLS - 1)
    reward = torch.where(action == 0, 0.1, (cell == N_CELLS - 1).float())
    batch = make_batch([1] * len(cell), spec=CORRIDOR)
    return replace(
        batch,
        obs=F.one_hot(torch.stack([cell, cell + 1]), N_CELLS + 1).float().unsqueeze(2),
        avail_actions=torch.ones_like(batch.avail_actions),
        last=torch.stack([torch.zeros_like(ends), ends]),
        action=action.view(1, -1, 1),
        reward=reward.view(1, -1, 1),
        terminated=ends.unsqueeze(0),
    )


@pytest.mark.parametrize(
    "name",
    [
        name if name in {"td", "categorical"} else pytest.param(name, marks=pytest.mark.slow)
        for name in [*LOSSES, "q_lambda"]
    ],
)
def test_every_loss_solves_a_corridor(name):
    """To the known values; the Munchausen term only to the known order of the actions."""
    distribution = "scalar" if name == "q_lambda" else LOSSES[name][0]
    model = make_model(
        "mlp",
        "independent",
        CORRIDOR,
        distribution=DISTRIBUTIONS[distribution],
        hidden_sizes=[16],
        last_action=False,
    )
    loss = make_loss(name, GAMMA) if name != "q_lambda" else LambdaLoss(gamma=GAMMA, trace=0.0)
    learner = make_learner(
        model,
        spec=CORRIDOR,
        loss=loss,
        optimizer=partial(adam, lr=2e-2, betas=[0.9, 0.999], eps=1e-8),
        target_update=TargetUpdate(episodes=None, env_steps=None, updates=5, tau=1.0),
    )
    torch.manual_seed(0)
    batch = corridor()
    for update in range(250):
        if name == "q_lambda":
            td_target = loss.targets(model, batch, batch.last)
            batch = replace(batch, td_target=td_target.view(1, -1, 1))
        learner.update(batch, Clock(updates=update))
    with torch.no_grad():
        q = model.agents.unroll(batch).q[0, ::2, 0]  # [cells, A]
    assert q.argmax(1).tolist() == [1] * N_CELLS
    if name != "munchausen":
        tolerance = 0.1 if name == "implicit_quantile" else 0.04
        q = unscale(q, 1e-3) if name == "huber" else q  # it learns rescaled values
        torch.testing.assert_close(q, SOLUTION, rtol=0, atol=tolerance)
