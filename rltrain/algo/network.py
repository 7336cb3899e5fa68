"""Agents: per-agent action values with shared parameters.

A new one has ``hidden_dim``, ``unroll`` and ``step``.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rltrain.algo.recurrence import gru
from rltrain.algo.window import Packing, inside, zero_outside
from rltrain.types import Batch, Count, EnvSpec, Flag, Output


class AgentInput(nn.Module):
    """Joins ``[obs · obs_scale ; previous action one-hot ; agent id one-hot]``; no parameters."""

    action_rows: Tensor  # [1+A, A], row 0 stands for no action yet
    agent_rows: Tensor  # [N, N]

    def __init__(self, *, spec: EnvSpec, last_action: bool, agent_id: bool) -> None:
        super().__init__()
        self.scale, self.last_action, self.agent_id = spec.obs_scale, last_action, agent_id
        obs_dim = math.prod(spec.obs_shape) * spec.frame_stack
        self.dim = obs_dim + last_action * spec.n_actions + agent_id * spec.n_agents
        actions = torch.eye(spec.n_actions)
        action_rows = torch.cat([torch.zeros(1, spec.n_actions), actions])
        self.register_buffer("action_rows", action_rows, persistent=False)
        self.register_buffer("agent_rows", torch.eye(spec.n_agents), persistent=False)

    def forward(self, obs: Tensor, last_action: Tensor, agent: Tensor | None) -> Tensor:
        """To [X, N, dim].

        Args:
            obs: [X, N, *O].
            last_action: [X, N], -1 = none yet.
            agent: [X, N], None for 0 … N-1.
        """
        x = obs.flatten(2)
        if self.scale != 1:
            x = x * self.scale
        parts = [x]
        if self.last_action:
            parts.append(F.embedding(last_action + 1, self.action_rows))
        if self.agent_id:
            ids = self.agent_rows if agent is None else F.embedding(agent, self.agent_rows)
            parts.append(ids.expand(*last_action.shape, -1))
        return torch.cat(parts, -1) if len(parts) > 1 else x


class GRUAgents(nn.Module):
    """Linear, ReLU, GRU cell, Linear (DRQN; Hausknecht & Stone 2015, as in Rashid et al. 2018).

    On the CPU only the real slots are computed, as packed sequences; elsewhere the whole window is
    handed to the device's own recurrence. ``q`` and ``hidden`` are zero behind a window's end.
    """

    def __init__(
        self, *, spec: EnvSpec, hidden_dim: Count, last_action: Flag, agent_id: Flag
    ) -> None:
        super().__init__()
        self.hidden_dim = hidden_dim
        self.input = AgentInput(spec=spec, last_action=last_action, agent_id=agent_id)
        self.fc1 = nn.Linear(self.input.dim, hidden_dim)
        self.rnn = nn.GRUCell(hidden_dim, hidden_dim)
        self.fc2 = nn.Linear(hidden_dim, spec.n_actions)

    def unroll(self, batch: Batch) -> Output:
        """The values of whole windows, starting from ``batch.hidden`` or zeros."""
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


class MLPAgents(nn.Module):
    """Linear and ReLU layers of ``hidden_sizes`` and a linear head.

    Slot T, which nothing but a bootstrap reads, is evaluated without a gradient.
    """

    hidden_dim = 0

    def __init__(
        self, *, spec: EnvSpec, hidden_sizes: list[Count], last_action: Flag, agent_id: Flag
    ) -> None:
        super().__init__()
        self.input = AgentInput(spec=spec, last_action=last_action, agent_id=agent_id)
        sizes = [self.input.dim, *hidden_sizes]
        layers: list[nn.Module] = []
        for n_in, n_out in pairwise(sizes):
            layers += [nn.Linear(n_in, n_out), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(sizes[-1], spec.n_actions))

    def unroll(self, batch: Batch) -> Output:
        """The values of whole windows; every slot by itself."""
        n_slots, n_windows, n_agents = batch.last_action.shape
        agent = batch.agent
        if agent is not None:
            agent = agent.expand_as(batch.last_action).flatten(0, 1)
        obs = zero_outside(batch.obs, inside(batch.last))
        x = self.input(obs.flatten(0, 1), batch.last_action.flatten(0, 1), agent)
        if torch.is_grad_enabled():
            learned = self.layers(x[:-n_windows])
            with torch.no_grad():
                end = self.layers(x[-n_windows:])
            q = torch.cat([learned, end])
        else:
            q = self.layers(x)
        q = q.view(n_slots, n_windows, n_agents, -1)
        return Output(q, q.new_empty(n_slots, n_windows, n_agents, 0))

    def step(self, obs: Tensor, last_action: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Acting: obs [E, N, *O], last_action [E, N], hidden [E, N, 0] to (q [E, N, A], hidden)."""
        return self.layers(self.input(obs, last_action, None)), hidden
