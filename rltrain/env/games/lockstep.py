"""GameEnv: episodes of games whose state is arrays over environments.

To add a game: a subclass with its rules in ``_begin`` and ``_advance``, and a function for the YAML
file to name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rltrain.common.number_types import saved_array
from rltrain.env.shown import ARRAYS, shown_arrays
from rltrain.interfaces import EpisodeSeeds, VectorEnv
from rltrain.types import EnvSpec, Info, StateDict


class GameEnv(VectorEnv):
    """``n_envs`` environments of one game, in shared arrays.

    Args:
        spec: sizes.
        n_envs: environments, E.
        time_limit: ``bootstrap``: a truncated episode has ``last`` without ``terminated``;
            ``terminal``: it counts as terminated.
    """

    remembers: Sequence[str] = ()  # names of the state arrays
    limits: Mapping[str, tuple[float, float]] = {}  # least and largest number of them

    def __init__(self, spec: EnvSpec, n_envs: int, time_limit: str = "bootstrap") -> None:
        self.spec, self.n_envs, self.time_limit = spec, n_envs, time_limit
        self.obs = np.zeros((n_envs, spec.n_agents, *spec.obs_shape), spec.obs_dtype)
        self.avail_actions = np.ones((n_envs, spec.n_agents, spec.n_actions), np.uint8)
        self.state = np.zeros((n_envs, spec.state_dim), np.float32)
        self.last = np.zeros(n_envs, np.bool_)
        self.infos: list[Info] = [{} for _ in range(n_envs)]
        self._episode = np.zeros(n_envs, np.int64)  # k of each environment's current episode
        self._seeds: EpisodeSeeds | None = None

    def _begin(self, envs: np.ndarray, seeds: np.ndarray) -> None:
        """Write the first time step of the environments ``envs`` [n], with seeds uint64 [n]."""
        raise NotImplementedError

    def _advance(
        self, action: np.ndarray, playing: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Write the next time step of the environments marked in ``playing`` [E]: reward [E],
        terminated [E], truncated [E].
        """
        raise NotImplementedError

    def reset(self, seeds: EpisodeSeeds) -> None:
        """Start episode 0 of every environment."""
        self._seeds = seeds
        self._episode[:] = 0
        self.last[:] = False
        self._start(np.arange(self.n_envs))

    def step(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``action`` [E, N] to (reward [E, 1], terminated [E]); a new episode where ``last``."""
        begins = np.flatnonzero(self.last)
        playing = ~self.last
        reward, terminated, truncated = self._advance(action, playing)
        self.last[:] = (terminated | truncated) & playing
        if begins.size:
            self._episode[begins] += 1
            self._start(begins)
        if self.time_limit == "terminal":
            terminated = terminated | truncated
        return (reward * playing).astype(np.float32)[:, None], terminated & playing

    def call(self, method: str, *args: object) -> list[Any]:
        """Raises AttributeError: there is no object for each environment."""
        raise AttributeError(f"{type(self).__name__} has no method {method} to call")

    def state_dict(self) -> StateDict:
        """Copies of all arrays, and ``infos``."""
        names = (*ARRAYS, "_episode", *self.remembers)
        arrays = {name.lstrip("_"): getattr(self, name).copy() for name in names}
        return {**arrays, "infos": [dict(info) for info in self.infos]}

    def load_state_dict(self, state: StateDict) -> None:
        """Continue exactly where ``state_dict`` was taken, after ``reset`` with the same seeds.

        Raises:
            ValueError: the state was written with a different number of environments, or holds what
                the game does not have.
        """
        arrays = shown_arrays(self, state)
        for name in self.remembers:
            own, key = getattr(self, name), name.lstrip("_")
            limits = self.limits.get(name, (-math.inf, math.inf))
            arrays[key] = saved_array(f"env.{key}", state[key], own, *limits)
        for name in (*ARRAYS, "_episode", *self.remembers):
            getattr(self, name)[...] = arrays[name.lstrip("_")]
        self.infos[:] = [dict(info) for info in state["infos"]]

    def close(self) -> None:
        """Nothing to close."""

    def _start(self, envs: np.ndarray) -> None:
        assert self._seeds is not None, "an episode before reset"
        keys = [self._seeds(e, int(self._episode[e])) for e in envs.tolist()]
        self._begin(envs, np.array(keys, np.uint64))
