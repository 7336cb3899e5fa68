"""A team's observations, masks and actions by the names of its agents, without the environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from rltrain.env.env_options import Channels
from rltrain.env.spaces import from_record, to_record
from rltrain.env.team.agent_spaces import MASK, team_spaces
from rltrain.types import EnvSpec


class NamedAgents:
    """Converts what an environment of PettingZoo gives and takes, from the record of its spaces.

    Args:
        spec: with ``agents``, as ``agents_record`` makes them.
    """

    def __init__(self, spec: EnvSpec) -> None:
        assert spec.agents is not None
        self._spec = spec
        self._spaces = {name: (from_record(o), from_record(a)) for name, o, a in spec.agents}
        self.names = tuple(self._spaces)
        self._agents = team_spaces(
            self.names,
            lambda name: self._spaces[name][0],
            lambda name: self._spaces[name][1],
            "the environment",
            spec.channels,
        ).agents

    def seen(
        self, obs: Mapping[str, Any], masks: Mapping[str, Any] | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Observations [N, *O] and available actions [N, A]. Agents that are not in ``obs`` see
        zeros and can only choose action 0.

        Args:
            obs: by name, as the environment gives them.
            masks: by name, where they are not part of the observations; None: what the agents have
                is all available.

        Raises:
            ValueError: other names, or what is not of an agent's space.
        """
        spec, names = self._spec, self.names
        for given in (obs, masks or {}):
            if unknown := [name for name in given if name not in names]:
                raise ValueError(f"{unknown}: expected names among {list(names)}.")
        rows = np.zeros((len(names), *spec.obs_shape), spec.obs_dtype)
        available = np.zeros((len(names), spec.n_actions), np.bool_)
        for i, agent in enumerate(self._agents):
            if agent.name not in obs:
                available[i, 0] = True
                continue
            given = obs[agent.name]
            row = agent.convert(given)
            if spec.obs_sizes is None:
                rows[i] = row
            else:
                rows[i, : row.size] = row
            mask = given[MASK] if agent.has_mask else (masks or {}).get(agent.name)
            n = agent.actions.n
            if mask is not None and np.shape(mask) != (n,):
                raise ValueError(f"{agent.name}: expected {n} entries of its mask, got {mask}.")
            available[i, :n] = True if mask is None else np.asarray(mask) != 0
        return rows, available

    def actions(self, action: np.ndarray, names: Sequence[str]) -> dict[str, Any]:
        """The actions [N] of these agents, as the environment takes them."""
        own = zip(self.names, self._agents, action, strict=True)
        each = {name: agent.actions.own(int(a)) for name, agent, a in own if name in names}
        return {name: int(a) if np.ndim(a) == 0 else a for name, a in each.items()}


def agents_record(
    names: Sequence[Any],
    observation_space: Callable[[str], Any],
    action_space: Callable[[str], Any],
    channels: Channels,
) -> tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] | None:
    """Names and spaces of a team as plain data; None if agents are named by something else than
    text.
    """
    if not all(isinstance(name, str) for name in names):
        return None
    each: list[tuple[str, spaces.Space[Any], spaces.Space[Any]]]
    each = [(name, observation_space(name), action_space(name)) for name in names]
    return tuple((name, to_record(o, channels), to_record(a)) for name, o, a in each)
