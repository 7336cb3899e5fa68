"""Collected steps in parts: their arrays and sizes, their form in a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rltrain.interfaces import VectorEnv
from rltrain.types import STEP_FIELDS, Episode, StateDict, Steps

Layout = Mapping[str, tuple[tuple[int, ...], np.dtype]]
"""Shape and type of arrays by name."""

OPTIONAL_FIELDS = ("hidden", "values")
"""The arrays [T, E, …] that only some buffers store."""


def step_layout(env: VectorEnv, n_steps: int, n_envs: int) -> dict[str, Any]:
    """The ``Layout`` of ``n_steps`` time steps of ``n_envs`` environments like ``env``."""
    shape, spec = (n_steps, n_envs), env.spec
    shown = {"obs": env.obs, "avail_actions": env.avail_actions, "state": env.state}
    return {
        **{name: ((*shape, *array.shape[1:]), array.dtype) for name, array in shown.items()},
        "last": (shape, np.dtype(np.bool_)),
        "action": ((*shape, spec.n_agents), np.dtype(np.int64)),
        "reward": ((*shape, spec.n_rewards), np.dtype(np.float32)),
        "terminated": (shape, np.dtype(np.bool_)),
    }


def step_arrays(steps: Steps) -> dict[str, np.ndarray]:
    """The arrays [T, E, …] that there are, by name."""
    arrays = {name: getattr(steps, name) for name in (*STEP_FIELDS, *OPTIONAL_FIELDS)}
    return {name: array for name, array in arrays.items() if array is not None}


def saved_steps(steps: Steps) -> StateDict:
    """Steps as a checkpoint holds them."""
    episodes = [[each.episode_return, each.length, each.info] for each in steps.episodes]
    return {"arrays": {**step_arrays(steps), "lost": steps.lost}, "episodes": episodes}


def loaded_steps(state: StateDict) -> Steps:
    """The steps that ``saved_steps`` saved."""
    episodes = tuple(Episode(float(r), int(n), dict(info)) for r, n, info in state["episodes"])
    return Steps(**{k: np.array(v) for k, v in state["arrays"].items()}, episodes=episodes)
