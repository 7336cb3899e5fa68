"""Hand-made batches and models for the tests of ``algo``."""

from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import nn

from rltrain import kernels
from rltrain.algo.learner import Learner
from rltrain.algo.loss.distributional import CategoricalLoss, QuantileLoss
from rltrain.algo.loss.qtran import QTranCritic, QTranLoss
from rltrain.algo.loss.td import TDLoss
from rltrain.algo.loss.weighted import CentralCritic, WeightedLoss
from rltrain.algo.mixer.qatten import Qatten
from rltrain.algo.mixer.qmix import QMix
from rltrain.algo.mixer.qplex import QPlex, QPlexAttention
from rltrain.algo.mixer.sum import Independent, Sum
from rltrain.algo.network.conv import conv_agents
from rltrain.algo.network.distribution import Categorical, ImplicitQuantile, Quantile, Scalar
from rltrain.algo.network.feed_forward import mlp_agents
from rltrain.algo.network.gru import GRUAgents
from rltrain.algo.network.packing import zero_outside
from rltrain.algo.optimizer import rmsprop
from rltrain.algo.target_update import TargetUpdate
from rltrain.interfaces import Model
from rltrain.types import Batch, Clock, EnvSpec, Output

SPEC = EnvSpec(n_agents=2, n_actions=4, obs_shape=(3,), state_dim=5)
E, N, A = 3, SPEC.n_agents, SPEC.n_actions  # three environments
OPEN, ALL = np.zeros(E, bool), np.ones((E, N, A), np.uint8)  # no last step, all available
MAPS = {  # name: agents, actions, obs, state
    "5m_vs_6m": (5, 12, 55, 98),
    "8m": (8, 14, 80, 168),
    "3s5z": (8, 14, 128, 216),
    "MMM2": (10, 18, 176, 322),
    "2c_vs_64zg": (2, 70, 332, 342),
}
KERNELS = "compiled"  # set by the fixture of the same name


def accelerated(agents):
    """The agents, with their compiled counterparts if the test wants them."""
    if KERNELS == "compiled":
        kernels.compile_agents(agents)
    return agents


def _made(make, **settings):
    return accelerated(make(**settings))


PLAIN = {"distribution": Scalar(), "dueling": False, "noisy_sigma": None}
PLAIN |= {"layer_norm": False, "hidden_sizes": [8]}
BOTH = {"last_action": True, "agent_id": True}
AGENTS = {
    "gru": partial(_made, GRUAgents, hidden_dim=8, **BOTH),
    "mlp": partial(_made, mlp_agents, head_sizes=[], **PLAIN, **BOTH),
}
IMAGE = {"filters": [[5, 3, 2], [3, 2, 1]], "last_action": False, "agent_id": True}
OF_IMAGES = {"conv": partial(_made, conv_agents, **PLAIN, **IMAGE)}
SIZES = {"hypernet_dim": 8, "kernels": 2, "kernel_layers": 1, "kernel_dim": 8}
MIXERS = {
    "independent": Independent,
    "sum": Sum,
    "qmix": partial(QMix, embed_dim=4, hypernet_layers=2, hypernet_dim=8),
    "qplex": partial(QPlex, hypernet_dim=8, kernels=2, kernel_layers=2, kernel_dim=8),
    "qplex_attention": partial(
        QPlexAttention, heads=2, embed_dim=4, weighted_heads=True, attention_penalty=1e-3, **SIZES
    ),
    "qatten": partial(
        Qatten, heads=2, query_dim=8, embed_dim=4, constant_dim=4, weighted_heads=True
    ),
}
CRITICS = {
    "qtran": partial(QTranCritic, hidden_dim=8, embed_dim=8),
    "central": partial(CentralCritic, embed_dim=8),
}
METHODS = {  # name: mixer, loss, critic
    "iql": ("independent", TDLoss, None),
    "vdn": ("sum", TDLoss, None),
    **{name: (name, TDLoss, None) for name in ("qmix", "qplex", "qplex_attention", "qatten")},
    "qtran": ("sum", partial(QTranLoss, opt_weight=1.0, nopt_weight=0.1), "qtran"),
    "ow_qmix": ("qmix", partial(WeightedLoss, weighting="optimistic", alpha=0.1), "central"),
    "cw_qmix": ("qmix", partial(WeightedLoss, weighting="central", alpha=0.1), "central"),
}
DISTRIBUTIONS = {
    "scalar": Scalar(),
    "categorical": Categorical(atoms=5, v_min=-2.0, v_max=2.0),
    "quantile": Quantile(quantiles=3),
    "implicit_quantile": ImplicitQuantile(online=3, target=2, acting=4, cosines=4),
}
LOSSES = {  # name: the distribution it needs, from gamma and n_step; PQN's has targets of its own
    "td": ("scalar", partial(TDLoss, double=True)),
    "huber": ("scalar", partial(TDLoss, double=False, huber=0.5, rescale=1e-3)),
    "munchausen": (
        "scalar",
        partial(TDLoss, double=False, munchausen=0.9, temperature=0.3, huber=1.0),
    ),
    "categorical": (
        "categorical",
        partial(CategoricalLoss, double=True, distribution=DISTRIBUTIONS["categorical"]),
    ),
    "quantile": (
        "quantile",
        partial(QuantileLoss, double=True, kappa=1.0, distribution=DISTRIBUTIONS["quantile"]),
    ),
    "implicit_quantile": (
        "implicit_quantile",
        partial(
            QuantileLoss, double=False, kappa=1.0, distribution=DISTRIBUTIONS["implicit_quantile"]
        ),
    ),
}


