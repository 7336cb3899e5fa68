"""Comparison of configurations: over several environments, run by run, pair by pair."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rltrain.config.command_line import shell_word, typed
from rltrain.config.schema import ReportSettings
from rltrain.errors import UsageError
from rltrain.report import statistics
from rltrain.report.run_data import Curve
from rltrain.report.run_groups import RunGroup
from rltrain.report.statistics import STATISTICS, Interval, resampled_runs

POINTS = 51
"""Points of curves over several environments."""
MANY = 8
"""Configurations of which every pair is compared."""


@dataclass(frozen=True)
class Series(RunGroup):
    """One configuration on one environment."""

    curves: Sequence[Curve]
    x: np.ndarray
    band: Interval  # [points]
    finals: np.ndarray  # [runs]
    final: Interval


@dataclass(frozen=True)
class Overall:
    """One configuration over all environments, scores normalized."""

    label: str
    scores: Sequence[np.ndarray]  # per environment [runs]
    final: Interval
    x: np.ndarray  # [points], fractions of the training
    band: Interval  # [points]


@dataclass
class Analysis:
    """The contents of a report.

    Attributes:
        ends: by environment, where its runs are compared: the end of its shortest run.
        ranges: by environment, what is 0 and what is 1 after normalization; empty if it is not.
        overall: configurations with runs on every environment; empty for one environment, and
            without normalization.
        profiles: by label, the fraction of runs above each of ``thresholds``.
        improvement: for two labels the probability that the first scores higher.
    """

    settings: ReportSettings
    metric: str
    series: Sequence[Series]
    ends: dict[str, float]
    ranges: dict[str, tuple[float, float]]
    warnings: list[str]
    overall: list[Overall] = field(default_factory=list)
    thresholds: np.ndarray = field(default_factory=lambda: np.zeros(0))
    profiles: Mapping[str, Interval] = field(default_factory=dict)
    improvement: Mapping[tuple[str, str], Interval] = field(default_factory=dict)

    @property
    def axis(self) -> str:
        """The name of the axis of training, such as ``env steps``."""
        return self.settings.axis.replace("_", " ")

    @property
    def labels(self) -> list[str]:
        return list(dict.fromkeys(s.label for s in self.series))

    @property
    def own(self) -> list[Series]:
        """The series of runs: published results are compared with nothing."""
        return [s for s in self.series if not s.published]

    @property
    def complete(self) -> list[str]:
        """The labels of configurations with runs on every environment."""
        envs: dict[str, set[str]] = {}
        for s in self.own:
            envs.setdefault(s.label, set()).add(s.env)
        return [label for label, own in envs.items() if own == set(self.ends)]

    def of(self, env: str) -> list[Series]:
        return [s for s in self.series if s.env == env]

    def over_envs(self, label: str) -> list[Series]:
        return [s for s in self.series if s.label == label]


def make_interval(
    scores: Sequence[np.ndarray], settings: ReportSettings, rng: np.random.Generator
) -> Interval:
    """The chosen statistic and its interval, which one run does not have."""
    runs = resampled_runs(scores, settings.resamples, rng)
    statistic = STATISTICS[settings.statistic]
    result = statistics.estimate(scores, statistic, runs, settings.confidence)
    return result if max(map(len, scores)) > 1 else without_interval(result)


def without_interval(result: Interval) -> Interval:
    """A value whose interval is unknown."""
    unknown = np.full_like(result.value, np.nan, float)
    return Interval(result.value, unknown, unknown)


def limits_text(envs: Iterable[str]) -> str:
    """The override ``report.ranges=…`` to type."""
    named = [typed({env: ["LOW", "HIGH"]}, "report.ranges")[1:-1] for env in envs]
    return shell_word(f"report.ranges={{{', '.join(named[:3] + ['…'] * (len(named) > 3))}}}")


def score_ranges(
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
            of_env = [s for s in series if s.env == env]
            runs = [s for s in of_env if not s.published] or of_env
            values = np.concatenate([c.y for s in runs for c in s.curves])
            low, high = float(values.min()), float(values.max())
            out[env] = (low, high if high > low else low + 1)
        return out
    limits = {env: settings.ranges.get(env, []) for env in envs}
    wrong = [env for env, own in limits.items() if len(own) != 2 or own[0] >= own[1]]
    if wrong:
        raise UsageError(
            f"report.normalize=ranges: no scores for 0 and 1 were given for {', '.join(wrong)}. "
            f"Type {limits_text(wrong)}, LOW below HIGH."
        )
    return {env: (own[0], own[1]) for env, own in limits.items()}


def normalized(scores: np.ndarray, limits: tuple[float, float]) -> np.ndarray:
    """Scores with ``limits`` at 0 and 1."""
    return (scores - limits[0]) / (limits[1] - limits[0])


def compare(analysis: Analysis) -> None:
    """Add the comparisons of configurations that have runs on every environment."""
    rng = np.random.default_rng(0)
    if analysis.ranges and len(analysis.ends) > 1:
        analysis.overall = [make_overall(label, analysis, rng) for label in analysis.complete]
    if analysis.complete and (len(analysis.ends) == 1 or analysis.ranges):
        add_profiles(analysis, rng)
    analysis.improvement = improvements(analysis, rng)


def make_overall(label: str, analysis: Analysis, rng: np.random.Generator) -> Overall:
    """One configuration over all environments."""
    own, ends, ranges = analysis.over_envs(label), analysis.ends, analysis.ranges
    scores = [normalized(s.finals, ranges[s.env]) for s in own]
    start = max(curve.x[0] / (ends[s.env] or 1) for s in own for curve in s.curves)
    x = np.linspace(min(start, 1), 1, POINTS)
    values = [np.array([c.at(x * ends[s.env]) for c in s.curves]) for s in own]
    curves = [normalized(v, ranges[s.env]) for v, s in zip(values, own, strict=True)]
    final, band = (make_interval(each, analysis.settings, rng) for each in (scores, curves))
    return Overall(label, scores, final, x, band)


def add_profiles(analysis: Analysis, rng: np.random.Generator) -> None:
    """Add performance profiles, of normalized scores if there are several environments."""
    settings = analysis.settings
    limits = analysis.ranges or dict.fromkeys(analysis.ends, (0.0, 1.0))
    scores = {
        label: [normalized(s.finals, limits[s.env]) for s in analysis.over_envs(label)]
        for label in analysis.complete
    }
    every = np.concatenate([task for tasks in scores.values() for task in tasks])
    low, high = (0.0, 1.0) if analysis.ranges else (every.min(), every.max())
    at = analysis.thresholds = np.linspace(min(low, every.min()), max(high, every.max()), 101)
    analysis.profiles = {
        label: statistics.performance_profile(
            tasks, at, resampled_runs(tasks, settings.resamples, rng), settings.confidence
        )
        for label, tasks in scores.items()
    }


def improvements(analysis: Analysis, rng: np.random.Generator) -> dict[tuple[str, str], Interval]:
    """Probabilities of improvement, the better on average first: for every pair of at most
    ``MANY`` configurations, of more for the best one (over all, on average) and each other.
    """
    settings, labels = analysis.settings, analysis.complete
    scores = {label: [s.finals for s in analysis.over_envs(label)] for label in labels}
    pairs: Iterable[tuple[str, str]] = itertools.combinations(labels, 2)
    if len(labels) > MANY:
        gain = statistics.improvement
        best = max(labels, key=lambda a: np.mean([gain(scores[a], scores[b]) for b in labels]))
        pairs = [(best, label) for label in labels if label != best]
    out = {}
    for a, b in pairs:
        x, y = scores[a], scores[b]
        runs_x, runs_y = (resampled_runs(s, settings.resamples, rng) for s in (x, y))
        result = statistics.probability_of_improvement(x, y, runs_x, runs_y, settings.confidence)
        if all(len(task) == 1 for task in (*x, *y)):
            result = without_interval(result)
        if result.value < 0.5:
            out[b, a] = Interval(1 - result.value, 1 - result.high, 1 - result.low)
        else:
            out[a, b] = result
    return out
