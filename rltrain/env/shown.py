"""The arrays in which environments show their current step, of a saved state."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rltrain.common.number_types import MOST_COUNTED, require_range, saved_array
from rltrain.errors import require_n_envs
from rltrain.interfaces import VectorEnv
from rltrain.types import StateDict

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
