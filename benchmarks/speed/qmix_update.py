"""QMIX updates: shapes, random batches, rltrain's learner and its arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import cast

import numpy as np
import torch

from rltrain import kernels
from rltrain.algo.learner import Learner
from rltrain.algo.loss.td import TDLoss
from rltrain.algo.mixer.qmix import QMix
from rltrain.algo.network.gru import GRUAgents
from rltrain.algo.optimizer import rmsprop
from rltrain.algo.target_update import TargetUpdate
from rltrain.interfaces import Loss, Model
from rltrain.types import Batch, EnvSpec

N_EPISODES = 32


def smac_like(n_agents: int, n_enemies: int | None = None) -> EnvSpec:
    """Sizes of a SMAC map with marines; as many enemies as agents unless given."""
    n_enemies = n_agents if n_enemies is None else n_enemies
    n_actions = 6 + n_enemies
    return EnvSpec(
        n_agents=n_agents,
        n_actions=n_actions,
        obs_shape=(5 * (n_agents + n_enemies),),
        state_dim=4 * n_agents + 3 * n_enemies + n_agents * n_actions,
    )


MAPS = {"3m": (3, 3, 60), "8m": (8, 8, 120), "27m_vs_30m": (27, 30, 180)}
"""Agents, enemies, and the time limit."""


def make_batch(spec: EnvSpec, lengths: Sequence[int], seed: int = 0) -> Batch:
    """Random whole episodes of these lengths, longest first, as from the episode buffer."""
    rng = np.random.default_rng(seed)
    length = np.sort(lengths)[::-1].copy()
    n_steps, n_windows = int(length[0]), len(length)
    step = np.arange(n_steps + 1)[:, None]
    real, mask = step <= length, step[:-1] < length  # [T+1, B], [T, B]
    shape = (n_steps + 1, n_windows, spec.n_agents)
    obs = rng.standard_normal((*shape, *spec.obs_shape), np.float32) * real[..., None, None]
    state = rng.standard_normal((*shape[:2], spec.state_dim), np.float32) * real[..., None]
    avail_actions = rng.random((*shape, spec.n_actions)) < 0.7
    avail_actions[..., 0] = True
    action = rng.integers(0, spec.n_actions, (n_steps, *shape[1:])) * mask[..., None]
    last_action = np.concatenate([np.full((1, *shape[1:]), -1), action])
    reward = rng.standard_normal((n_steps, n_windows, 1), np.float32) * mask[..., None]
    return Batch(
        obs=torch.from_numpy(obs),
        avail_actions=torch.from_numpy(avail_actions),
        state=torch.from_numpy(state),
        last_action=torch.from_numpy(last_action),
        last=torch.from_numpy(step >= length),
        action=torch.from_numpy(action),
        reward=torch.from_numpy(reward),
        terminated=torch.from_numpy(step[:-1] == length - 1),
        mask=torch.from_numpy(mask),
        weight=torch.ones(n_windows),
        index=torch.arange(n_windows),
    )


def make_learner(spec: EnvSpec, target_cache: int | None = None) -> Learner:
    model = Model(
        GRUAgents(spec=spec, hidden_dim=64, last_action=True, agent_id=True),
        QMix(spec=spec, embed_dim=32, hypernet_layers=2, hypernet_dim=64),
    )
    kernels.compile_agents(model.agents)
    loss = cast(Loss, TDLoss(gamma=0.99, double=True, n_step=1))
    return Learner(
        spec=spec,
        model=model,
        loss=kernels.compile_loss(loss, model, target_cache=target_cache),
        optimizer=partial(rmsprop, lr=5e-4, alpha=0.99, eps=1e-5),
        max_grad_norm=10.0,
        target_update=TargetUpdate(episodes=200, env_steps=None, updates=None, tau=1.0),
    )


def arithmetic(spec: EnvSpec, lengths: Sequence[int]) -> float:
    """Floating-point operations of an update with one-hot inputs: two passes forward, one back."""
    n_inputs = spec.obs_shape[0] + spec.n_actions + spec.n_agents
    first, rest = 64 * n_inputs, 64 * (6 * 64 + spec.n_actions)
    of_agents = 2 * (first + rest) + first + 2 * rest  # inputs have no gradient
    outer, inner = 192 * spec.state_dim, 64 * 32 * (spec.n_agents + 1) + 32
    of_mixer = 2 * (outer + inner) + outer + 2 * inner
    return 2.0 * sum(lengths) * (spec.n_agents * of_agents + of_mixer)


def acting_arithmetic(spec: EnvSpec) -> float:
    """Floating-point operations of an env step: the agents forward, with one-hot inputs."""
    n_inputs = spec.obs_shape[0] + spec.n_actions + spec.n_agents
    return 2.0 * spec.n_agents * 64 * (n_inputs + 6 * 64 + spec.n_actions)


def mixed_lengths(n_steps: int) -> list[int]:
    """Episode lengths between 30% and 100% of the limit, as a half-trained team has them."""
    share = np.random.default_rng(1).triangular(0.3, 0.5, 1.0, N_EPISODES)
    return [int(length) for length in np.ceil(share * n_steps)]
