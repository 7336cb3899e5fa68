"""Priorities: proportional sampling of items and its importance weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rltrain.buffer.sum_tree import SumTree
from rltrain.common.schedule import linear


class Priorities:
    """Items drawn in proportion to priority^alpha (Schaul et al., 2016, section 3.3).

    Args:
        n: items; all begin with priority 0, which is never drawn.
        alpha: exponent of the priorities.
        beta, beta_end, beta_env_steps: exponent of the importance weights (section 3.4) at the
            start, at the end, and the env steps between.
        floor: added to every priority, so that every item can be drawn again.
    """

    def __init__(
        self,
        n: int,
        *,
        alpha: float,
        beta: float,
        beta_end: float,
        beta_env_steps: int,
        floor: float,
    ) -> None:
        self.tree = SumTree(n)
        self.alpha, self.floor = alpha, floor
        self.beta = beta, beta_end, beta_env_steps
        self.largest = 1.0  # priority^alpha, of all ever set

    def add(self, item: np.ndarray, drawable: np.ndarray) -> None:
        """New items [B] get the largest priority so far; those not ``drawable`` [B] get 0."""
        self.tree.set(item, np.where(drawable, self.largest, 0.0))

    def remove(self, item: np.ndarray) -> None:
        """Items [B] are not drawn any more."""
        self.tree.set(item, np.zeros(len(item)))

    def update(self, item: np.ndarray, priority: np.ndarray) -> None:
        """Set (priority [B] + floor)^alpha of items [B] that were not removed since."""
        new = (priority + self.floor) ** self.alpha
        kept = (self.tree[item] > 0) & np.isfinite(new)  # not finite: the update was undone
        self.tree.set(item[kept], new[kept])
        if kept.any():
            self.largest = max(self.largest, float(new[kept].max()))

    def draw(
        self, n: int, rng: np.random.Generator, env_steps: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """``n`` items [B], one from each of n equal shares of the total, and their importance
        weights [B], at most 1.
        """
        total = self.tree.total
        item = self.tree.find((np.arange(n) + rng.random(n)) * (total / n))
        start, end, duration = self.beta
        weight = self.tree[item] ** -linear(start, end, duration, env_steps)
        return item, weight / weight.max()  # the factor N of (N P)^-beta cancels

    def state_dict(self) -> dict[str, np.ndarray]:
        return {"priority": self.tree.state_dict()["leaves"], "largest": np.array([self.largest])}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.tree.load_state_dict(state["priority"])
        self.largest = float(state["largest"][0])
