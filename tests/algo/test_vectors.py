"""One gradient step equals the published learners' of every method, number by number."""

from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
import torch

from rltrain.algo.loss.qtran import QTranCritic, QTranLoss
from rltrain.algo.loss.td import TDLoss
from rltrain.algo.loss.weighted import CentralCritic, WeightedLoss
from rltrain.algo.mixer.qmix import QMix
from rltrain.algo.mixer.qplex import QPlex
from rltrain.algo.mixer.sum import Independent, Sum
from rltrain.algo.optimizer import rmsprop
from rltrain.algo.target_update import TargetUpdate
from rltrain.interfaces import Model
from rltrain.migrate import load_pymarl, named_parts
from rltrain.types import Batch, Clock, EnvSpec
from tests.algo.batches import AGENTS, make_learner

DATA = Path(__file__).parents[1] / "data"
SPEC = EnvSpec(n_agents=3, n_actions=6, obs_shape=(10,), state_dim=14)
QMIX = partial(QMix, embed_dim=8, hypernet_layers=2, hypernet_dim=16)
QPLEX = partial(QPlex, hypernet_dim=16, kernel_dim=16)
MIXERS = {
    "iql-double1-layers2": Independent,
    "vdn-double0-layers2": Sum,
    "vdn-double1-layers2": Sum,
    "qmix-double1-layers2": QMIX,
    "qmix-double0-layers1": partial(QMix, embed_dim=8, hypernet_layers=1, hypernet_dim=16),
    "qtran-double1-layers2": Sum,
    "ow_qmix-double1-layers2": QMIX,
    "cw_qmix-double1-layers2": QMIX,
    "qplex-kernels4-layers1": partial(QPLEX, kernels=4, kernel_layers=1),
    "qplex-kernels10-layers3": partial(QPLEX, kernels=10, kernel_layers=3),
}
RETURNS = {"gamma": 0.99, "double": True, "n_step": 1}
LOSSES = {  # the others have TDLoss
    "qtran": partial(QTranLoss, opt_weight=1.0, nopt_weight=0.1, **RETURNS),
    "ow_qmix": partial(WeightedLoss, weighting="optimistic", alpha=0.1, **RETURNS),
    "cw_qmix": partial(WeightedLoss, weighting="central", alpha=0.1, **RETURNS),
}
CRITICS = {
    "qtran": partial(QTranCritic, hidden_dim=16, embed_dim=16),
    "ow_qmix": partial(CentralCritic, embed_dim=24),
    "cw_qmix": partial(CentralCritic, embed_dim=24),
}
AGENTS_OF = partial(AGENTS["gru"], spec=SPEC, hidden_dim=16)
STATISTICS = {  # beside those of all; theirs of the weights has the padding in it
    "qtran": ["td_loss", "opt_loss", "nopt_loss"],
    "ow_qmix": ["qmix_loss", "central_loss"],
    "cw_qmix": ["qmix_loss", "central_loss"],
}


@pytest.fixture(params=MIXERS)
def step(request, kernels):
    """The name, the recorded arrays, and our learner after the same step."""
    return made_step(request.param, kernels)


@cache
def made_step(recorded, kernels):
    """Made once for all tests, which only read it."""
    name = recorded.partition("-")[0]
    vector = dict(np.load(DATA / f"{recorded}.npz"))
    model = Model(AGENTS_OF(), MIXERS[recorded](spec=SPEC), critic_of(name))
    loss = LOSSES.get(name, partial(TDLoss, **{**RETURNS, "double": "double0" not in recorded}))
    learner = make_learner(
        model,
        spec=SPEC,
        loss=loss(),
        optimizer=partial(rmsprop, lr=5e-4, alpha=0.99, eps=1e-5),
        max_grad_norm=10.0,
        target_update=TargetUpdate(episodes=200, env_steps=None, updates=None, tau=1.0),
    )
    load_pymarl(learner, **parts(vector, "before"))
    batch = batch_of(vector)
    q = learner.online.agents.unroll(batch).q.detach()
    metrics = learner.update(batch, Clock()).metrics
    return name, vector, learner, q, metrics


def critic_of(name):
    """The critic of a method, None of those that have none."""
    if name not in CRITICS:
        return None
    facts = {"make_agents": AGENTS_OF} if name != "qtran" else {}
    return CRITICS[name](spec=SPEC, **facts)


def parts(vector, kind):
    """``before/PART/NAME`` by part and name."""
    found = {}
    for key, value in vector.items():
        first, *rest = key.split("/")
        if first == kind:
            found.setdefault(rest[0], {})[rest[1]] = value
    return found


def pairs(learner, vector, kind):
    """Our parameters and the recorded arrays that belong to them."""
    ours, recorded = named_parts(learner.online), parts(vector, kind)
    assert {part for part, module in ours.items() if list(module.parameters())} == set(recorded)
    for part, arrays in recorded.items():
        named = dict(ours[part].named_parameters())
        assert named.keys() == arrays.keys()
        yield from ((named[name], torch.from_numpy(array)) for name, array in arrays.items())


def batch_of(vector):
    """Batch first to time first; the published learners' masks as ours."""

    def time_first(name):
        return torch.from_numpy(vector[f"batch/{name}"]).transpose(0, 1).contiguous()

    length = torch.from_numpy(vector["batch/length"])  # [B]
    action = time_first("actions")  # [T, B, N]
    n_steps, n_windows, n_agents = action.shape
    none_yet = torch.full((1, n_windows, n_agents), -1)
    return Batch(
        obs=time_first("obs"),
        avail_actions=time_first("avail_actions").bool(),
        state=time_first("state"),
        last_action=torch.cat([none_yet, action]),
        last=torch.arange(n_steps + 1).unsqueeze(1) >= length,
        action=action,
        reward=time_first("reward").unsqueeze(-1),
        terminated=time_first("terminated"),
        mask=torch.arange(n_steps).unsqueeze(1) < length,
        weight=torch.ones(n_windows),
        index=torch.arange(n_windows),
    )


def worst(ours, theirs):
    """The largest difference relative to the tensor's largest entry."""
    return ((ours - theirs).abs().max() / theirs.abs().max()).item()


def test_q_values_are_the_published_ones(step):
    _, vector, _, q, _ = step
    theirs = torch.from_numpy(vector["q_values"]).transpose(0, 1)
    real = torch.arange(len(q)).unsqueeze(1) <= torch.from_numpy(vector["batch/length"])
    assert worst(q[real], theirs[real]) < 1e-5


def test_statistics_are_the_published_ones(step):
    name, vector, _, _, metrics = step
    for each in ["loss", "td_error_abs", "grad_norm", *STATISTICS.get(name, [])]:
        assert metrics[each].item() == pytest.approx(vector[f"stat/{each}"].item(), rel=1e-5)


def test_means_are_n_agents_times_the_published_ones(step):
    name, vector, _, _, metrics = step
    if name == "qtran":  # its authors log the error as td_targets, and padding in the other
        return
    for each in ("q_taken_mean", "target_mean"):
        theirs = vector[f"stat/{each}"].item() * SPEC.n_agents
        assert metrics[each].item() == pytest.approx(theirs, rel=1e-5)


def test_gradients_after_clipping_are_the_published_ones(step):
    _, vector, learner, *_ = step
    assert max(worst(p.grad, theirs) for p, theirs in pairs(learner, vector, "grad")) < 1e-5


def test_weights_after_the_step_are_the_published_ones(step):
    _, vector, learner, *_ = step
    assert max(worst(p.detach(), theirs) for p, theirs in pairs(learner, vector, "after")) < 1e-5
