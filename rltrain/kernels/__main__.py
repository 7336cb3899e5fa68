"""``python -m rltrain.kernels`` compiles the learner's kernels before the first run, or some of
them: ``python -m rltrain.kernels sequence_step``.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np
import torch

from rltrain.interfaces import Model
from rltrain.kernels import compile_agents
from rltrain.types import Batch, Clock, LossResult


def compile_recurrence() -> None:
    """Compile every kernel of the GRU, or load it from the cache."""
    from rltrain.algo.network.packing import PackedGRU
    from rltrain.kernels.recurrent.packed_gru import gru
    from rltrain.kernels.recurrent.packed_gru_kernel import BLOCK

    n_rows = 2 * BLOCK
    first = torch.zeros(n_rows, 2)
    cell = PackedGRU(2, 2)
    for n_threads in (1, 2):
        torch.set_num_threads(n_threads)
        gru(cell, first.clone(), first, [n_rows]).sum().backward()


def compile_backward() -> None:
    """Compile the backward pass of feed-forward agents first: meanwhile the process that acts
    compiles the forward pass, which is then loaded from the cache.
    """
    from numba import types

    from rltrain.kernels.layers.stack_kernel import differentiate

    matrix, weights = types.float32[:, ::1], types.float32[::1]
    layers = types.List(matrix)
    values = types.Tuple((layers, layers, layers, matrix, matrix))
    shapes, cut = types.int64[:, ::1], types.UniTuple(types.int64, 2)
    differentiate.compile((values, matrix, types.int64, types.none, weights, shapes, cut, weights))


def compile_td_step() -> None:
    """Compile acting and the learning step of feed-forward agents with values, or load them from
    the cache.
    """
    from rltrain.algo.exploration.epsilon import FixedEpsilon
    from rltrain.algo.loss.td import TDLoss
    from rltrain.algo.network.distribution import Scalar
    from rltrain.algo.optimizer import GradientStep, adam
    from rltrain.kernels.acting import choose
    from rltrain.kernels.gradient_step import adam_step

    compile_backward()
    model, result = learn_and_act(Scalar(), TDLoss(gamma=1.0, double=True, n_step=1))
    optimizer = partial(adam, lr=1e-3, betas=(0.9, 0.999), eps=1e-8)
    adam_step(GradientStep(model, optimizer, max_grad_norm=None, lr_factors=None), result)
    exploration, q = FixedEpsilon(epsilon=0.0), np.zeros((1, 1, 2), np.float32)
    choose(exploration, q, np.ones((1, 1, 2), bool), Clock(), np.random.default_rng(0))


def compile_distributions() -> None:
    """The same with noise and each kind of distribution."""
    from rltrain.algo.loss.distributional import CategoricalLoss, QuantileLoss
    from rltrain.algo.network.distribution import Categorical, ImplicitQuantile

    returns = {"gamma": 1.0, "double": True, "n_step": 1}
    fixed = Categorical(atoms=2, v_min=0.0, v_max=1.0)
    learn_and_act(fixed, CategoricalLoss(distribution=fixed, **returns), noisy_sigma=1.0)
    drawn = ImplicitQuantile(online=1, target=1, acting=1, cosines=1)
    learn_and_act(drawn, QuantileLoss(kappa=1.0, distribution=drawn, **returns))


def learn_and_act(
    distribution: Any, loss: Any, noisy_sigma: float | None = None
) -> tuple[Model, LossResult]:
    """The smallest feed-forward agents, and the loss of a batch."""
    from rltrain.algo.mixer.sum import Independent
    from rltrain.algo.network.mlp import mlp_agents
    from rltrain.kernels.layers.td_step import CompiledTDLoss
    from rltrain.types import EnvSpec

    spec = EnvSpec(n_agents=1, n_actions=2, obs_shape=(2,))
    agents = mlp_agents(
        spec=spec,
        distribution=distribution,
        hidden_sizes=[1],
        head_sizes=[],
        dueling=False,
        noisy_sigma=noisy_sigma,
        layer_norm=False,
        last_action=False,
        agent_id=False,
    )
    model, batch = Model(agents, Independent(spec=spec)), smallest_batch()
    compile_agents(agents)
    result = CompiledTDLoss(loss)(model, model, batch, Clock())
    with torch.inference_mode():
        agents.step(batch.obs[0], batch.last_action[0], torch.zeros(1, 1, 0))
    return model, result


def compile_sequence_step() -> None:
    """Compile acting and the learning step of recurrent teams, or load them from the cache."""
    from rltrain.algo.loss.td import TDLoss
    from rltrain.algo.mixer.qmix import QMix
    from rltrain.algo.network.gru import GRUAgents
    from rltrain.kernels.recurrent.team_step import CompiledSequenceLoss
    from rltrain.types import EnvSpec

    spec = EnvSpec(n_agents=1, n_actions=2, obs_shape=(2,), state_dim=1)
    agents = GRUAgents(spec=spec, hidden_dim=1, last_action=True, agent_id=True)
    model = Model(
        agents,
        QMix(spec=spec, embed_dim=1, hypernet_layers=2, hypernet_dim=1),
    )
    loss, batch = CompiledSequenceLoss(TDLoss(gamma=1.0, double=True, n_step=1)), smallest_batch()
    loss(model, model, batch, Clock())
    compile_agents(agents)
    with torch.inference_mode():
        agents.step(batch.obs[0], batch.last_action[0], torch.zeros(1, 1, 1))


def compile_unit_attention() -> None:
    """Compile attention to units and values of attacks, or load them from the cache."""
    from rltrain.algo.network.units.entities import AttackValues
    from rltrain.kernels.recurrent.unit_attention_kernel import GROUP

    values = AttackValues({"start": 0, "count": 1, "size": 1}, 1, 1)
    compile_agents(values)
    for n_threads in (1, 2):
        torch.set_num_threads(n_threads)
        values(torch.zeros(2 * GROUP, 1), torch.ones(2 * GROUP, 1)).sum().backward()


def smallest_batch() -> Batch:
    """One transition of one agent."""
    some = torch.zeros(1, 1, 1, dtype=torch.int64)
    return Batch(
        obs=torch.zeros(2, 1, 1, 2),
        avail_actions=torch.ones(2, 1, 1, 2, dtype=torch.bool),
        state=torch.zeros(2, 1, 1),
        last_action=torch.zeros(2, 1, 1, dtype=torch.int64),
        last=torch.zeros(2, 1, dtype=torch.bool),
        action=some,
        reward=torch.zeros(1, 1, 1),
        terminated=torch.zeros(1, 1, dtype=torch.bool),
        mask=torch.ones(1, 1, dtype=torch.bool),
        weight=torch.ones(1),
        index=some[0, 0],
    )


PARTS = {
    "recurrence": compile_recurrence,
    "td_step": compile_td_step,
    "distributions": compile_distributions,
    "sequence_step": compile_sequence_step,
    "unit_attention": compile_unit_attention,
}


if __name__ == "__main__":
    for name in sys.argv[1:] or PARTS:
        PARTS[name]()
    print("the learner is compiled")
