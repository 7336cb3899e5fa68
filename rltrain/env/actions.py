"""Discrete action spaces as actions that are numbered from 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

MOST = 1_000
"""Combinations of a MultiDiscrete space that are still learned as one action each."""


class Actions(NamedTuple):
    """The actions of one agent."""

    n: int
    own: Callable[[int], Any]  # from a number to the action as the environment takes it


def numbered(space: Any, whose: str, instead: str = "") -> Actions:
    """The actions of a space: Discrete, or every combination of a MultiDiscrete or MultiBinary.

    Args:
        whose: the environment and its agent, for messages.
        instead: what to do about too many combinations.

    Raises:
        ValueError: actions that are not discrete, or too many combinations.
    """
    if isinstance(space, spaces.Discrete):
        start, kind = int(space.start), space.dtype.type
        return Actions(int(space.n), lambda action: kind(action + start))
    components = component_sizes(space)
    if components is None:
        raise ValueError(
            f"{whose} has actions {space}, but rltrain learns values of discrete actions: choose "
            "an environment with a Discrete action space, or discretize it with a wrapper."
        )
    count = int(np.prod(components, dtype=object))
    if count > MOST:
        raise ValueError(
            f"{whose} has actions {space}: {count:,} combinations, and at most {MOST:,} are "
            f"learned as actions of their own. {instead or 'Merge some of them with a wrapper.'}"
        )
    starts, dtype = np.asarray(getattr(space, "start", 0)), space.dtype

    def own(action: int) -> np.ndarray:
        return (np.array(np.unravel_index(action, components)) + starts).astype(dtype)

    return Actions(count, own)


def components(space: object) -> tuple[tuple[int, int], ...]:
    """The number of values and the first value of each component."""
    sizes = component_sizes(space) or ()
    starts = np.broadcast_to(getattr(space, "start", 0), len(sizes)).tolist()
    return tuple(zip(sizes, starts, strict=True))


def component_sizes(space: object) -> tuple[int, ...] | None:
    """The number of values of each component of a MultiDiscrete or MultiBinary space."""
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
        return tuple(int(n) for n in space.nvec)
    if isinstance(space, spaces.MultiBinary) and len(space.shape) == 1:
        return (2,) * space.shape[0]
    return None
