"""The first episode of a parallel environment, played before anything is trained on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rltrain.common.checkpoint.storage import split
from rltrain.env.team.agent_spaces import MASK
from rltrain.env.third_party import reset_reason
from rltrain.errors import reason


def first_episode(env: Any, name: str) -> tuple[list[Any], bool, int | None]:
    """Begin an episode of a parallel environment: its possible agents, whether an agent's info has
    a mask, and the size of the environment's own state; None: it has none.

    Raises:
        ValueError: it fails, or returns something other than PettingZoo's environments do.
    """
    try:
        returned = env.reset(seed=0)
    except Exception as error:
        raise ValueError(f"{name} cannot begin an episode: {reset_reason(error)}") from error
    parts = returned if isinstance(returned, tuple) else ()
    if len(parts) != 2 or not all(isinstance(each, Mapping) for each in parts):
        types = ", ".join(type(each).__name__ for each in parts)
        got = f"({types})" if isinstance(returned, tuple) else type(returned).__name__
        raise ValueError(
            f"reset() of {name} returned {got}: expected (observations, infos), two dictionaries "
            "by agent."
        )
    if not hasattr(env, "agents"):
        raise ValueError(
            f"{name} has no agents after reset(): expected the names of those that take part. Set "
            "self.agents = self.possible_agents[:] in reset()."
        )
    require_savable(getattr(env, "unwrapped", env), name)
    names = list(getattr(env, "possible_agents", ()))
    if not names:
        raise ValueError(
            f"{name} has no possible_agents: expected the names of all agents that an episode can "
            "have. Set self.possible_agents in its constructor."
        )
    if len(set(names)) < len(names):
        raise ValueError(
            f"{name} has the possible_agents {names}, with duplicates: expected a unique name for "
            "every agent."
        )
    return names, has_masks(returned[1]), own_state_dim(env, name)


def has_masks(infos: object) -> bool:
    """Whether the info of an agent has a mask; False of infos that are no dictionaries."""
    each = infos.values() if isinstance(infos, Mapping) else ()
    return any(isinstance(info, Mapping) and MASK in info for info in each)


def own_state_dim(env: Any, name: str) -> int | None:
    """The size of what ``state()`` returns; None: the environment does not define it.

    Raises:
        ValueError: it fails, or returns no array.
    """
    if hides_state(env):
        return None
    try:
        state = env.state()
    except NotImplementedError:  # the interface's own
        return None
    except Exception as error:
        # without the method, or the interface's own in a class without metadata
        if isinstance(error, AttributeError) and error.name in ("state", "metadata"):
            return None
        raise ValueError(f"state() of {name} failed: {reason(error)}") from error
    try:
        return int(np.asarray(state, np.float32).size)
    except (RuntimeError, TypeError, ValueError) as error:
        raise ValueError(
            f"state() of {name} returned {type(state).__name__}: expected an array of numbers."
        ) from error


def hides_state(env: object) -> bool:
    """Whether an attribute, of the environment or below its wrappers, hides the method."""
    layers = (env, getattr(env, "unwrapped", env))
    return not all(callable(getattr(each, "state", callable)) for each in layers)


def require_savable(env: Any, name: str) -> None:
    """ValueError if the environment's ``state_dict`` holds what a checkpoint cannot."""
    if not saves_state(env):
        return
    try:
        split(env.state_dict())
    except Exception as error:
        raise ValueError(
            f"state_dict() of {name} cannot be saved: {error}. Expected plain values and arrays: "
            "of a NumPy generator rng, rng.bit_generator.state."
        ) from error


def saves_state(env: object) -> bool:
    """Whether an environment can save its state and continue from it."""
    return all(hasattr(env, method) for method in ("state_dict", "load_state_dict"))