def observe(seed=0):
    """Observations [E, N, O]."""
    return np.random.default_rng(seed).standard_normal((E, N, 3), np.float32)


def make_loss(name, gamma=0.9, n_step=1):
    _, loss = LOSSES[name]
    return loss(gamma=gamma, n_step=n_step)


def spec_of(name):
    n_agents, n_actions, obs, state = MAPS[name]
    return EnvSpec(n_agents=n_agents, n_actions=n_actions, obs_shape=(obs,), state_dim=state)


def make_batch(lengths, spec=SPEC, n_steps=None, seed=0, cut_off=()) -> Batch:
    """Whole episodes of these lengths; those numbered in ``cut_off`` do not terminate."""
    rng = np.random.default_rng(seed)
    lengths = np.asarray(lengths)
    n_steps, n_windows = n_steps or int(lengths.max()), len(lengths)
    step = np.arange(n_steps + 1)[:, None]
    real, learned = step <= lengths, step[:-1] < lengths  # [T+1, B], [T, B]
    shape = (n_steps + 1, n_windows, spec.n_agents)
    avail_actions = rng.random((*shape, spec.n_actions)) < 0.6
    avail_actions[..., 0] = True
    avail_actions &= real[..., None, None]
    action = rng.integers(0, spec.n_actions, (n_steps, *shape[1:])) * learned[..., None]
    last_action = np.concatenate([np.full((1, *shape[1:]), -1), action])
    terminated = step[:-1] == lengths - 1
    terminated[:, list(cut_off)] = False

    def normal(*size):
        return torch.from_numpy(rng.standard_normal(size, np.float32))

    return Batch(
        obs=zero_outside(normal(*shape, *spec.obs_shape), torch.from_numpy(real)),
        avail_actions=torch.from_numpy(avail_actions),
        state=normal(*shape[:2], spec.state_dim) * torch.from_numpy(real)[..., None],
        last_action=torch.from_numpy(last_action),
        last=torch.from_numpy(step >= lengths),
        action=torch.from_numpy(action),
        reward=normal(n_steps, n_windows, spec.n_rewards) * torch.from_numpy(learned)[..., None],
        terminated=torch.from_numpy(terminated),
        mask=torch.from_numpy(learned),
        weight=torch.ones(n_windows),
        index=torch.arange(n_windows),
    )


def open_batch(lengths, spec, cut_off=(), n_steps=None, **fields) -> Batch:
    """Whole episodes in which every action is available; each of the fields is one value or all."""
    batch = make_batch(lengths, spec, n_steps, cut_off=cut_off)
    for name, values in fields.items():
        values, like = torch.as_tensor(values), getattr(batch, name)
        fields[name] = (
            values.view_as(like) if values.dim() else torch.full_like(like, values.item())
        )
    return replace(batch, avail_actions=torch.ones_like(batch.avail_actions), **fields)


