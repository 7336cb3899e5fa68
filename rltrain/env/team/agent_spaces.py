"""The spaces of a team's agents as arrays of one size: smaller observations are padded with zeros,
missing actions are never available. ``NamedAgents`` converts by the names of the agents, without
the environment.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from rltrain.env.actions import Actions, as_mask, numbered
from rltrain.env.env_options import Channels
from rltrain.env.spaces import ObsView, from_record, require_numbers, to_record, viewed
from rltrain.errors import reason
from rltrain.types import EnvSpec, SpecRecord

MASK = "action_mask"
"""Where PettingZoo's environments say which actions are available: in an agent's Dict observation
or in its info."""
Name = str | int
"""Name of an agent."""


class Agent(NamedTuple):
    """One agent's observations and actions."""

    name: str
    view: ObsView  # of its own observation, without padding
    actions: Actions
    has_mask: bool  # its observations are a Dict with "action_mask"


def team_spaces(
    own: Mapping[Any, tuple[Any, Any]], env_name: str, channels: Channels
) -> tuple[tuple[Agent, ...], dict[str, Any]]:
    """The agents of a team, and the fields of its ``EnvSpec`` that follow from their spaces: the
    sizes of the arrays that hold them all, and of each agent's own where they differ.

    Args:
        own: observation and action space by agent.
        channels: of images.

    Raises:
        ValueError: actions that are not discrete, observations without a fixed shape or numbers,
            or images of different sizes.
    """
    agents = []
    for name, (space, action_space) in own.items():
        whose = f"{env_name}, agent {name},"
        has_mask = isinstance(space, spaces.Dict) and MASK in space.spaces
        has_mask = has_mask and len(space.spaces) > 1  # beside something else
        view = (without_mask if has_mask else viewed)(space, whose, channels)
        agents.append(Agent(name, view, numbered(action_space, whose), has_mask))
    largest = max((agent.view.shape for agent in agents), key=math.prod)
    require_numbers(largest, env_name, next(iter(own.values()))[0])
    views, numbers = [agent.view for agent in agents], [agent.actions.n for agent in agents]
    sizes, first = [math.prod(view.shape) for view in views], views[0]
    fields: dict[str, Any] = {
        "n_actions": max(numbers),
        "obs_shape": first.shape,
        "obs_dtype": first.dtype,
        "obs_scale": first.scale,
        "obs_sizes": tuple(sizes) if len(set(sizes)) > 1 else None,
        "action_sizes": tuple(numbers) if len(set(numbers)) > 1 else None,
        "masks_actions": len(set(numbers)) > 1 or any(agent.has_mask for agent in agents),
    }
    if all(view[1:] == first[1:] for view in views):
        return tuple(agents), fields
    if any(len(view.shape) > 1 for view in views):
        kind = next(k for k in ObsView._fields[1:] if len({getattr(v, k) for v in views}) > 1)
        each = {agent.name: getattr(agent.view, kind) for agent in agents}
        raise ValueError(
            f"{env_name} has agents with observations that differ in their {kind} ({each}): "
            "expected images of one shape, dtype and scale (of bytes, 1/high of their Box), or "
            "flat numbers, which are padded to the longest. Convert them with a wrapper."
        )
    padded = tuple(agent._replace(view=scaled(agent.view)) for agent in agents)
    return padded, {**fields, "obs_shape": (max(sizes),), "obs_dtype": "float32", "obs_scale": 1.0}


def find_spaces(env: Any, names: Sequence[Any], env_name: str) -> dict[Any, tuple[Any, Any]]:
    """Observation and action space by agent; ValueError if the environment does not define one."""
    found = {}
    for name in names:
        method = "observation_space"
        try:
            seen = env.observation_space(name)
            method = "action_space"
            found[name] = seen, env.action_space(name)
        except Exception as error:
            raise ValueError(
                f"{env_name} has no {method}({name!r}) ({type(error).__name__}: {error}): expected "
                "an observation_space(agent) and an action_space(agent) of every agent in "
                "possible_agents."
            ) from error
    return found


def without_mask(space: spaces.Dict, whose: str, channels: Channels) -> ObsView:
    """The view of what stands next to the mask: one entry as it is, several as a Dict."""
    others = {name: part for name, part in space.spaces.items() if name != MASK}
    if len(others) > 1:
        return viewed(spaces.Dict(others), whose, channels)
    (name,) = others
    view = viewed(others[name], whose, channels)
    return view._replace(convert=lambda obs: view.convert(obs[name]))


def scaled(view: ObsView) -> ObsView:
    """A view as real numbers, with its scale applied."""

    def convert(obs: object) -> np.ndarray:
        return np.asarray(view.convert(obs), np.float32) * np.float32(view.scale)

    return view._replace(convert=convert, dtype="float32", scale=1.0)


class NamedAgents:
    """Converts what an environment of several agents gives and takes, from the record of its
    spaces.

    Args:
        spec: with ``agents``, as ``agents_record`` makes them.
    """

    def __init__(self, spec: EnvSpec) -> None:
        assert spec.agents is not None
        self._spec = spec
        own = {name: (from_record(o), from_record(a)) for name, o, a in spec.agents}
        self.names = tuple(own)
        self._agents, _ = team_spaces(own, "the environment", spec.channels)

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
                row = agent.view.convert(given)
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
