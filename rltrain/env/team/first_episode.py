"""The first episode of a parallel environment, played before anything is trained on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from rltrain.common.checkpoint.storage import split
from rltrain.env.team.agent_spaces import MASK
from rltrain.errors import reason


class FirstEpisode(NamedTuple):
    """Properties that are known after ``reset``."""

    has_masks: bool  # in an agent's info
    state_dim: int | None  # size of the environment's own state; None: it has none


def first_episode(env: Any, name: str) -> FirstEpisode:
    """Begin an episode.

    Args:
        env: a parallel environment.
        name: its name, for messages.

    Raises:
        ValueError: it fails, or returns something other than PettingZoo's environments do.
    """
    try:
        returned = env.reset(seed=0)
    except Exception as error:
        raise ValueError(f"{name} cannot begin an episode: {reason(error)}") from error
    if not is_pair(returned):
        raise ValueError(
            f"reset() of {name} returned {types_of(returned)}: expected (observations, infos), two "
            "dictionaries by agent."
        )
    require_savable(getattr(env, "unwrapped", env), name)
    has_masks = any(MASK in info for info in returned[1].values() if isinstance(info, Mapping))
    return FirstEpisode(has_masks, own_state_dim(env, name))


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
        if isinstance(error, AttributeError) and error.name == "state":
            return None
        raise ValueError(f"state() of {name} failed: {reason(error)}") from error
    try:
        return int(np.asarray(state, np.float32).size)
    except (TypeError, ValueError) as error:
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


def is_pair(returned: Any) -> bool:
    """Whether ``reset`` returned two dictionaries."""
    is_two = isinstance(returned, tuple) and len(returned) == 2
    return is_two and all(isinstance(each, Mapping) for each in returned)


def types_of(returned: object) -> str:
    """The types of what was returned."""
    if not isinstance(returned, tuple):
        return type(returned).__name__
    return f"({', '.join(type(each).__name__ for each in returned)})"


def name_of(env: object) -> str:
    """The name of an environment, for messages."""
    named = getattr(env, "metadata", {}).get("name")
    return str(named or type(getattr(env, "unwrapped", env)).__name__)
