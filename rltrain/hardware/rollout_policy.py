"""The policy that a rollout acts with, as it uses it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from rltrain.types import Clock


class RolloutPolicy(Protocol):
    """Chooses actions; keeps every environment's recurrent state and resets it after ``last``."""

    @property
    def hidden(self) -> np.ndarray:
        """[E, N, H]: the recurrent state before the coming ``act`` (a copy)."""

    @property
    def acted_values(self) -> np.ndarray:
        """[E, N, 2]: of the last ``act`` the values of its actions and of the best ones."""

    def act(
        self, obs: np.ndarray, avail_actions: np.ndarray, last: np.ndarray, clock: Clock
    ) -> np.ndarray:
        """obs [E, N, *O], avail_actions [E, N, A], last [E] to actions [E, N] int64."""

    def reset(self) -> None:
        """All environments start an episode."""

    def forget(self, envs: np.ndarray) -> None:
        """The environments marked in [E] bool start an episode."""

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...

    def carry_on(self, state: Mapping[str, Any]) -> None:
        """Load only what outlives an episode."""