def with_garbage(batch: Batch, lengths, seed=1) -> Batch:
    """The same batch with anything at all behind each window's end."""
    rng = np.random.default_rng(seed)
    step = torch.arange(len(batch.last)).unsqueeze(1)
    outside = step > torch.as_tensor(lengths)  # [T+1, B]

    def spoil(x, garbage):
        where = outside[len(outside) - len(x) :]  # transition t is real where step t + 1 is
        where = where.view(*where.shape, *[1] * (x.dim() - 2))
        return torch.where(where, torch.as_tensor(garbage, dtype=x.dtype), x)

    def integers(x):
        return rng.integers(0, batch.avail_actions.shape[-1], x.shape)

    def flags(x):
        return rng.random(x.shape) < 0.5

    return replace(
        batch,
        obs=spoil(batch.obs, torch.nan),
        state=spoil(batch.state, torch.nan),
        reward=spoil(batch.reward, torch.nan),
        avail_actions=spoil(batch.avail_actions, flags(batch.avail_actions)),
        last_action=spoil(batch.last_action, integers(batch.last_action)),
        action=spoil(batch.action, integers(batch.action)),
        last=spoil(batch.last, flags(batch.last)),
        terminated=spoil(batch.terminated, flags(batch.terminated)),
        mask=spoil(batch.mask, flags(batch.mask)),
    )


def make_model(agents="gru", mixer="qmix", spec=SPEC, seed=0, **changes) -> Model:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Model(
            {**AGENTS, **OF_IMAGES}[agents](spec=spec, **changes), MIXERS[mixer](spec=spec)
        )


def make_method(name, seed=0, spec=SPEC, **returns):
    """The model and the loss of a method for recurrent teams."""
    mixer, loss, critic = METHODS[name]
    model = make_model("gru", mixer, spec, seed)
    if critic is not None:
        facts = {"make_agents": partial(AGENTS["gru"], spec=spec)} if critic == "central" else {}
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model.critic = CRITICS[critic](spec=spec, **facts)
    return model, loss(**{"gamma": 0.9, "double": True, "n_step": 1, **returns})


def loss_and_grads(loss, online, target, batch):
    """Loss sum, count, priorities, metrics and gradients."""
    result = loss(online, target, batch, Clock())
    numbers = [torch.as_tensor(x) for x in (result.count, *result.metrics.values())]
    loss_sum = torch.as_tensor(result.loss_sum).detach()
    return [loss_sum, result.priority, *numbers, *gradients(result, online)]


def require_padding_unread(loss, online, target, lengths=(5, 3, 1), **tolerance):
    """Garbage behind the ends of windows changes neither loss nor gradients of the same draws."""
    batch, found = make_batch(lengths, n_steps=5, cut_off=[1]), []
    for each in (batch, with_garbage(batch, lengths)):
        torch.manual_seed(0)
        found.append(loss_and_grads(loss, online, target, each))
    torch.testing.assert_close(*found, **tolerance)


class Table(nn.Module):
    """Agents that say the same values [A] in every step."""

    hidden_dim = 0

    def __init__(self, q):
        super().__init__()
        self.q = nn.Parameter(torch.tensor(q))

    def unroll(self, batch, start=0, stop=None):
        shape = batch.last_action.shape
        return Output(self.q.expand(*shape, -1), self.q.new_empty(*shape, 0))


def gradients(result, model) -> list:
    """Of the loss sum by every weight."""
    weights = list(model.parameters())
    if result.gradient is None:
        return list(torch.autograd.grad(result.loss_sum, weights, materialize_grads=True))
    pieces = result.gradient.split([weight.numel() for weight in weights])
    return [piece.view_as(weight) for piece, weight in zip(pieces, weights, strict=True)]


def make_learner(model=None, **other) -> Learner:
    parts = {
        "spec": SPEC,
        "model": model or make_model(),
        "loss": TDLoss(gamma=0.99, double=True, n_step=1),
        "optimizer": partial(rmsprop, lr=1e-2, alpha=0.99, eps=1e-5),
        "max_grad_norm": 10.0,
        "target_update": TargetUpdate(episodes=None, env_steps=None, updates=2, tau=1.0),
    }
    parts |= other
    if KERNELS == "compiled":
        parts["loss"] = kernels.compile_loss(parts["loss"], parts["model"])
    learner = Learner(**parts)
    if KERNELS == "compiled":
        kernels.compile_part(learner.gradient_step)
    return learner


def require_acting_equals_unrolling(agents, batch, hidden):
    """One step after the other gives the values of the whole window."""
    q = []
    for obs, last_action in zip(batch.obs, batch.last_action, strict=True):
        values, hidden = agents.step(obs, last_action, hidden)
        q.append(values)
    torch.testing.assert_close(torch.stack(q), agents.unroll(batch).q)


def one_step(spec, reward=0.5, terminated=False, action=0):
    """A window of one transition after which every action is available."""
    return open_batch([1], spec, [] if terminated else [0], action=action, reward=reward)
