"""The spaces of a team's agents as arrays of one size: smaller observations are padded with zeros,
missing actions are never available.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from rltrain.env.actions import Actions, as_mask, numbered
from rltrain.env.env_options import Channels
from rltrain.env.spaces import ObsView, require_numbers, viewed

MASK = "action_mask"
"""Where PettingZoo's environments say which actions are available: in an agent's Dict observation
or in its info."""


class Agent(NamedTuple):
    """One agent's observations and actions."""

    name: str
    view: ObsView
    convert: Callable[[Any], np.ndarray]  # from its observation to its row, without padding
    actions: Actions
    has_mask: bool  # its observations are a Dict with "action_mask"

    def own_mask(self, given: object) -> np.ndarray | None:
        """A mask of its actions as uint8; None for anything else."""
        return as_mask(given, self.actions)


class TeamSpaces(NamedTuple):
    """The agents and the arrays that hold them all."""

    agents: tuple[Agent, ...]
    obs_shape: tuple[int, ...]
    obs_dtype: str
    obs_scale: float
    n_actions: int

    @property
    def obs_sizes(self) -> tuple[int, ...] | None:
        """Each agent's own observation size where they differ."""
        return different([math.prod(agent.view.shape) for agent in self.agents])

    @property
    def action_sizes(self) -> tuple[int, ...] | None:
        """Each agent's own number of actions where they differ."""
        return different([agent.actions.n for agent in self.agents])

    @property
    def masks_actions(self) -> bool:
        """Whether observations have masks, or actions of the largest number are not all there."""
        return self.action_sizes is not None or any(agent.has_mask for agent in self.agents)


def different(sizes: list[int]) -> tuple[int, ...] | None:
    """The sizes, or None where all are the same."""
    return tuple(sizes) if len(set(sizes)) > 1 else None


def team_spaces(
    names: Sequence[Any],
    observation_space: Callable[[Any], object],
    action_space: Callable[[Any], object],
    env_name: str,
    channels: Channels = "auto",
) -> TeamSpaces:
    """The spaces of a team.

    Args:
        channels: of images.

    Raises:
        ValueError: actions that are not discrete, observations without a fixed shape or numbers,
            or images of different sizes.
    """
    agents = []
    for name in names:
        whose = f"{env_name}, agent {name},"
        space = space_of(name, observation_space, "observation_space", env_name)
        has_mask = isinstance(space, spaces.Dict) and MASK in space.spaces
        has_mask = has_mask and len(space.spaces) > 1  # beside something else
        view = (without_mask if has_mask else viewed)(space, whose, channels)
        actions = numbered(space_of(name, action_space, "action_space", env_name), whose)
        agents.append(Agent(name, view, view.convert, actions, has_mask))
    largest = max((agent.view.shape for agent in agents), key=math.prod)
    require_numbers(largest, env_name, observation_space(names[0]))
    n_actions = max(agent.actions.n for agent in agents)
    first = agents[0].view
    if all(agent.view[1:] == first[1:] for agent in agents):
        return TeamSpaces(tuple(agents), first.shape, first.dtype, first.scale, n_actions)
    shapes = {agent.name: agent.view.shape for agent in agents}
    if any(len(shape) > 1 for shape in shapes.values()):
        raise ValueError(
            f"{env_name} has agents with observations of the shapes {shapes}: expected images of "
            "one size, or flat numbers, which are padded to the longest. Resize or flatten them "
            "with a wrapper."
        )
    padded = tuple(agent._replace(convert=scaled(agent.view)) for agent in agents)
    size = max(shape[0] for shape in shapes.values())
    return TeamSpaces(padded, (size,), "float32", 1.0, n_actions)


def space_of(name: str, find: Callable[[str], object], method: str, env_name: str) -> Any:
    """An agent's space; ValueError if the environment does not define it."""
    try:
        return find(name)
    except Exception as error:
        raise ValueError(
            f"{env_name} has no {method}({name!r}) ({type(error).__name__}: {error}): expected an "
            "observation_space(agent) and an action_space(agent) of every agent in possible_agents."
        ) from error


def without_mask(space: spaces.Dict, whose: str, channels: Channels) -> ObsView:
    """The view of what stands next to the mask: one entry as it is, several as a Dict."""
    others = {name: part for name, part in space.spaces.items() if name != MASK}
    if len(others) > 1:
        return viewed(spaces.Dict(others), whose, channels)
    (name,) = others
    view = viewed(others[name], whose, channels)
    return view._replace(convert=lambda obs: view.convert(obs[name]))


def scaled(view: ObsView) -> Callable[[Any], np.ndarray]:
    """The conversion of a view, with its scale applied."""
    return lambda obs: np.asarray(view.convert(obs), np.float32) * np.float32(view.scale)
