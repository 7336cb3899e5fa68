"""Statistics over runs of several tasks, after Agarwal et al., "Deep Reinforcement Learning at the
Edge of the Statistical Precipice", NeurIPS 2021 (https://arxiv.org/abs/2108.13264).

Scores are a list with one array ``[runs, ...]`` per task; axes behind the runs, such as points of a
curve, are treated one by one. Tasks are the strata of the bootstrap: each keeps its number of runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

Scores = Sequence[np.ndarray]
Statistic = Callable[[np.ndarray, np.ndarray | None], np.ndarray]
"""Reduces the last axis, that of the runs, with weights [runs] that sum to 1, None for equal ones:
``[..., runs] -> [...]``.
"""
AT_ONCE = 4_000_000  # resampled numbers that are held at a time


class Interval(NamedTuple):
    """A statistic and its confidence interval, numbers or arrays of one shape."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray


def task_weights(scores: Scores) -> np.ndarray | None:
    """Weights [runs] with which all tasks count alike; None if they have as many runs."""
    counts = [len(task) for task in scores]
    if len(set(counts)) == 1:
        return None
    return np.concatenate([np.full(n, 1 / (n * len(counts))) for n in counts])


def mean(scores: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Mean over the last axis."""
    return np.asarray(scores.mean(-1) if weights is None else scores @ weights)


def iqm(scores: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Interquartile mean over the last axis: the mean without the lowest and the highest quarter,
    each rounded down to whole runs (section 4.3; 25% trimmed mean). With weights, without a quarter
    of the weight at each end.
    """
    if weights is not None:
        order = np.argsort(scores, -1)
        ends = np.cumsum(weights[order], -1)
        kept = np.minimum(ends, 0.75) - np.maximum(ends - weights[order], 0.25)
        inside = np.maximum(kept, 0)
        sums = (np.take_along_axis(scores, order, -1) * inside).sum(-1)
        return np.asarray(sums / inside.sum(-1))
    count = scores.shape[-1]
    cut = count // 4
    return np.asarray(np.sort(scores, -1)[..., cut : count - cut].mean(-1))


def optimality_gap(scores: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """How far the scores are below 1, on average over the last axis (section 4.3)."""
    return 1 - mean(np.minimum(scores, 1), weights)


STATISTICS: dict[str, Statistic] = {"mean": mean, "iqm": iqm}
"""The choices of ``report.statistic``."""


def resampled_runs(scores: Scores, resamples: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Indices of a stratified bootstrap, one array ``[resamples, runs]`` per task."""
    return [rng.integers(len(task), size=(resamples, len(task))) for task in scores]


def estimate(
    scores: Scores, statistic: Statistic, runs: Sequence[np.ndarray], confidence: float = 0.95
) -> Interval:
    """A statistic of all scores with its percentile bootstrap interval (section 4.1); tasks count
    alike, whatever their numbers of runs.

    Args:
        runs: indices of the resampled runs, from ``resampled_runs``.
    """
    weights = task_weights(scores)
    value = statistic(np.moveaxis(np.concatenate(list(scores)), 0, -1), weights)
    size = max(1, AT_ONCE // sum(task.size for task in scores))
    parts = []
    for start in range(0, len(runs[0]), size):
        drawn = [task[i[start : start + size]] for task, i in zip(scores, runs, strict=True)]
        parts.append(statistic(np.moveaxis(np.concatenate(drawn, 1), 1, -1), weights))
    return interval(value, np.concatenate(parts), confidence)


def interval(value: np.ndarray, samples: np.ndarray, confidence: float = 0.95) -> Interval:
    """A statistic with its percentile interval over the first axis of resampled ones."""
    tail = 50 * (1 - confidence)
    return Interval(value, *np.percentile(samples, [tail, 100 - tail], axis=0))


def performance_profile(
    scores: Scores, thresholds: np.ndarray, runs: Sequence[np.ndarray], confidence: float = 0.95
) -> Interval:
    """Fraction of runs with a score above each threshold (section 4.2, run-score distribution)."""
    above = [(task[:, None] > thresholds).astype(float) for task in scores]
    return estimate(above, mean, runs, confidence)


def improvement(x: Scores, y: Scores) -> float:
    """Probability that a run of X scores higher than a run of Y on the same task, ties counting
    one half, averaged over tasks (section 4.3).
    """
    return float(np.mean([wins(a, b) for a, b in zip(x, y, strict=True)]))


def probability_of_improvement(
    x: Scores,
    y: Scores,
    runs_x: Sequence[np.ndarray],
    runs_y: Sequence[np.ndarray],
    confidence: float = 0.95,
) -> Interval:
    """``improvement`` with its interval, runs of X and Y resampled independently."""
    tasks = list(zip(x, y, runs_x, runs_y, strict=True))
    size = max(1, AT_ONCE // max(len(a) * len(b) for a, b, *_ in tasks))
    drawn = [
        np.mean([wins(a[i[part]], b[j[part]]) for a, b, i, j in tasks], 0)
        for part in (slice(start, start + size) for start in range(0, len(runs_x[0]), size))
    ]
    return interval(np.array(improvement(x, y)), np.concatenate(drawn), confidence)


def wins(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Fraction of pairs in which x is greater, over the last axes: [..., n], [..., m] -> [...]."""
    x, y = x[..., :, None], y[..., None, :]
    return ((x > y) + 0.5 * (x == y)).mean((-2, -1))
