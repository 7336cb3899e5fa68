"""The base class of explorations, exploration in a subset of environments, and the protocol of
parameter noise.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol

import numpy as np

from rltrain.algo.own_checks import require_actions
from rltrain.common.stateful import Stateful
from rltrain.interfaces import Agents
from rltrain.types import Clock, StateDict


class AgentNoise(Protocol):
    """Noise on the parameters of the acting agents."""

    def perturbed(self, agents: Agents, rng: np.random.Generator) -> Agents:
        """The agents to act with."""

    def compare(self, q: np.ndarray, noisy_q: np.ndarray, available: np.ndarray) -> None:
        """Record the distance between values [X, N, A] with and without noise."""

    def draw(self, agents: Agents, clock: Clock, rng: np.random.Generator) -> None:
        """Draw new noise on the current parameters."""


class Exploration(Stateful):
    """How values become actions."""

    # twin: kernels/collecting.py
    def noise(self) -> AgentNoise | None:
        """Noise on the parameters of the acting agents, or None."""
        return None

    @abstractmethod
    def choose(
        self, q: np.ndarray, available: np.ndarray, clock: Clock, rng: np.random.Generator
    ) -> np.ndarray:
        """q [E, N, A] and available [E, N, A] bool to actions [E, N] int64. Actions in an
        environment may only depend on its own rows of ``q`` and ``available``, and the state on
        none: in worker processes the rows of other environments are 0 and True.
        """

    def probability(
        self, q: np.ndarray, available: np.ndarray, action: np.ndarray, clock: Clock
    ) -> np.ndarray:
        """The probability of each action [E, N] under ``choose``; NaN if unknown.
        Called only when a dataset is recorded.
        """
        return np.full(action.shape, np.nan)

    def metrics(self, clock: Clock) -> dict[str, float]:
        """Metrics of exploration at ``clock``, for the log."""
        return {}

    def ends_at(self) -> int | None:
        """The env step at which it stops changing; None if it never changes."""
        return None


class ExplorationOfShare(Exploration):
    """Chooses actions for all ``total`` environments and keeps those of its own, from ``first`` on,
    so that actions do not depend on how environments are divided.

    Args:
        exploration: exploration in all environments.

    Raises:
        ValueError: it adds parameter noise, which adapts to all environments.
    """

    def __init__(self, exploration: Exploration, *, first: int, total: int) -> None:
        if exploration.noise() is not None:
            raise ValueError(
                "algo/exploration=parameter_noise adapts one noise to all environments together, "
                "and workers have only some of them. Type hardware=auto, or "
                "algo/exploration=epsilon_greedy."
            )
        self.exploration, self.first, self.total = exploration, first, total

    def choose(
        self, q: np.ndarray, available: np.ndarray, clock: Clock, rng: np.random.Generator
    ) -> np.ndarray:
        own = slice(self.first, self.first + len(q))
        all_q = np.zeros((self.total, *q.shape[1:]), q.dtype)
        all_available = np.ones((self.total, *available.shape[1:]), available.dtype)
        all_q[own], all_available[own] = q, available
        action = self.exploration.choose(all_q, all_available, clock, rng)
        if not type(self.exploration).__module__.startswith("rltrain."):
            require_actions(self.exploration, action, all_available)
        return action[own]

    def state_dict(self) -> StateDict:
        return self.exploration.state_dict()

    def load_state_dict(self, state: StateDict) -> None:
        self.exploration.load_state_dict(state)
