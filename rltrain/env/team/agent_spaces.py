"""The spaces of a team's agents as arrays of one size: smaller observations are padded with zeros,
missing actions are never available.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from rltrain.env.actions import Actions, numbered
from rltrain.env.env_options import Channels
from rltrain.env.spaces import ObsView, require_numbers, viewed

MASK = "action_mask"
"""Where PettingZoo's environments say which actions are available: in an agent's Dict observation
or in its info."""


class Agent(NamedTuple):
    """One agent's observations and actions."""

    name: str
    view: ObsView
    convert: Callable[[object], np.ndarray]  # from its observation to its row, without padding
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
        agents.append(Agent(name, view, view.convert, numbered(action_space, whose), has_mask))
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
    padded = tuple(agent._replace(convert=scaled(agent.view)) for agent in agents)
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


def scaled(view: ObsView) -> Callable[[object], np.ndarray]:
    """The conversion of a view, with its scale applied."""
    return lambda obs: np.asarray(view.convert(obs), np.float32) * np.float32(view.scale)
