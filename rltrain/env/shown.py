"""Checks of what environments show: the arrays of their current step in a saved state, images and
drawings.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from rltrain.common.number_types import MOST_COUNTED, require_range, saved_array
from rltrain.errors import EnvError, reason, require_n_envs
from rltrain.interfaces import VectorEnv
from rltrain.types import Drawing, StateDict

ARRAYS = ("obs", "avail_actions", "state", "last")
Teams = Sequence[tuple[int, int, int]]
"""Agents of each team, and their least and largest action."""


def shown_arrays(env: VectorEnv, state: StateDict, teams: Teams = ()) -> dict[str, np.ndarray]:
    """``ARRAYS`` and ``episode`` of a saved state of ``env``, whose ``actions`` are checked as well
    if there are ``teams``.

    Raises:
        ValueError: they do not fit, or no such environments show them.
    """
    require_actions(state["actions"] if teams else (), teams)
    episode = np.asarray(state["episode"])
    require_n_envs("state", len(episode), env.n_envs)
    arrays = {name: saved_array(f"env.{name}", state[name], getattr(env, name)) for name in ARRAYS}
    if not (arrays["avail_actions"].any(-1) | arrays["last"][:, None]).all():
        raise ValueError("env.avail_actions has agents without an available action")
    like = np.empty(env.n_envs, np.int64)
    return {**arrays, "episode": saved_array("env.episode", episode, like, 0, MOST_COUNTED)}


def require_actions(saved: Sequence[np.ndarray | None], teams: Teams) -> None:
    """ValueError unless these are actions [T, N] of episodes, or None."""
    ends = np.cumsum([n for n, *_ in teams])
    for taken in saved:
        if taken is not None:
            saved_array("env.actions", taken, np.empty((len(taken), ends[-1]), np.int64))
            for end, (n, low, high) in zip(ends, teams, strict=True):
                require_range("env.actions", taken[:, end - n : end], low, high)


def checked_images(rendered: Any) -> list[np.ndarray]:
    """Check the return value of ``render``; returns copies of its images, uint8 [H, W, 3].

    Raises:
        EnvError: it is not an image, or contains something else.
    """
    images = list(rendered) if isinstance(rendered, list | tuple) else [rendered]
    for image in images or [None]:
        array, got = isinstance(image, np.ndarray), reprlib.repr(rendered)
        if array and image.dtype == np.uint8 and image.shape[2:] == (3,) and image.size:
            continue
        if array:
            got = f"an array {list(image.shape)} of {image.dtype}"
        raise EnvError(
            f"The environment's render() returned {got}: expected an image, an array "
            "[height, width, 3] of uint8, or a list of them; of render_mode='rgb_array' where "
            "there are several."
        )
    return [image.copy() for image in images]


def checked_drawing(drawn: Any) -> Drawing:
    """Check the return value of ``drawing``; its columns become new arrays.

    Raises:
        EnvError: it is not a drawing.
    """
    try:
        world, looks, given = drawn
        columns = {name: np.array(column) for name, column in given.items()}
        json.dumps([world, *looks])
        fits = all(len(looks) == column.shape[-1] for column in columns.values())
        if not ({"bounds"} <= {*world} and {"x", "y"} <= {*columns} and fits):
            raise ValueError("bounds, x or y, or numbers of some units are missing")
    except Exception as error:
        raise EnvError(
            f"The environment's drawing() returned {reprlib.repr(drawn)} ({reason(error)}): "
            "expected a rltrain.types.Drawing, of plain values a world with bounds and a mapping "
            "for each unit, and columns of numbers [units] with x and y."
        ) from error
    return Drawing(world, looks, columns)
