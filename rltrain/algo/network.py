"""Agents: per-agent action values with shared parameters.

A new one has ``hidden_dim``, ``unroll`` and ``step``.
"""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rltrain.algo.dense import Layers
from rltrain.algo.distribution import Distribution, ImplicitQuantile, Scalar
from rltrain.algo.head import Head, perceptron
from rltrain.algo.normalization import RunningNorm
from rltrain.algo.recurrence import gru
from rltrain.algo.stack import Stack
from rltrain.algo.window import Packing, zero_outside
from rltrain.ranges import Count, Flag, Positive
from rltrain.types import Batch, EnvSpec, Output, inside


class AgentInput(nn.Module):
    """Joins ``[obs · obs_scale ; previous action one-hot ; agent id one-hot]``; no parameters.
    With ``normalize_obs`` observations are normalised instead of scaled.
    """

    action_rows: Tensor  # [1+A, A], row 0 stands for no action yet
    agent_rows: Tensor  # [N, N]

    def __init__(
        self, *, spec: EnvSpec, last_action: bool, agent_id: bool, normalize_obs: bool = False
    ) -> None:
        super().__init__()
        self.norm = RunningNorm(spec=spec) if normalize_obs else None
        self.scale = None if normalize_obs else spec.obs_scale  # None: normalised instead
        self.last_action = last_action
        agent_id = self.agent_id = agent_id and spec.n_agents > 1  # one alone needs no number
        obs_dim = math.prod(spec.obs_shape) * spec.frame_stack
        self.bare = self.scale == 1 and not (last_action or agent_id)  # observations as they are
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
        if self.norm is not None:
            x = self.norm(x)
        elif self.scale is not None and self.scale != 1:
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


