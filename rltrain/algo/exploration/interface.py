"""The base class of explorations, and the protocol of parameter noise."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from rltrain.interfaces import Agents
from rltrain.types import Clock


class AgentNoise(Protocol):
    """Noise on the parameters of the agents that act."""

    def perturbed(self, agents: Agents, rng: np.random.Generator) -> Agents:
        """The agents to act with."""

    def compare(self, q: np.ndarray, noisy_q: np.ndarray) -> None:
        """Count how far values [X, N, A] with noise are from those without."""

    def draw(self, agents: Agents, n_actions: int, clock: Clock, rng: np.random.Generator) -> None:
        """New noise on the present parameters."""

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Mapping[str, Any], agents: Agents) -> None: ...


class Exploration:
    """How values become actions."""

    def noise(self) -> AgentNoise | None:
        """Noise on the parameters of the agents that act; None if there is none."""
        return None

    @abstractmethod
    def choose(
        self, q: np.ndarray, available: np.ndarray, clock: Clock, rng: np.random.Generator
    ) -> np.ndarray:
        """q [E, N, A] and available [E, N, A] bool to actions [E, N] int64."""

    def probability(
        self, q: np.ndarray, available: np.ndarray, action: np.ndarray, clock: Clock
    ) -> np.ndarray:
        """How likely ``choose`` was to give each of the actions [E, N]; NaN where unknown.
        Called only when a dataset is recorded.
        """
        return np.full(action.shape, np.nan)

    def metrics(self, clock: Clock) -> dict[str, float]:
        """Metrics of exploration at ``clock``, for the log."""
        return {}

    def ends_at(self) -> int | None:
        """The env step at which it stops changing; None if it never changes."""
        return None
