"""``python -m rltrain.kernels`` compiles the learner's kernels before the first run, or some of
them: ``python -m rltrain.kernels sequence_step``.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from rltrain.algo.exploration.epsilon import FixedEpsilon
from rltrain.algo.loss.distributional import CategoricalLoss, QuantileLoss
from rltrain.algo.loss.td import TDLoss
from rltrain.algo.mixer.qmix import QMix
from rltrain.algo.mixer.sum import Independent
from rltrain.algo.network.distribution import Categorical, Distribution, ImplicitQuantile, Scalar
from rltrain.algo.network.feed_forward import mlp_agents
from rltrain.algo.network.gru import GRUAgents
from rltrain.algo.network.packing import PackedGRU
from rltrain.algo.network.unit_agents import AttackValues
from rltrain.algo.optimizer import GradientStep, adam
from rltrain.algo.own_checks import zero_batch
from rltrain.interfaces import Agents, Mixer, Model
from rltrain.kernels import compile_agents
from rltrain.kernels.acting import choose
from rltrain.kernels.gradient_step import adam_step
from rltrain.kernels.layers.td_step import CompiledLoss, CompiledTDLoss
from rltrain.kernels.recurrent.packed_gru import gru
from rltrain.kernels.recurrent.team_step import CompiledSequenceLoss
from rltrain.types import Clock, EnvSpec, LossResult

SPEC = EnvSpec(n_agents=1, n_actions=2, obs_shape=(2,), state_dim=1)


def compile_recurrence() -> None:
    """Compile every kernel of the GRU, or load it from the cache."""
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
    compile_backward()
    loss = CompiledTDLoss(TDLoss(gamma=1.0, double=True, n_step=1))
    model, result = learn_and_act(layers(Scalar()), Independent(spec=SPEC), loss)
    optimizer = partial(adam, lr=1e-3, betas=(0.9, 0.999), eps=1e-8)
    adam_step(GradientStep(model, optimizer, max_grad_norm=None, lr_factors=None), result)
    exploration, q = FixedEpsilon(epsilon=0.0), np.zeros((1, 1, 2), np.float32)
    choose(exploration, q, np.ones((1, 1, 2), bool), Clock(), np.random.default_rng(0))


def compile_distributions() -> None:
    """The same with noise and each kind of distribution."""
    returns = {"gamma": 1.0, "double": True, "n_step": 1}
    fixed = Categorical(atoms=2, v_min=0.0, v_max=1.0)
    drawn = ImplicitQuantile(online=1, target=1, acting=1, cosines=1)
    mixer = Independent(spec=SPEC)
    loss = CompiledTDLoss(CategoricalLoss(distribution=fixed, **returns))
    learn_and_act(layers(fixed, noisy_sigma=1.0), mixer, loss)
    loss = CompiledTDLoss(QuantileLoss(kappa=1.0, distribution=drawn, **returns))
    learn_and_act(layers(drawn), mixer, loss)


def layers(distribution: Distribution, noisy_sigma: float | None = None) -> Agents:
    """The smallest feed-forward agents."""
    return mlp_agents(
        spec=SPEC,
        distribution=distribution,
        hidden_sizes=[1],
        head_sizes=[],
        dueling=False,
        noisy_sigma=noisy_sigma,
        layer_norm=False,
        last_action=False,
        agent_id=False,
    )


def compile_sequence_step() -> None:
    """Compile acting and the learning step of recurrent teams, or load them from the cache."""
    agents = GRUAgents(spec=SPEC, hidden_dim=1, last_action=True, agent_id=True)
    mixer = QMix(spec=SPEC, embed_dim=1, hypernet_layers=2, hypernet_dim=1)
    loss = CompiledSequenceLoss(TDLoss(gamma=1.0, double=True, n_step=1))
    learn_and_act(agents, mixer, loss)


def learn_and_act(agents: Agents, mixer: Mixer, loss: CompiledLoss) -> tuple[Model, LossResult]:
    """A model, and the loss of a small batch."""
    model = Model(agents, mixer)
    batch = replace(zero_batch(SPEC, torch.device("cpu")), mask_end=1)  # one noise
    compile_agents(agents)
    result = loss(model, model, batch, Clock())
    hidden = torch.zeros(*batch.last_action.shape[1:], agents.hidden_dim)
    with torch.inference_mode():
        agents.step(batch.obs[0], batch.last_action[0], hidden)
    return model, result


def compile_unit_attention() -> None:
    """Compile attention to units and values of attacks, or load them from the cache."""
    from rltrain.kernels.recurrent.unit_attention_kernel import GROUP

    values = AttackValues({"start": 0, "count": 1, "size": 1}, 1, 1)
    compile_agents(values)
    for n_threads in (1, 2):
        torch.set_num_threads(n_threads)
        values(torch.zeros(2 * GROUP, 1), torch.ones(2 * GROUP, 1)).sum().backward()


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
