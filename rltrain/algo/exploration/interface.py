"""What an exploration has."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from rltrain.interfaces import optional
from rltrain.types import Clock


class Exploration(Protocol):
    """How values become actions."""

    def choose(
        self, q: np.ndarray, available: np.ndarray, clock: Clock, rng: np.random.Generator
    ) -> np.ndarray:
        """q [E, N, A] and available [E, N, A] bool to actions [E, N] int64."""

    @optional
    def probability(
        self, q: np.ndarray, available: np.ndarray, action: np.ndarray, clock: Clock
    ) -> np.ndarray:
        """How likely ``choose`` was to give each of the actions [E, N]; NaN where unknown. Asked
        only when experience is recorded.
        """
        return np.full(action.shape, np.nan)

    @optional
    def metrics(self, clock: Clock) -> dict[str, float]:
        """How much it explores now, for the log."""
        return {}

    @optional
    def ends_at(self) -> int | None:
        """The env step at which it stops changing; None if it never changes."""
        return None
