"""Exploration in some of a run's environments, as in all of them together."""

from __future__ import annotations

import numpy as np

from rltrain.algo.exploration.interface import AgentNoise, Exploration
from rltrain.types import Clock


class ExplorationOfShare(Exploration):
    """Chooses actions for all ``total`` environments and keeps those of its own, ``first`` and the
    following, so that they are the same however the environments are divided.

    Args:
        exploration: of all environments together.

    Raises:
        ValueError: it adds noise to the parameters, which is adapted to all environments.
    """

    def __init__(self, exploration: Exploration, *, first: int, total: int) -> None:
        if exploration.noise() is not None:
            raise ValueError(
                "algo/exploration=parameter_noise adapts one noise to all environments together, "
                "and workers have only some of them. Type hardware=auto, or "
                "algo/exploration=epsilon_greedy."
            )
        self.exploration, self.first, self.total = exploration, first, total

    def noise(self) -> AgentNoise | None:
        """None."""
        return None

    def choose(
        self, q: np.ndarray, available: np.ndarray, clock: Clock, rng: np.random.Generator
    ) -> np.ndarray:
        own = slice(self.first, self.first + len(q))
        all_q = np.zeros((self.total, *q.shape[1:]), q.dtype)
        all_available = np.ones((self.total, *available.shape[1:]), available.dtype)
        all_q[own], all_available[own] = q, available
        return self.exploration.choose(all_q, all_available, clock, rng)[own]
