"""Boltzmann exploration."""

from __future__ import annotations

import numpy as np

from rltrain.algo.exploration.interface import Exploration
from rltrain.common.number_types import Count, Positive
from rltrain.common.schedule import linear
from rltrain.types import Clock


class Boltzmann(Exploration):
    """Samples actions in proportion to exp(q / temperature) (soft-Q); the temperature decays
    linearly from ``start`` to ``end`` over ``env_steps``.
    """

    def __init__(self, *, start: Positive, end: Positive, env_steps: Count) -> None:
        self.start, self.end, self.env_steps = start, end, env_steps

    def choose(
        self, q: np.ndarray, available: np.ndarray, clock: Clock, rng: np.random.Generator
    ) -> np.ndarray:
        # in double precision, as probability: divided by little, rounding makes the unlikely likely
        x = q.astype(np.float64) / self.temperature(clock)
        # the argmax of q / temperature + Gumbel noise is a sample of the softmax
        noise = -np.log(-np.log1p(-rng.random(q.shape)) + 1e-300)
        return np.where(available, x + noise, -np.inf).argmax(-1)

    def probability(
        self, q: np.ndarray, available: np.ndarray, action: np.ndarray, clock: Clock
    ) -> np.ndarray:
        x = np.where(available, q.astype(np.float64) / self.temperature(clock), -np.inf)
        with np.errstate(invalid="ignore"):  # final steps may have no available action
            weight = np.exp(x - x.max(-1, keepdims=True))
            taken = np.take_along_axis(weight, action[..., None], -1)[..., 0]
            share: np.ndarray = taken / weight.sum(-1)
        return share

    def temperature(self, clock: Clock) -> float:
        return linear(self.start, self.end, self.env_steps, clock.env_steps)

    def metrics(self, clock: Clock) -> dict[str, float]:
        return {"temperature": self.temperature(clock)}

    def ends_at(self) -> int | None:
        return self.env_steps if self.start != self.end else None