class FeedForward(nn.Module):
    """Agents without memory: input, ``torso`` to features, ``head`` to values.

    A window's last slot, which nothing but a bootstrap reads, and slots that are not taught are
    evaluated without a gradient; slots that are not needed, not at all.
    """

    hidden_dim = 0

    def __init__(
        self,
        *,
        embed: AgentInput | PictureInput,
        torso: nn.Module,
        head: Head,
        distribution: nn.Module,
    ) -> None:
        super().__init__()
        self.input, self.torso, self.head = embed, torso, head
        self.distribution = distribution
        self.stack = self._stack()

    def _stack(self) -> Stack | None:
        """The whole network, if it is nothing but layers with ReLU between them."""
        torso, head = self.torso, self.head
        streams = [head.advantage] if head.value is None else [head.advantage, head.value]
        plain = self.input.bare and isinstance(self.distribution, Scalar)
        if not plain or not all(stream.plain for stream in streams):
            return None
        advantage = head.advantage.linear
        value = [] if head.value is None else head.value.linear
        if isinstance(torso, Layers) and torso.ends_in_relu:
            return Stack(torso.linear, advantage, value)
        if isinstance(torso, Convolutions) and torso.plain:
            return Stack(torso.convolutions, advantage, value, torso.sides)
        return None

    def unroll(self, batch: Batch, start: int = 0, stop: int | None = None) -> Output:
        """The values of the slots from ``start`` to ``stop``, every slot by itself."""
        n_slots, n_windows, n_agents = batch.last_action.shape
        stop = n_slots if stop is None else stop
        obs = zero_outside(batch.obs, batch.real)
        learning = torch.is_grad_enabled()
        learned = n_slots - 1 if batch.n_taught is None else batch.n_taught
        parts = ((0, learned), (learned, n_slots)) if learning else ((0, n_slots),)
        said = []
        n_levels = self._levels("online" if learning else "target")
        for number, (first, end) in enumerate(parts):
            first, end = max(start, first), min(stop, end)
            if first >= end:
                continue
            agent = batch.agent
            if agent is not None:
                agent = agent.expand(end - first, n_windows, n_agents).flatten(0, 1)
            rows = obs[first:end].flatten(0, 1), batch.last_action[first:end].flatten(0, 1)
            with torch.set_grad_enabled(learning and number == 0):
                said.append(self._evaluate(*rows, agent, n_levels))
        shape = (stop - start, n_windows, n_agents)
        full = (start, n_slots - stop)
        q, dist, tau = (_placed(x, shape, full) for x in zip(*said, strict=True))
        assert q is not None
        return Output(q, q.new_empty(n_slots, n_windows, n_agents, 0), dist, tau)

    def step(self, obs: Tensor, last_action: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Acting: obs [E, N, *O], last_action [E, N], hidden [E, N, 0] to (q [E, N, A], hidden)."""
        if self.stack is not None and self.stack.compiles and not torch.is_grad_enabled():
            q = self.stack.output(obs.flatten(0, 1))
        else:
            q, _, _ = self._evaluate(obs, last_action, None, self._levels("acting"))
        return q.view(*last_action.shape, -1), hidden

    def _levels(self, use: str) -> int:
        """Quantile levels to draw, 0 where none are."""
        implicit = isinstance(self.distribution, ImplicitQuantile)
        return int(getattr(self.distribution, use)) if implicit else 0

    def _draw(self, n_rows: int, n_levels: int, device: torch.device) -> Tensor:
        """Levels [n_rows, K]; in evaluation midpoints, so that tests leave the stream alone."""
        if self.training:
            return torch.rand(n_rows, n_levels, device=device)
        return ((torch.arange(n_levels, device=device) + 0.5) / n_levels).expand(n_rows, -1)

    def _evaluate(
        self, obs: Tensor, last_action: Tensor, agent: Tensor | None, n_levels: int
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """[X, N, …] to means [X·N, A], outputs [X·N, A, K] and levels [X·N, K]."""
        features = self.torso(self.input(obs, last_action, agent)).flatten(0, -2)
        tau = self._draw(len(features), n_levels, features.device) if n_levels else None
        dist = self.head(features, tau)
        q = cast(Distribution, self.distribution).mean(dist)
        return (q, None, None) if isinstance(self.distribution, Scalar) else (q, dist, tau)


def _placed(
    parts: tuple[Tensor | None, ...], shape: tuple[int, ...], around: tuple[int, int]
) -> Tensor | None:
    """Parts one after the other as [T+1, B, N, …]; zeros for the slots left out around them."""
    if parts[0] is None:
        return None
    whole = [p for p in parts if p is not None]
    x = whole[0] if len(whole) == 1 else torch.cat(whole)
    x = x.view(*shape, *x.shape[1:])
    if not any(around):
        return x
    before, after = (x.new_zeros(n, *x.shape[1:]) for n in around)
    return torch.cat([before, x, after])


def mlp(
    *,
    spec: EnvSpec,
    distribution: nn.Module,
    hidden_sizes: list[Count],
    head_sizes: list[Count],
    dueling: Flag,
    noisy_sigma: Positive | None,
    layer_norm: Flag,
    last_action: Flag,
    agent_id: Flag,
    normalize_obs: Flag = False,
) -> FeedForward:
    """Linear and ReLU layers of ``hidden_sizes``, then a head with layers of ``head_sizes``.

    ``noisy_sigma`` makes the head's layers noisy; ``layer_norm`` normalises every hidden layer,
    ``normalize_obs`` the observations.
    """
    embed = AgentInput(
        spec=spec, last_action=last_action, agent_id=agent_id, normalize_obs=normalize_obs
    )
    sizes = [embed.dim, *hidden_sizes]
    head = Head(
        n_in=sizes[-1],
        n_actions=spec.n_actions,
        distribution=cast(Distribution, distribution),
        hidden_sizes=head_sizes,
        dueling=dueling,
        sigma=noisy_sigma,
        layer_norm=layer_norm,
    )
    torso = perceptron(sizes, None, layer_norm)
    return FeedForward(embed=embed, torso=torso, head=head, distribution=distribution)


class PictureInput(nn.Module):
    """Images [X, N, C, H, W] scaled by ``obs_scale``."""

    def __init__(self, *, spec: EnvSpec) -> None:
        super().__init__()
        if len(spec.obs_shape) != 3:
            raise ValueError(
                f"a convolutional network needs images [channels, height, width], got observations "
                f"of shape {list(spec.obs_shape)}: set algo/network=mlp."
            )
        self.scale = spec.obs_scale
        self.bare = self.scale == 1  # observations as they are

    def forward(self, obs: Tensor, last_action: Tensor, agent: Tensor | None) -> Tensor:
        """Unchanged but for the scale; previous actions and agents are not shown to images."""
        return obs * self.scale if self.scale != 1 else obs


class Convolutions(nn.Module):
    """Layers of [channels, kernel, stride] with ReLU, flattened: [X, N, C, H, W] to [X, N, F].

    Raises:
        ValueError: a filter is no triple, or a kernel is larger than what is left of the image.
    """

    def __init__(self, *, in_shape: tuple[int, ...], filters: list[list[int]], norm: bool) -> None:
        super().__init__()
        channels, height, width = in_shape
        if any(len(layer) != 3 for layer in filters):
            raise ValueError(
                f"algo.network.filters: expected [channels, kernel, stride] for each layer, got "
                f"{filters}. Type for example algo.network.filters='[[32,8,4],[64,4,2]]'."
            )
        layers: list[nn.Module] = []
        for n_out, kernel, stride in filters:
            layers.append(nn.Conv2d(channels, n_out, kernel, stride))
            height, width = ((side - kernel) // stride + 1 for side in (height, width))
            if height < 1 or width < 1:
                raise ValueError(
                    f"algo.network.filters={filters} leave nothing of a {in_shape[1]} x "
                    f"{in_shape[2]} image: use smaller kernels or strides."
                )
            if norm:
                layers.append(nn.LayerNorm([n_out, height, width]))
            layers.append(nn.ReLU())
            channels = n_out
        self.layers = nn.Sequential(*layers)
        self.convolutions = [layer for layer in layers if isinstance(layer, nn.Conv2d)]
        self.plain = not norm
        self.sides = in_shape[1], in_shape[2]
        self.n_features = channels * height * width

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x.flatten(0, 1)).flatten(1).view(*x.shape[:2], -1)


def conv(
    *,
    spec: EnvSpec,
    distribution: nn.Module,
    filters: list[list[Count]],
    hidden_sizes: list[Count],
    dueling: Flag,
    noisy_sigma: Positive | None,
    layer_norm: Flag,
) -> FeedForward:
    """Convolutions of [channels, kernel, stride] each, then a head with layers of ``hidden_sizes``
    (Mnih et al. 2015, Methods).
    """
    embed = PictureInput(spec=spec)
    channels, height, width = spec.obs_shape
    shape = (channels * spec.frame_stack, height, width)
    torso = Convolutions(in_shape=shape, filters=filters, norm=layer_norm)
    head = Head(
        n_in=torso.n_features,
        n_actions=spec.n_actions,
        distribution=cast(Distribution, distribution),
        hidden_sizes=hidden_sizes,
        dueling=dueling,
        sigma=noisy_sigma,
        layer_norm=layer_norm,
    )
    return FeedForward(embed=embed, torso=torso, head=head, distribution=distribution)
