"""One gradient step equals the published learners' (IQL, VDN, QMIX), number by number."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from rltrain.algo.learner import Learner
from rltrain.algo.loss import TDLoss
from rltrain.algo.mixer import Independent, QMix, Sum
from rltrain.algo.optimizer import rmsprop
from rltrain.algo.target_update import TargetUpdate
from rltrain.types import (
    Batch,
    Clock,
    EnvSpec,
    Model,
)
from tests.algo.batches import AGENTS

DATA = Path(__file__).parents[1] / "data"
SPEC = EnvSpec(n_agents=3, n_actions=6, obs_shape=(10,), state_dim=14)
MIXERS = {
    "iql-double1-layers2": Independent,
    "vdn-double0-layers2": Sum,
    "vdn-double1-layers2": Sum,
    "qmix-double1-layers2": partial(QMix, embed_dim=8, hypernet_layers=2, hypernet_dim=16),
    "qmix-double0-layers1": partial(QMix, embed_dim=8, hypernet_layers=1, hypernet_dim=16),
}


@pytest.fixture(params=MIXERS)
def step(request):
    """The recorded arrays, and our learner after the same step."""
    vector = dict(np.load(DATA / f"{request.param}.npz"))
    model = Model(
        AGENTS["gru"](spec=SPEC, hidden_dim=16),
        MIXERS[request.param](spec=SPEC),
    )
    learner = Learner(
        spec=SPEC,
        model=model,
        loss=TDLoss(gamma=0.99, double="double1" in request.param, n_step=1),
        optimizer=partial(rmsprop, lr=5e-4, alpha=0.99, eps=1e-5),
        max_grad_norm=10.0,
        target_update=TargetUpdate(episodes=200, env_steps=None, updates=None, tau=1.0),
    )
    learner.online.load_state_dict(weights(vector, "before/"))
    learner.target.load_state_dict(weights(vector, "before/target_"))
    batch = batch_of(vector)
    q = learner.online.agents.unroll(batch).q.detach()
    metrics = learner.update(batch, Clock()).metrics
    return vector, learner, q, metrics


def weights(vector, prefix):
    parts = {"agent": "agents", "mixer": "mixer"}
    return {
        f"{ours}.{key.removeprefix(f'{prefix}{theirs}/')}": torch.from_numpy(value)
        for key, value in vector.items()
        for theirs, ours in parts.items()
        if key.startswith(f"{prefix}{theirs}/")
    }


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
    vector, _, q, _ = step
    theirs = torch.from_numpy(vector["q_values"]).transpose(0, 1)
    real = torch.arange(len(q)).unsqueeze(1) <= torch.from_numpy(vector["batch/length"])
    assert worst(q[real], theirs[real]) < 1e-5


@pytest.mark.parametrize("name", ["loss", "td_error_abs", "grad_norm"])
def test_statistics_are_the_published_ones(step, name):
    vector, _, _, metrics = step
    assert metrics[name].item() == pytest.approx(vector[f"stat/{name}"].item(), rel=1e-5)


@pytest.mark.parametrize("name", ["q_taken_mean", "target_mean"])
def test_means_are_n_agents_times_the_published_ones(step, name):
    vector, _, _, metrics = step
    theirs = vector[f"stat/{name}"].item() * SPEC.n_agents
    assert metrics[name].item() == pytest.approx(theirs, rel=1e-5)


def test_gradients_after_clipping_are_the_published_ones(step):
    vector, learner, *_ = step
    ours = {name: p.grad for name, p in learner.online.named_parameters()}
    theirs = weights(vector, "grad/")
    assert ours.keys() == theirs.keys()
    assert max(worst(ours[name], theirs[name]) for name in ours) < 1e-5


def test_weights_after_the_step_are_the_published_ones(step):
    vector, learner, *_ = step
    ours, theirs = dict(learner.online.named_parameters()), weights(vector, "after/")
    assert max(worst(ours[name].detach(), theirs[name]) for name in ours) < 1e-5
