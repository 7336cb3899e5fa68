"""Comparison of configurations: over several environments, run by run, pair by pair."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rltrain.config.schema import ReportSettings
from rltrain.errors import UsageError
from rltrain.report.run_groups import RunGroup
from rltrain.report.scores import Curve
from rltrain.report.statistics import (
    STATISTICS,
    Interval,
    estimate,
    improvement,
    performance_profile,
    probability_of_improvement,
    resampled_runs,
)

POINTS = 51
"""Points of curves over several environments."""
MANY = 8
"""Configurations of which every pair is compared."""


@dataclass(frozen=True)
class Series:
    """One configuration on one environment."""

    group: RunGroup
    curves: Sequence[Curve]
    x: np.ndarray
    band: Interval  # [points]
    finals: np.ndarray  # [runs]
    final: Interval

    @property
    def label(self) -> str:
        return self.group.label

    @property
    def env(self) -> str:
        return self.group.env


@dataclass(frozen=True)
class Overall:
    """One configuration over all environments, scores normalized."""

    label: str
    scores: Sequence[np.ndarray]  # per environment [runs]
    final: Interval
    x: np.ndarray  # [points], fractions of the training
    band: Interval  # [points]


@dataclass(frozen=True)
class Profiles:
    """Performance profiles: thresholds and, by label, the fraction of runs above them."""

    thresholds: np.ndarray
    fractions: Mapping[str, Interval]


def interval_of(
    scores: Sequence[np.ndarray],
    settings: ReportSettings,
    rng: np.random.Generator,
) -> Interval:
    """The chosen statistic and its interval, which one run does not have."""
    runs = resampled_runs(scores, settings.resamples, rng)
    result = estimate(scores, STATISTICS[settings.statistic], runs, settings.confidence)
    if max(map(len, scores)) > 1:
        return result
    unknown = np.full_like(result.value, np.nan)
    return Interval(result.value, unknown, unknown)


def limits_text(envs: Iterable[str]) -> str:
    """The value of ``report.ranges`` to type, between its braces."""
    named = [f"{env}: [LOW, HIGH]" for env in envs]
    return ", ".join(named[:3] + ["…"] * (len(named) > 3))


def ranges_of(
    series: Sequence[Series], metric: str, settings: ReportSettings
) -> dict[str, tuple[float, float]]:
    """By environment, the scores that are 0 and 1 after normalization; empty without it.

    Raises:
        UsageError: ranges that are missing or empty.
    """
    envs = list(dict.fromkeys(s.env for s in series))
    if settings.normalize == "none":
        return dict.fromkeys(envs, (0.0, 1.0)) if metric.endswith("win_rate") else {}
    if settings.normalize == "min_max":
        out = {}
        for env in envs:
            values = np.concatenate([c.y for s in series if s.env == env for c in s.curves])
            out[env] = (float(values.min()), float(values.max()))
        return {env: (low, high if high > low else low + 1) for env, (low, high) in out.items()}
    wrong = [
        env
        for env in envs
        if len(limits := settings.ranges.get(env, [])) != 2 or limits[0] >= limits[1]
    ]
    if wrong:
        raise UsageError(
            f"report.normalize=ranges: no scores for 0 and 1 were given for {', '.join(wrong)}. "
            f"Type report.ranges={{{limits_text(wrong)}}}, LOW below HIGH."
        )
    return {env: (settings.ranges[env][0], settings.ranges[env][1]) for env in envs}


def normalized(scores: np.ndarray, limits: tuple[float, float]) -> np.ndarray:
    """Scores with ``limits`` at 0 and 1."""
    return (scores - limits[0]) / (limits[1] - limits[0])


def overall_of(
    series: Sequence[Series],
    labels: Sequence[str],
    ends: Mapping[str, float],
    ranges: Mapping[str, tuple[float, float]],
    settings: ReportSettings,
    rng: np.random.Generator,
) -> list[Overall]:
    """Each configuration over all environments."""
    out = []
    for label in labels:
        own = [s for s in series if s.label == label]
        scores = [normalized(s.finals, ranges[s.env]) for s in own]
        start = max(curve.x[0] / (ends[s.env] or 1) for s in own for curve in s.curves)
        x = np.linspace(min(start, 1), 1, POINTS)
        values = [np.array([c.at(x * ends[s.env]) for c in s.curves]) for s in own]
        curves = [normalized(v, ranges[s.env]) for v, s in zip(values, own, strict=True)]
        final, band = (interval_of(each, settings, rng) for each in (scores, curves))
        out.append(Overall(label, scores, final, x, band))
    return out


def profiles_of(
    series: Sequence[Series],
    labels: Sequence[str],
    ends: Mapping[str, float],
    ranges: Mapping[str, tuple[float, float]],
    settings: ReportSettings,
    rng: np.random.Generator,
) -> Profiles:
    """Performance profiles, of normalized scores if there are several environments."""
    if len(ends) > 1 and not ranges:
        return Profiles(np.zeros(0), {})
    limits = ranges or dict.fromkeys(ends, (0.0, 1.0))
    scores = {
        label: [normalized(s.finals, limits[s.env]) for s in series if s.label == label]
        for label in labels
    }
    if not scores:
        return Profiles(np.zeros(0), {})
    every = np.concatenate([task for tasks in scores.values() for task in tasks])
    low, high = (0.0, 1.0) if ranges else (every.min(), every.max())
    thresholds = np.linspace(min(low, every.min()), max(high, every.max()), 101)
    out = {}
    for label, tasks in scores.items():
        runs = resampled_runs(tasks, settings.resamples, rng)
        out[label] = performance_profile(tasks, thresholds, runs, settings.confidence)
    return Profiles(thresholds, out)


def improvements(
    series: Sequence[Series],
    labels: Sequence[str],
    settings: ReportSettings,
    rng: np.random.Generator,
) -> dict[tuple[str, str], Interval]:
    """Probabilities of improvement, the better on average first: for every pair of at most
    ``MANY`` configurations, of more for the best one and each other.
    """
    scores = {label: [s.finals for s in series if s.label == label] for label in labels}
    pairs: Iterable[tuple[str, str]] = itertools.combinations(labels, 2)
    if len(labels) > MANY:
        best = best_of(scores)
        pairs = [(best, label) for label in labels if label != best]
    out = {}
    for a, b in pairs:
        x, y = scores[a], scores[b]
        runs_x, runs_y = (resampled_runs(s, settings.resamples, rng) for s in (x, y))
        result = probability_of_improvement(x, y, runs_x, runs_y, settings.confidence)
        if all(len(task) == 1 for task in (*x, *y)):  # one run does not have an interval
            result = Interval(result.value, *np.full((2, *np.shape(result.value)), np.nan))
        if result.value < 0.5:
            result = Interval(1 - result.value, 1 - result.high, 1 - result.low)
            out[b, a] = result
        else:
            out[a, b] = result
    return out


def best_of(scores: Mapping[str, Sequence[np.ndarray]]) -> str:
    """The configuration with the largest mean probability of improvement over all."""
    return max(scores, key=lambda a: np.mean([improvement(scores[a], scores[b]) for b in scores]))
