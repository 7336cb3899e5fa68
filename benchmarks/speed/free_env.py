"""An environment without cost, to measure only acting, storing and learning."""

from __future__ import annotations

import numpy as np

from rltrain.env.games.lockstep import GameEnv
from rltrain.types import EnvSpec


class FreeEnv(GameEnv):
    """The same random observations, states and available actions at every time step; episodes of
    ``n_steps`` time steps.
    """

    remembers = ("_t",)

    def __init__(self, *, spec: EnvSpec, n_envs: int, n_steps: int) -> None:
        super().__init__(spec, n_envs)
        rng = np.random.default_rng(0)
        self.obs[:] = rng.standard_normal(self.obs.shape)
        self.state[:] = rng.standard_normal(self.state.shape)
        self.avail_actions[:] = rng.random(self.avail_actions.shape) < 0.7
        self.avail_actions[..., 0] = 1
        self.n_steps, self._t = n_steps, np.zeros(n_envs, np.int64)

    def _begin(self, envs: np.ndarray, seeds: np.ndarray) -> None:
        self._t[envs] = 0

    def _advance(
        self, action: np.ndarray, playing: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        self._t += playing
        truncated = np.zeros(self.n_envs, np.bool_)
        return np.ones(self.n_envs), self._t == self.n_steps, truncated
