"""``GroupedAgents``: agents that share parameters only within their group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor, nn

from rltrain.interfaces import Agents
from rltrain.types import Batch, EnvSpec, Output


class GroupedAgents(Agents):
    """One network per group of agents, evaluated for the agents of that group.

    If agents have observations and actions of different sizes, a network has the largest sizes of
    its group; actions that no agent of the group has get the value 0 and are never available.

    Args:
        spec: sizes of the whole team.
        groups: agent indices, each in exactly one group; ``[[0], [1], [2]]`` shares nothing.
        make: makes the network of a group from the group's sizes.

    Raises:
        ValueError: an agent is in no group or several, or the networks normalize observations.
    """

    def __init__(
        self,
        *,
        spec: EnvSpec,
        groups: Sequence[Sequence[int]],
        make: Callable[[EnvSpec], Agents],
    ) -> None:
        super().__init__()
        listed = sorted(agent for group in groups for agent in group)
        if listed != list(range(spec.n_agents)):
            everyone = "[" + ",".join(f"[{agent}]" for agent in range(spec.n_agents)) + "]"
            raise ValueError(
                f"algo.network.groups={[list(g) for g in groups]}: expected each of the agents "
                f"0 to {spec.n_agents - 1} in exactly one group. Type algo.network.groups=null to "
                f"share all parameters, or algo.network.groups={everyone} to share none."
            )
        self.n_actions, self.specs = spec.n_actions, [group_spec(spec, group) for group in groups]
        self.networks = nn.ModuleList(make(each) for each in self.specs)
        if any(network.obs_norm is not None for network in self._agents()):
            raise ValueError(
                "algo.network.normalize_obs=true keeps one set of statistics, and "
                "algo.network.groups has several networks. Type algo.network.normalize_obs=false."
            )
        order = [agent for group in groups for agent in group]
        for number, group in enumerate(groups):
            self.register_buffer(f"_members{number}", torch.tensor(group), persistent=False)
        self.register_buffer("_inverse", torch.tensor(order).argsort(), persistent=False)
        self.hidden_dim = self._agents()[0].hidden_dim

    @property
    def members(self) -> list[Tensor]:
        """The agent indices of each group, on the networks' device."""
        return [self.get_buffer(f"_members{number}") for number in range(len(self.specs))]

    def _agents(self) -> list[Agents]:
        return cast(list[Agents], list(self.networks))

    @property
    def uses_last_action(self) -> bool:
        """Whether the previous action is an input."""
        return any(network.uses_last_action for network in self._agents())

    @property
    def draws_noise(self) -> bool:
        """Whether values of the same observation vary in training mode."""
        return any(network.draws_noise for network in self._agents())

    def unroll(self, batch: Batch, start: int = 0, stop: int | None = None) -> Output:
        """The values of whole windows, group by group."""
        if batch.agent is not None:
            raise ValueError(
                "algo.network.groups needs windows of the whole team. Type buffer.agents=lockstep."
            )
        outputs = [
            network.unroll(part, start=start, stop=stop)
            for network, part in zip(self._agents(), self._parts(batch), strict=True)
        ]
        q, hidden, dist, tau = zip(*outputs, strict=True)
        return Output(
            self._joined([self._padded(x, 3) for x in q], 2),
            self._joined(hidden, 2),
            None if dist[0] is None else self._joined([self._padded(x, 3) for x in dist], 2),
            None if tau[0] is None else self._joined(tau, 2),
        )

    def step(self, obs: Tensor, last_action: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Acting: obs [E, N, *O], last_action [E, N], hidden [E, N, H] to (q, next hidden)."""
        outputs = []
        for network, own, spec in zip(self._agents(), self.members, self.specs, strict=True):
            seen = narrowed(obs.index_select(1, own), spec)
            actions, state = last_action.index_select(1, own), hidden.index_select(1, own)
            outputs.append(network.step(seen, actions, state))
        q = self._joined([self._padded(each[0], 2) for each in outputs], 1)
        return q, self._joined([each[1] for each in outputs], 1)

    def _parts(self, batch: Batch) -> list[Batch]:
        """The batch of each group."""
        parts = []
        for own, spec in zip(self.members, self.specs, strict=True):
            hidden = None if batch.hidden is None else batch.hidden.index_select(1, own)
            available = batch.avail_actions.index_select(2, own)
            parts.append(
                replace(
                    batch,
                    obs=narrowed(batch.obs.index_select(2, own), spec),
                    avail_actions=available[..., : spec.n_actions],
                    last_action=batch.last_action.index_select(2, own),
                    action=batch.action.index_select(2, own),
                    hidden=hidden,
                )
            )
        return parts

    def _padded(self, x: Tensor, axis: int) -> Tensor:
        """Pad with zeros for actions that a group does not have; ``axis`` is the action axis."""
        missing = self.n_actions - x.shape[axis]
        if missing == 0:
            return x
        shape = (*x.shape[:axis], missing, *x.shape[axis + 1 :])
        return torch.cat([x, x.new_zeros(shape)], axis)

    def _joined(self, parts: list[Tensor] | tuple[Tensor, ...], axis: int) -> Tensor:
        """Join the groups along ``axis``, in the order of the agents."""
        return torch.cat(parts, axis).index_select(axis, self.get_buffer("_inverse"))


def group_spec(spec: EnvSpec, group: Sequence[int]) -> EnvSpec:
    """The sizes of a group's network."""
    n_actions, obs_shape = spec.n_actions, spec.obs_shape
    if spec.action_sizes is not None:
        n_actions = max(spec.action_sizes[agent] for agent in group)
    if spec.obs_sizes is not None and spec.frame_stack == 1:
        obs_shape = (max(spec.obs_sizes[agent] for agent in group),)
    return replace(
        spec,
        n_agents=len(group),
        n_actions=n_actions,
        obs_shape=obs_shape,
        action_sizes=None,
        obs_sizes=None,
    )


def narrowed(obs: Tensor, spec: EnvSpec) -> Tensor:
    """Flat observations without padding that no agent of the group needs."""
    return (
        obs[..., : spec.obs_shape[0]] if len(spec.obs_shape) == 1 and spec.frame_stack == 1 else obs
    )
