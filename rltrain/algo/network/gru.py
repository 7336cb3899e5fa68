"""Recurrent agents with shared parameters."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rltrain.algo.kernels.gru import gru
from rltrain.algo.network.agent_input import AgentInput
from rltrain.algo.network.distribution import Scalar
from rltrain.algo.network.packing import Packing, zero_outside
from rltrain.common.number_types import Count, Flag
from rltrain.types import (
    Batch,
    EnvSpec,
    Output,
    inside,
)


class GRUAgents(nn.Module):
    """Linear, ReLU, GRU cell, Linear (DRQN; Hausknecht & Stone 2015, as in Rashid et al. 2018).

    On the CPU only the real slots are computed, as packed sequences; elsewhere the whole window is
    handed to the device's own recurrence. ``q`` and ``hidden`` are zero behind a window's end.

    Raises:
        ValueError: a distribution of returns is asked for.
    """

    def __init__(
        self,
        *,
        spec: EnvSpec,
        hidden_dim: Count,
        last_action: Flag,
        agent_id: Flag,
        normalize_obs: Flag = False,
        distribution: nn.Module | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(distribution, Scalar | None):
            raise ValueError(
                "the recurrent network says expected returns only, got "
                f"distribution {type(distribution).__name__.lower()}: set algo/distribution=scalar "
                "and a loss that learns it, or algo/network=mlp."
            )
        self.hidden_dim = hidden_dim
        self.input = AgentInput(
            spec=spec, last_action=last_action, agent_id=agent_id, normalize_obs=normalize_obs
        )
        self.fc1 = nn.Linear(self.input.dim, hidden_dim)
        self.rnn = nn.GRUCell(hidden_dim, hidden_dim)
        self.fc2 = nn.Linear(hidden_dim, spec.n_actions)

    def unroll(self, batch: Batch, start: int = 0, stop: int | None = None) -> Output:
        """The values of whole windows, starting from ``batch.hidden`` or zeros; what comes before
        ``start`` is needed for what follows, so nothing is left out.
        """
        first = batch.hidden
        if first is None:
            _, n_windows, n_agents = batch.last_action.shape
            first = self.fc2.weight.new_zeros(n_windows, n_agents, self.hidden_dim)
        real = inside(batch.last)  # [T+1, B]
        return (self._unroll_packed if real.is_cpu else self._unroll_padded)(batch, real, first)

    def _unroll_packed(self, batch: Batch, real: Tensor, first: Tensor) -> Output:
        order = real.sum(0).argsort(descending=True, stable=True)  # [B] longest first
        packing = Packing(real, order)
        x = self._embed(
            packing.pack(batch.obs),
            packing.pack(batch.last_action),
            None if batch.agent is None else packing.pack(batch.agent.expand_as(batch.last_action)),
        )
        n_agents = first.shape[1]
        n_rows = [n_agents * n for n in real.sum(1).tolist() if n]
        first = first.index_select(0, order).flatten(0, 1)  # [B·N, H]
        hidden = gru(x.flatten(0, 1), first, self.rnn, n_rows).view_as(x)  # [P, N, H]
        return Output(packing.unpack(self.fc2(hidden)), packing.unpack(hidden))

    def _unroll_padded(self, batch: Batch, real: Tensor, first: Tensor) -> Output:
        n_slots, n_windows, n_agents = batch.last_action.shape
        agent = batch.agent
        if agent is not None:
            agent = agent.expand_as(batch.last_action).flatten(0, 1)
        obs = zero_outside(batch.obs, real)
        x = self._embed(obs.flatten(0, 1), batch.last_action.flatten(0, 1), agent)
        x = x.view(n_slots, n_windows * n_agents, -1)
        weights = [self.rnn.weight_ih, self.rnn.weight_hh, self.rnn.bias_ih, self.rnn.bias_hh]
        first = first.flatten(0, 1).unsqueeze(0)  # [1, B·N, H]
        learning = torch.is_grad_enabled()
        hidden, _ = torch.gru(x, first, weights, True, 1, 0.0, learning, False, False)
        hidden = hidden.view(n_slots, n_windows, n_agents, -1)
        return Output(zero_outside(self.fc2(hidden), real), zero_outside(hidden, real))

    def step(self, obs: Tensor, last_action: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Acting: obs [E, N, *O], last_action [E, N], hidden [E, N, H] to (q, next hidden)."""
        x = self._embed(obs, last_action, None)
        after = self.rnn(x.flatten(0, 1), hidden.flatten(0, 1)).view_as(hidden)
        return self.fc2(after), after

    def _embed(self, obs: Tensor, last_action: Tensor, agent: Tensor | None) -> Tensor:
        """[X, N, H]"""
        return F.relu_(self.fc1(self.input(obs, last_action, agent)))
