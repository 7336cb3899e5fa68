"""Acting of recurrent agents, compiled."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rltrain.algo.kernels.recurrent.learning import plain_agents
from rltrain.algo.kernels.recurrent.weights import agent_weights
from rltrain.algo.kernels.replace import replace_method
from rltrain.algo.network.gru import GRUAgents


def compile_recurrent_step(agents: GRUAgents) -> None:
    """Let agents act in compiled code, if they are nothing but an input layer, a GRU cell and an
    output layer.
    """
    if plain_agents(agents):
        replace_method(agents, "step", recurrent_step)


def recurrent_step(
    agents: GRUAgents, obs: Tensor, last_action: Tensor, hidden: Tensor
) -> tuple[Tensor, Tensor]:
    """``GRUAgents.step`` without gradients.

    Raises:
        ValueError: sizes that do not fit.
        IndexError: a previous action out of range.
    """
    weights = agent_weights(agents)
    if torch.is_grad_enabled() or not (obs.is_cpu and weights[0].dtype == torch.float32):
        return GRUAgents.step(agents, obs, last_action, hidden)
    from rltrain.algo.kernels.recurrent import acting_kernel

    rest = agents.input.rest
    n_actions, shape = len(weights[-1]), hidden.shape[:2]
    n_last, n_ids = rest.last_action * n_actions, rest.agent_id * shape[1]
    rows = obs.flatten(2).numpy()
    if rows.shape[2] + n_last + n_ids != agents.input.dim or hidden.shape[2] != agents.hidden_dim:
        raise ValueError(
            f"expected {agents.input.dim - n_last - n_ids} inputs and {agents.hidden_dim} units, "
            f"got {rows.shape[2]} and {hidden.shape[2]}."
        )
    q, after = np.empty((*shape, n_actions), np.float32), np.empty(hidden.shape, np.float32)
    fits = acting_kernel.step(
        rows,
        last_action.numpy(),
        hidden.numpy(),
        tuple(weight.detach().numpy() for weight in weights),
        n_last,
        n_ids,
        np.float32(agents.input.scale),
        q,
        after,
    )
    if not fits:
        raise IndexError("a previous action is out of range")
    return torch.from_numpy(q), torch.from_numpy(after)
