"""``python -m rltrain.algo.kernels`` compiles the learner's kernels before the first run."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from rltrain.types import Batch


def compile_recurrence() -> None:
    """Compile every kernel of the GRU, or load it from the cache."""
    from rltrain.algo.kernels.recurrent import gru, gru_kernel
    from rltrain.algo.network.packing import PackedGRU

    n_rows = 2 * gru_kernel.BLOCK
    first = torch.zeros(n_rows, 2)
    cell = PackedGRU(2, 2)
    for n_threads in (1, 2):
        torch.set_num_threads(n_threads)
        gru.gru(cell, first.clone(), first, [n_rows]).sum().backward()


def compile_td_step() -> None:
    """Compile the learning step of plain feed-forward agents, or load it from the cache."""
    from rltrain.algo.kernels.feed_forward import Stack
    from rltrain.algo.kernels.td_step import td_step

    stack, batch = Stack([], [nn.Linear(2, 2)], []), smallest_batch()
    stack.output(batch.obs[0, 0])
    td_step(stack, stack, batch, (np.float32(1), True, 1, np.float32(-1)))


def compile_sequence_step() -> None:
    """Compile acting and the learning step of recurrent teams, or load them from the cache."""
    from rltrain.algo.kernels.recurrent.acting import recurrent_step
    from rltrain.algo.kernels.recurrent.learning import CompiledSequenceLoss
    from rltrain.algo.loss.td import TDLoss
    from rltrain.algo.mixer.qmix import QMix
    from rltrain.algo.network.gru import GRUAgents
    from rltrain.types import Clock, EnvSpec, Model

    spec = EnvSpec(n_agents=1, n_actions=2, obs_shape=(2,), state_dim=1)
    agents = GRUAgents(spec=spec, hidden_dim=1, last_action=True, agent_id=True)
    model = Model(
        agents,
        QMix(spec=spec, embed_dim=1, hypernet_layers=2, hypernet_dim=1),
    )
    loss, batch = CompiledSequenceLoss(TDLoss(gamma=1.0, double=True, n_step=1)), smallest_batch()
    loss(model, model, batch, Clock())
    with torch.inference_mode():
        recurrent_step(agents, batch.obs[0], batch.last_action[0], torch.zeros(1, 1, 1))


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


if __name__ == "__main__":
    compile_recurrence()
    compile_td_step()
    compile_sequence_step()
    print("the learner is compiled")
