"""Curves and final scores of runs, placed so that they can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rltrain.report.run_data import Run

POINTS = 200
"""Points of a curve, at most."""


@dataclass(frozen=True)
class Curve:
    """One metric of one run: where it was reported and its values, ``[points]``."""

    x: np.ndarray
    y: np.ndarray

    @property
    def end(self) -> float:
        return float(self.x[-1])

    def until(self, end: float) -> np.ndarray:
        """The values up to ``end``, with a tolerance of a tenth of a step between points: tests of
        different runs are not at exactly the same place.
        """
        slack = np.median(np.diff(self.x)) / 10 if len(self.x) > 1 else 0.0
        return self.y[self.x <= end + slack]

    def final(self, end: float, last: int) -> float:
        """Mean of the ``last`` values up to ``end``."""
        values = self.until(end)
        return float((values if len(values) else self.y[:1])[-last:].mean())

    def at(self, x: np.ndarray) -> np.ndarray:
        """The values at other places, interpolated; beyond the ends those at the ends."""
        return np.interp(x, self.x, self.y)

    def mean(self, end: float) -> float:
        """Mean over training up to ``end``: the area under the curve over its width."""
        x = np.linspace(self.x[0], max(end, self.x[0]), POINTS + 1)
        return float(self.at(x).mean())

    def reaches(self, threshold: float, end: float) -> float:
        """Where the curve first is at a threshold; infinity if it is not before ``end``."""
        above = np.flatnonzero(self.until(end) >= threshold)
        if not len(above):
            return np.inf
        i = above[0]
        if i == 0:
            return float(self.x[0])
        x, y = self.x[i - 1 : i + 1], self.y[i - 1 : i + 1]
        return min(float(np.interp(threshold, y, x)), end)


def curve_of(run: Run, metric: str, axis: str) -> Curve | None:
    """A run's curve; None if it never reported the metric. Values that are far more frequent than
    a figure shows, such as episodes, become means of neighbors.
    """
    x, y = run.series(metric, axis)
    if not len(x):
        return None
    if len(x) > 2 * POINTS:
        parts = np.array_split(np.arange(len(x)), POINTS)
        x, y = (np.array([v[part].mean() for part in parts]) for v in (x, y))
    return Curve(x, y)


def common(curves: Sequence[Curve]) -> tuple[np.ndarray, np.ndarray]:
    """Places that all curves cover, ``[points]``, and the values there, ``[runs, points]``."""
    low, high = max(c.x[0] for c in curves), min(c.end for c in curves)
    if high <= low:
        return np.array([high]), np.array([c.at(np.array([high])) for c in curves])
    count = int(np.clip(np.median([len(c.x) for c in curves]), 2, POINTS))
    x = np.linspace(low, high, count)
    return x, np.array([c.at(x) for c in curves])
