"""The compiled TD step and compiled acting against PyTorch."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from rltrain import kernels
from rltrain.algo.loss.distributional import CategoricalLoss, QuantileLoss, categorical_projection
from rltrain.algo.loss.td import TDLoss
from rltrain.algo.network.feed_forward import FeedForward
from rltrain.kernels.layers import td_step
from rltrain.kernels.layers.distribution_kernel import categorical_error
from rltrain.kernels.layers.stack import Stack
from rltrain.kernels.layers.td_step import CompiledTDLoss
from rltrain.types import Clock, EnvSpec
from tests.algo.batches import DISTRIBUTIONS, loss_and_grads, make_batch, make_model
from tests.marks import each_once

LOSS = TDLoss(gamma=0.9, double=True, n_step=1)

BARE = {"last_action": False, "agent_id": False}

PLAIN = {
    "mlp": ("mlp", (3,), {**BARE, "hidden_sizes": [8, 5]}),
    "mlp-dueling": ("mlp", (3,), {**BARE, "dueling": True, "head_sizes": [4]}),
    "mlp-norm": ("mlp", (3,), {**BARE, "hidden_sizes": [8, 5], "layer_norm": True}),
    "conv": ("conv", (2, 9, 8), BARE),
    "conv-dueling": ("conv", (2, 9, 8), {**BARE, "dueling": True}),
    "conv-one-layer": ("conv", (2, 9, 8), {**BARE, "filters": [[4, 3, 1]], "hidden_sizes": []}),
}


@each_once(
    12,
    network=PLAIN,
    end=[None, 2],
    double=[True, False],
    huber=[None, 0.5],
    n_step=[1, 3],
    n_agents=[1, 2],
)
def test_the_compiled_step_equals_tensor_operations(network, end, double, huber, n_step, n_agents):
    """Windows of unequal length, some of them cut off, of which the first step is masked."""
    kind, obs_shape, changes = PLAIN[network]
    spec = EnvSpec(n_agents=n_agents, n_actions=5, obs_shape=obs_shape)
    online, target = (make_model(kind, "independent", spec, seed, **changes) for seed in range(2))
    batch = make_batch([5, 3, 1, 5], spec=spec, cut_off=[0, 2])
    mask = batch.mask.clone()
    mask[0] = False
    if end is not None:
        mask[end:] = False
    weight = torch.linspace(0.1, 1, 4)
    batch = replace(batch, mask=mask, weight=weight, mask_end=end, eta=0.9)
    loss = TDLoss(gamma=0.9, double=double, n_step=n_step, huber=huber)
    compiled = loss_and_grads(CompiledTDLoss(loss), online, target, batch)
    for ours, theirs in zip(compiled, loss_and_grads(loss, online, target, batch), strict=True):
        torch.testing.assert_close(ours, theirs.to(ours.dtype), rtol=1e-5, atol=5e-6)


@pytest.mark.parametrize(
    ("mask_end", "n_threads", "left"), [(None, 1, False), (None, 2, True), (1, 2, False)]
)
def test_large_networks_are_left_to_pytorch_and_its_threads(monkeypatch, mask_end, n_threads, left):
    """4 filters of 2 x 3 x 3 at 7 x 6 places, 5 actions: 3,864 multiplications a transition; of
    windows of two steps whose first is learned, only that counts.
    """
    kind, obs_shape, changes = PLAIN["conv-one-layer"]
    spec = EnvSpec(n_agents=1, n_actions=5, obs_shape=obs_shape)
    online, target = (make_model(kind, "independent", spec, seed, **changes) for seed in range(2))
    batch = make_batch([2, 2], spec=spec)
    mask = batch.mask.clone()
    mask[mask_end:] = mask_end is None
    batch = replace(batch, mask=mask, mask_end=mask_end)
    monkeypatch.setattr(td_step, "MOST_PRODUCTS", 3_864 * batch.action.numel())
    monkeypatch.setattr(torch, "get_num_threads", lambda: n_threads)
    assert (CompiledTDLoss(LOSS)(online, target, batch, Clock()).gradient is None) == left


OTHER = {
    "inputs": {"last_action": True, "agent_id": True},
    "scaled": {"normalize_obs": True},
    "noisy": {"noisy_sigma": 0.5, "head_sizes": [4]},
    "noisy-dueling": {"noisy_sigma": 0.5, "head_sizes": [17], "dueling": True},
    "noisy-norm": {"noisy_sigma": 0.5, "head_sizes": [17], "dueling": True, "layer_norm": True},
}
SETTINGS = {"gamma": 0.9, "n_step": 2}


def quantile(kind, kappa):
    distribution = DISTRIBUTIONS[kind]
    return lambda double: QuantileLoss(
        **SETTINGS, double=double, kappa=kappa, distribution=distribution
    )


POINTS = {
    "scalar": lambda double: TDLoss(**SETTINGS, double=double),
    "categorical": lambda double: CategoricalLoss(
        **SETTINGS, double=double, distribution=DISTRIBUTIONS["categorical"]
    ),
    "quantile": quantile("quantile", 1.0),
    "implicit_quantile": quantile("implicit_quantile", 1.0),
    "plain-quantile": quantile("quantile", 0.0),
}


def require_equal_steps(plain, models, batch):
    """The compiled loss has the values and gradients of the plain one, with the same noise."""
    compiled = kernels.compile_loss(plain, models[0])
    assert compiled is not plain
    results = []
    for each in (compiled, plain):
        torch.manual_seed(5)
        results.append(loss_and_grads(each, *models, batch))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs.to(ours.dtype), rtol=2e-5, atol=5e-6)


@each_once(loss=POINTS, changes=OTHER, double=[True, False])
def test_the_compiled_step_equals_losses_of_distributions_and_noisy_networks(loss, changes, double):
    """Windows of an episode's middle, its end and its last transition; one transition each is
    learned from, with the noise that the plain loss draws.
    """
    spec = EnvSpec(n_agents=2, n_actions=3, obs_shape=(3,))
    distribution = DISTRIBUTIONS[loss.removeprefix("plain-")]
    settings = {"distribution": distribution, **BARE, **OTHER[changes]}
    models = [make_model("mlp", "independent", spec, seed, **settings) for seed in range(2)]
    batch = make_batch([2, 2, 1, 2], spec=spec, cut_off=[0, 2])
    batch = replace(batch, weight=torch.linspace(0.1, 1, 4), mask_end=1, eta=0.9)
    require_equal_steps(POINTS[loss](double), models, batch)


@pytest.mark.parametrize("dueling", [True, False])
def test_the_compiled_step_equals_implicit_quantiles_of_pictures(dueling):
    spec = EnvSpec(n_agents=1, n_actions=3, obs_shape=(2, 9, 8))
    settings = {"distribution": DISTRIBUTIONS["implicit_quantile"], **BARE, "dueling": dueling}
    models = [make_model("conv", "independent", spec, seed, **settings) for seed in range(2)]
    batch = make_batch([2, 3, 1], spec=spec)
    require_equal_steps(POINTS["implicit_quantile"](True), models, batch)


@each_once(
    distribution=["scalar", "categorical", "quantile", "implicit_quantile"],
    changes=OTHER,
    training=[True, False],
)
def test_compiled_acting_equals_distributions_and_noisy_networks(distribution, changes, training):
    spec = EnvSpec(n_agents=2, n_actions=3, obs_shape=(3,))
    settings = {"distribution": DISTRIBUTIONS[distribution], **BARE, **OTHER[changes]}
    agents = make_model("mlp", "independent", spec, **settings).agents.train(training)
    kernels.compile_agents(agents)
    obs, rest = torch.randn(4, 2, 3), (torch.full((4, 2), -1), torch.zeros(4, 2, 0))
    found = []
    for step in (agents.step, partial(FeedForward.step, agents)):
        torch.manual_seed(5)
        with torch.no_grad():
            found.append(step(obs, *rest)[0])
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("n_rows", [1, 7, 40])
@pytest.mark.parametrize("network", PLAIN)
def test_compiled_acting_equals_the_tensor_operations(network, n_rows):
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
    [("conv", {"layer_norm": True}), ("conv", {"agent_id": True}), ("conv", {"last_action": True})],
)
def test_networks_that_are_more_than_layers_are_not_compiled(agents, more):
    spec = EnvSpec(n_agents=2, n_actions=3, obs_shape=(2, 9, 8))
    model = make_model(agents, "independent", spec, **{**BARE, **more})
    assert Stack.of(model.agents) is None
    assert kernels.compile_loss(LOSS, model) is LOSS


@pytest.mark.parametrize("support", [(-10, 10, 51), (990, 1010, 51), (0, 1, 7), (-3, 0.1, 4)])
def test_a_compiled_projection_is_the_plain_one(support):
    atoms = torch.linspace(*support)
    rng, n = np.random.default_rng(0), len(atoms)
    for at in (*rng.uniform(support[0] - 1, support[1] + 1, 40), support[1], support[0]):
        logits, reward = rng.normal(size=n).astype(np.float32), np.float32(0.01 * at)
        prob = torch.softmax(torch.from_numpy(logits), -1)
        discount = torch.tensor(0.99)
        plain = categorical_projection(prob, atoms, torch.tensor(reward), discount)
        work = np.empty((3, n), np.float32)
        categorical_error(
            logits, logits, reward, np.float32(0.99), atoms.numpy(), np.empty(n, np.float32), work
        )
        assert (work[2] >= 0).all()
        np.testing.assert_allclose(work[2], plain, rtol=0, atol=1e-6 + 1e-7 * abs(support[0]))
