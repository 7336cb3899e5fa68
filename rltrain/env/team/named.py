"""A team's observations, masks and actions by the names of its agents, without the environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rltrain.env.actions import as_mask
from rltrain.env.env_options import Channels
from rltrain.env.spaces import from_record, to_record
from rltrain.env.team.agent_spaces import MASK, team_spaces
from rltrain.errors import reason
from rltrain.types import EnvSpec, SpecRecord

Name = str | int
"""Name of an agent."""


class NamedAgents:
    """Converts what an environment of several agents gives and takes, from the record of its
    spaces.

    Args:
        spec: with ``agents``, as ``agents_record`` makes them.
    """

    def __init__(self, spec: EnvSpec) -> None:
        assert spec.agents is not None
        self._spec = spec
        spaces = {name: (from_record(o), from_record(a)) for name, o, a in spec.agents}
        self.names = tuple(spaces)
        self._agents, _ = team_spaces(spaces, "the environment", spec.channels)

    def __reduce__(self) -> tuple[object, ...]:
        return NamedAgents, (self._spec,)

    def whole(self, obs: Any, masks: Any) -> tuple[Mapping[Name, Any], Any] | None:
        """An observation of a Gymnasium environment whose parts are the agents, and its mask, by
        their names; None: ``obs`` is something else.

        Args:
            obs: a tuple of an observation for each agent, or one that all of them see.
            masks: one for each agent in their order, or [N, A]; by name; or None.

        Raises:
            ValueError: another number of masks.
        """
        names, joint = self.names, self._spec.joint
        by_name = isinstance(obs, Mapping) and set(obs) <= set(names)
        if joint is None or by_name or (joint == "tuple" and not isinstance(obs, tuple)):
            return None
        parts = obs if joint == "tuple" else (obs,) * len(names)
        if len(parts) != len(names):
            raise ValueError(
                f"observations: expected a tuple of {len(names)}, one for each of {list(names)}, "
                f"got {len(parts)}."
            )
        if masks is not None and not isinstance(masks, Mapping):
            if np.isscalar(masks) or len(masks) != len(names):
                raise ValueError(
                    f"avail_actions: expected {len(names)} masks, one for each of {list(names)}, "
                    f"got {masks}."
                )
            if isinstance(masks, np.ndarray):  # a row is as long as the largest number of actions
                own = zip(self._agents, masks, strict=True)
                masks = [mask[: agent.actions.n] for agent, mask in own]
            masks = dict(zip(names, masks, strict=True))
        return dict(zip(names, parts, strict=True)), masks

    def joined(self, actions: Mapping[Name, object]) -> tuple[object, ...] | np.ndarray:
        """Actions by name as the Gymnasium environment takes them."""
        each, spec = [actions[name] for name in self.names], self._spec
        return tuple(each) if spec.joint == "tuple" else np.array(each, spec.action_dtype)

    def seen(
        self, obs: Mapping[Name, Any], masks: Mapping[Name, object] | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Observations [N, *O] and available actions [N, A]. Agents that are not in ``obs`` see
        zeros and can only choose action 0.

        Args:
            obs: by name, as the environment returns them.
            masks: by name, where they are not part of the observations; None where the environment
                has none.

        Raises:
            ValueError: other names, what is not of an agent's space, or a mask that is missing.
        """
        spec, names = self._spec, self.names
        masks = {} if masks is None else masks
        if not isinstance(masks, Mapping):
            raise ValueError(
                "avail_actions: expected masks by name, as the observations are, got "
                f"{type(masks).__name__}."
            )
        for given in (obs, masks):
            if unknown := [name for name in given if name not in names]:
                raise ValueError(f"{unknown}: expected names among {list(names)}.")
        rows = np.zeros((len(names), *spec.obs_shape), spec.obs_dtype)
        available = np.zeros((len(names), spec.n_actions), np.bool_)
        for i, agent in enumerate(self._agents):
            if agent.name not in obs:
                available[i, 0] = True
                continue
            given = obs[agent.name]
            try:
                row = agent.convert(given)
            except (ValueError, TypeError, KeyError, IndexError) as error:
                raise ValueError(
                    f"observations: that of the agent {agent.name} is not in its space "
                    f"({reason(error)})."
                ) from error
            rows[i, : len(row)] = row
            mask = given[MASK] if agent.has_mask else masks.get(agent.name)
            n = agent.actions.n
            if mask is None and spec.masks_in_info and not agent.has_mask:
                raise ValueError(
                    f"avail_actions: expected {n} entries for the agent {agent.name}, got none, "
                    "but not all actions of this environment are available at all times."
                )
            own = np.ones(n, np.uint8) if mask is None else as_mask(mask, agent.actions)
            if own is None:
                raise ValueError(
                    f"avail_actions: of the agent {agent.name} expected "
                    f"{agent.actions.mask_words}, got {mask}."
                )
            available[i, :n] = own
        return rows, available

    def actions(self, action: np.ndarray, names: Sequence[Name]) -> dict[Name, object]:
        """The actions [N] of these agents, as the environment takes them."""
        own = zip(self.names, self._agents, action, strict=True)
        each = {name: agent.actions.own(int(a)) for name, agent, a in own if name in names}
        return {name: int(a) if np.ndim(a) == 0 else a for name, a in each.items()}


def agents_record(
    own: Mapping[Any, tuple[Any, Any]], channels: Channels
) -> tuple[tuple[Name, SpecRecord, SpecRecord], ...] | None:
    """Names and spaces of a team as plain data; None if agents are named by something other than
    text or whole numbers.
    """
    plain = all(isinstance(name, str | int | np.integer) for name in own)
    if not plain or len({str(name) for name in own}) < len(own):
        return None
    return tuple(
        (name if isinstance(name, str) else int(name), to_record(seen, channels), to_record(acts))
        for name, (seen, acts) in own.items()
    )
