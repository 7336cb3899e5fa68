"""Agents: per-agent action values with shared parameters. A new one has ``hidden_dim``, ``unroll`` and ``step``."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rltrain.algo.targets import inside
from rltrain.types import Batch, Count, EnvSpec, Flag, Output


class AgentInput(nn.Module):
    """Joins ``[obs · obs_scale, flattened ; previous action one-hot ; agent id one-hot]``; has no parameters."""

    def __init__(self, *, spec: EnvSpec, last_action: bool, agent_id: bool) -> None:
        super().__init__()
        self.scale = spec.obs_scale
        self.last_action, self.agent_id = last_action, agent_id
        self.dim = (
            math.prod(spec.obs_shape) * spec.frame_stack
            + last_action * spec.n_actions
            + agent_id * spec.n_agents
        )
        no_action = torch.zeros(1, spec.n_actions)
        action_rows = torch.cat([no_action, torch.eye(spec.n_actions)])  # [1+A, A], row 0 is -1
        self.register_buffer("action_rows", action_rows, persistent=False)
        self.register_buffer("agent_rows", torch.eye(spec.n_agents), persistent=False)

    action_rows: Tensor
    agent_rows: Tensor

    def forward(self, obs: Tensor, last_action: Tensor, agent: Tensor | None = None) -> Tensor:
        """obs [X, N, *O], last_action [X, N] (-1 = none), agent [X, N] or None (= 0 … N-1) to [X, N, dim]."""
        x = obs.flatten(2)
        if self.scale != 1:
            x = x * self.scale
        parts = [x]
        if self.last_action:
            parts.append(self.action_rows[last_action + 1])
        if self.agent_id:
            ids = self.agent_rows if agent is None else self.agent_rows[agent]
            parts.append(ids.expand(*x.shape[:2], -1))
        return torch.cat(parts, -1) if len(parts) > 1 else x


class GRUAgents(nn.Module):
    """Linear, ReLU, GRU cell, Linear (DRQN; Hausknecht & Stone 2015, as in Rashid et al. 2018, appendix C).

    A window is unrolled by one call of PyTorch's fused recurrence on the cell's own parameters. On the CPU padding is
    not computed: only the real slots are gathered and run as a packed sequence; ``q`` and ``hidden`` are zero elsewhere.
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
        """The values of a whole window, starting from ``batch.hidden`` or zeros."""
        real = inside(batch.last)  # [T+1, B]
        if batch.last.is_cpu and not bool(real.all()):
            return self._unroll_packed(batch, real)
        n_slots, n_windows, n_agents = batch.last_action.shape
        obs = batch.obs
        if not batch.last.is_cpu:
            obs = torch.where(real.view(*real.shape, *[1] * (obs.dim() - 2)), obs, 0)
        agent = batch.agent
        if agent is not None:
            agent = agent.expand(n_slots, -1, -1).flatten(0, 1)
        x = self.input(obs.flatten(0, 1), batch.last_action.flatten(0, 1), agent)
        x = F.relu(self.fc1(x)).view(n_slots, n_windows * n_agents, -1)  # [T+1, B·N, H]
        hidden = self._recur(x, self._first_hidden(batch), None)
        q = self.fc2(hidden)
        shape = (n_slots, n_windows, n_agents, -1)
        return Output(q.view(shape), hidden.view(shape))

    def _unroll_packed(self, batch: Batch, real: Tensor) -> Output:
        n_slots, n_windows, n_agents = batch.last_action.shape
        order = real.sum(0).argsort(descending=True, stable=True)  # [B] longest first
        slot, rank = real[:, order].nonzero(as_tuple=True)
        row = slot * n_windows + order[rank]  # [P] real slots, time first, longest first
        agent = None if batch.agent is None else batch.agent[order[rank]]
        x = self.input(
            batch.obs.flatten(0, 1).index_select(0, row),
            batch.last_action.flatten(0, 1).index_select(0, row),
            agent,
        )
        x = F.relu(self.fc1(x)).flatten(0, 1)  # [P·N, H]
        n_alive = real.sum(1) * n_agents  # [T+1] rows alive, falling
        first = self._first_hidden(batch).view(n_windows, n_agents, -1)[order]
        hidden = self._recur(x, first.view(n_windows * n_agents, -1), n_alive[n_alive > 0])
        q = self.fc2(hidden)

        def spread(packed: Tensor) -> Tensor:
            full = packed.new_zeros(n_slots * n_windows, n_agents * packed.shape[-1])
            full = full.index_copy(0, row, packed.view(len(row), -1))
            return full.view(n_slots, n_windows, n_agents, -1)

        return Output(spread(q), spread(hidden))

    def _first_hidden(self, batch: Batch) -> Tensor:
        """[B·N, H]"""
        if batch.hidden is not None:
            return batch.hidden.flatten(0, 1)
        _, n_windows, n_agents = batch.last_action.shape
        return self.fc2.weight.new_zeros(n_windows * n_agents, self.hidden_dim)

    def _recur(self, x: Tensor, first: Tensor, n_alive: Tensor | None) -> Tensor:
        """The recurrence over x [T+1, B·N, H], or packed [P·N, H] with ``n_alive`` rows at each slot."""
        rnn = self.rnn
        weights = [rnn.weight_ih, rnn.weight_hh, rnn.bias_ih, rnn.bias_hh]
        first = first.unsqueeze(0)
        train = torch.is_grad_enabled()
        if n_alive is None:
            return torch.gru(x, first, weights, True, 1, 0.0, train, False, False)[0]
        return torch.gru(x, n_alive, first, weights, True, 1, 0.0, train, False)[0]

    def step(self, obs: Tensor, last_action: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Acting: obs [E, N, *O], last_action [E, N], hidden [E, N, H] to (q [E, N, A], next hidden)."""
        x = F.relu(self.fc1(self.input(obs, last_action)))
        after = self.rnn(x.flatten(0, 1), hidden.flatten(0, 1)).view_as(hidden)
        return self.fc2(after), after


class MLPAgents(nn.Module):
    """Linear and ReLU layers of ``hidden_sizes`` and a linear head.

    Only slots 0 … T-1 carry a gradient; slot T, which nothing but a bootstrap reads, is evaluated without.
    """

    hidden_dim = 0

    def __init__(
        self, *, spec: EnvSpec, hidden_sizes: list[Count], last_action: Flag, agent_id: Flag
    ) -> None:
        super().__init__()
        self.input = AgentInput(spec=spec, last_action=last_action, agent_id=agent_id)
        sizes = [self.input.dim, *hidden_sizes]
        layers: list[nn.Module] = []
        for n_in, n_out in zip(sizes, sizes[1:], strict=False):
            layers += [nn.Linear(n_in, n_out), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(sizes[-1], spec.n_actions))

    def unroll(self, batch: Batch) -> Output:
        """The values of a whole window; every slot by itself."""
        real = inside(batch.last)  # [T+1, B]
        obs = torch.where(real.view(*real.shape, *[1] * (batch.obs.dim() - 2)), batch.obs, 0)
        n_slots, n_windows, n_agents = batch.last_action.shape
        agent = batch.agent
        if agent is not None:
            agent = agent.expand(n_slots, -1, -1).flatten(0, 1)
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
        return self.layers(self.input(obs, last_action)), hidden
