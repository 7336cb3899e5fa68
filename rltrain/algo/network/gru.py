"""Recurrent agents with shared parameters."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rltrain.algo.network.agent_input import AgentInput
from rltrain.algo.network.distribution import Distribution, Scalar
from rltrain.algo.network.head import Head, initialize_orthogonally, values
from rltrain.algo.network.packing import PackedGRU, Packing, unroll_warmed_up, zero_outside
from rltrain.algo.normalization import RunningNorm
from rltrain.common.number_types import Count, Flag, Positive
from rltrain.interfaces import Agents
from rltrain.types import Batch, EnvSpec, Output, inside


# twin: kernels/acting.py, kernels/recurrent/team_step.py
class GRUAgents(Agents):
    """Linear, ReLU, GRU cell, Linear (DRQN; Hausknecht & Stone 2015, as in Rashid et al. 2018).

    On the CPU, only real steps are computed, as packed sequences; other devices run the whole
    window. ``q`` and ``hidden`` are zero after a window's end.

    The last layer outputs a value per action, or the outputs of a distribution. ``layer_norm``
    normalizes its input; ``orthogonal`` is the gain of its orthogonal initialization, with gain 1
    for the first layer (both as in PyMARL2).
    """

    cell: type[Any] = PackedGRU

    def __init__(
        self,
        *,
        spec: EnvSpec,
        hidden_dim: Count,
        last_action: Flag,
        agent_id: Flag,
        normalize_obs: Flag = False,
        layer_norm: Flag = False,
        orthogonal: Positive | None = None,
        distribution: Distribution | None = None,
    ) -> None:
        super().__init__()
        self.width, self.hidden_dim = hidden_dim, hidden_dim * self.cell.n_states
        self.input = AgentInput(
            spec=spec, last_action=last_action, agent_id=agent_id, normalize_obs=normalize_obs
        )
        self.fc1 = nn.Linear(self.input.dim, hidden_dim)
        self.rnn = self.cell(hidden_dim, hidden_dim)
        self.norm = nn.LayerNorm(hidden_dim) if layer_norm else None
        self.distribution = Scalar() if distribution is None else distribution
        self.head: Head | None = None
        if self.distribution.scalar:
            self.fc2 = nn.Linear(hidden_dim, spec.n_actions)
        else:
            self.head = Head(
                n_in=hidden_dim, n_actions=spec.n_actions, distribution=self.distribution
            )
        if orthogonal is not None:
            last = self.fc2 if self.head is None else self.head
            initialize_orthogonally(self.fc1, last, orthogonal)

    @property
    def obs_norm(self) -> RunningNorm | None:
        """The running observation statistics, if it normalizes."""
        return self.input.norm

    @property
    def draws_noise(self) -> bool:
        """Whether values of the same observation vary in training mode."""
        return self.distribution.implicit

    @property
    def uses_last_action(self) -> bool:
        """Whether the previous action is an input."""
        return self.input.last_action

    def unroll(self, batch: Batch, start: int = 0, stop: int | None = None) -> Output:
        """The values of whole windows, starting from ``batch.hidden`` or zeros; later steps need
        those before ``start``, so none is skipped.

        In training, steps that only warm up the recurrent state (R2D2; Kapturowski et al. 2019,
        section 3) are unrolled without gradients, and their values are zero.
        """
        first = batch.hidden
        if first is None:
            _, n_windows, n_agents = batch.last_action.shape
            first = self.fc1.weight.new_zeros(n_windows, n_agents, self.hidden_dim)
        real = inside(batch.last)  # [T+1, B]
        unroll = self._unroll_packed if real.is_cpu else self._unroll_padded
        warm_up = batch.warm_up if torch.is_grad_enabled() else None  # [B]
        if warm_up is None:
            return unroll(batch, real, first)
        return unroll_warmed_up(unroll, batch, real, first, warm_up)

    def _unroll_packed(self, batch: Batch, real: Tensor, first: Tensor) -> Output:
        order = real.sum(0).argsort(descending=True, stable=True)  # [B] longest first
        packing = Packing(real, order)
        obs = packing.pack(batch.obs)
        agent = batch.agent
        if agent is not None:
            agent = packing.pack(agent.expand_as(batch.last_action))
        x = self._embed(obs, packing.pack(batch.last_action), agent)
        n_agents = first.shape[1]
        n_rows = [n_agents * n for n in real.sum(1).tolist() if n]
        first = first.index_select(0, order).flatten(0, 1)  # [B·N, H]
        hidden = self.rnn.unroll(x.flatten(0, 1), first, n_rows)
        hidden = hidden.view(*x.shape[:-1], -1)  # [P, N, H]
        q, dist, tau = self._values(hidden, obs, learning=torch.is_grad_enabled())
        return Output(
            packing.unpack(q),
            packing.unpack(hidden),
            None if dist is None else packing.unpack(dist),
            None if tau is None else packing.unpack(tau),
        )

    def _unroll_padded(self, batch: Batch, real: Tensor, first: Tensor) -> Output:
        n_steps, n_windows, n_agents = batch.last_action.shape
        agent = batch.agent
        if agent is not None:
            agent = agent.expand_as(batch.last_action).flatten(0, 1)
        obs = zero_outside(batch.obs, real)
        x = self._embed(obs.flatten(0, 1), batch.last_action.flatten(0, 1), agent)
        x = x.view(n_steps, n_windows * n_agents, -1)
        hidden = self.rnn.unroll_padded(x, first.flatten(0, 1))
        hidden = hidden.view(n_steps, n_windows, n_agents, -1)
        q, dist, tau = self._values(hidden, obs, learning=torch.is_grad_enabled())
        return Output(zero_outside(q, real), zero_outside(hidden, real), dist, tau)

    def step(self, obs: Tensor, last_action: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Acting: obs [E, N, *O], last_action [E, N], hidden [E, N, H] to (q, next hidden)."""
        x = self._embed(obs, last_action, None)
        after = self.rnn(x.flatten(0, 1), hidden.flatten(0, 1)).view_as(hidden)
        return self._values(after, obs)[0], after

    def _values(
        self, hidden: Tensor, obs: Tensor, learning: bool | None = None
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Hidden states [..., H] to means [..., A], outputs [..., A, K] and levels [..., K].

        Args:
            obs: [..., *O], the observations of these steps; unused here.
            learning: for a window, whether this is the online network; None while acting.
        """
        hidden = hidden[..., : self.width]
        if self.norm is not None:
            hidden = self.norm(hidden)
        if self.head is None:
            return self.fc2(hidden), None, None
        uses = {None: ("acting",), True: ("online",), False: ("target", "acting")}[learning]
        outputs = values(self.head, self.distribution, hidden.flatten(0, -2), uses)
        q, dist, tau = (None if x is None else x.unflatten(0, hidden.shape[:-1]) for x in outputs)
        assert q is not None
        return q, dist, tau

    def _embed(self, obs: Tensor, last_action: Tensor, agent: Tensor | None) -> Tensor:
        """Input of the recurrent cell [X, N, H]."""
        return F.relu_(self.fc1(self.input(obs, last_action, agent)))
