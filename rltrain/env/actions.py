"""Discrete action spaces as actions numbered from 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from rltrain.common.spec_record import by_component, combined, zeros_and_ones

MOST = 1_000
"""Maximum number of combinations of a MultiDiscrete space used as actions."""
COMBINED = (
    ", one for each combination of the components (the last one changes fastest: "
    "np.outer(first, second).ravel() of two), or a tuple of one mask for each component"
)


class Actions(NamedTuple):
    """The actions of one agent."""

    n: int
    own: Callable[[int], Any]  # action number to the environment's action
    sizes: tuple[int, ...] | None = None  # of components, if actions are their combinations

    @property
    def mask_words(self) -> str:
        """Description of a valid mask, for messages."""
        combined = "" if self.sizes is None else COMBINED
        return f"{self.n} entries of 0 and 1{combined}, of which at least one is 1"


def numbered(space: Any, whose: str, instead: str = "") -> Actions:
    """The actions of a space: Discrete, or every combination of a MultiDiscrete or MultiBinary.

    Args:
        whose: the environment and its agent, for messages.
        instead: advice about too many combinations.

    Raises:
        ValueError: actions that are not discrete, none, or too many combinations.
    """
    if 0 in (getattr(space, "shape", None) or ()):
        raise ValueError(f"{whose} has actions {space}, of no component: expected at least one.")
    if isinstance(space, spaces.Discrete):
        start, kind = int(space.start), space.dtype.type
        return Actions(int(space.n), lambda action: kind(action + start))
    components = component_sizes(space)
    if components is None and isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
        raise ValueError(
            f"{whose} has actions {' '.join(str(space).split())} with {len(space.shape)} axes: "
            "expected one. Flatten it with a wrapper: "
            "gymnasium.wrappers.TransformAction(env, lambda action: "
            f"action.reshape({space.shape}), spaces.{flattened(space)})."
        )
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

    return Actions(count, own, components)


def flattened(space: spaces.MultiDiscrete | spaces.MultiBinary) -> str:
    """The same space with one axis, as Python code."""
    if isinstance(space, spaces.MultiBinary):
        return f"MultiBinary({int(np.prod(space.shape))})"
    start = f", start={space.start.ravel().tolist()}" if space.start.any() else ""
    return f"MultiDiscrete({space.nvec.ravel().tolist()}{start})"


def as_mask(given: Any, actions: Actions) -> np.ndarray | None:
    """A mask of available actions as uint8 [n]; None for anything but n zeros and ones. A tuple of
    one mask per component, as in Gymnasium's ``sample``, becomes a mask of combinations.
    """
    n, sizes = actions.n, actions.sizes
    if sizes is not None and by_component(given):
        return combined(given, sizes)
    mask = zeros_and_ones(given)
    if mask is None or mask.size != n:
        return None
    # a list of lists may be one mask per component
    flat = mask.ndim <= 1 or (isinstance(given, np.ndarray) and mask.shape == sizes)
    return mask.reshape(n) if sizes is None or flat else None


def component_sizes(space: object) -> tuple[int, ...] | None:
    """The number of values of each component of a MultiDiscrete or MultiBinary space."""
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
        return tuple(int(n) for n in space.nvec) or None
    if isinstance(space, spaces.MultiBinary) and len(space.shape) == 1:
        return (2,) * space.shape[0]
    return None
