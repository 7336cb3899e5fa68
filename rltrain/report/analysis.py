"""From runs to everything that a report shows: curves, final scores, comparisons, warnings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rltrain.config.schema import ReportSettings
from rltrain.errors import UsageError
from rltrain.report.comparison import (
    MANY,
    Overall,
    Profiles,
    Series,
    improvements,
    interval_of,
    limits_text,
    overall_of,
    profiles_of,
    ranges_of,
)
from rltrain.report.run_data import Run
from rltrain.report.run_groups import RunGroup, grouped
from rltrain.report.scores import Curve, common
from rltrain.report.selection import (
    chosen_metric,
    drawable,
    ends_of,
    few_and_twice,
    finished,
    listed,
    nothing,
)
from rltrain.report.statistics import Interval


@dataclass(frozen=True)
class Analysis:
    """The contents of a report.

    Attributes:
        ends: by environment, where its runs are compared: the end of its shortest run.
        ranges: by environment, what is 0 and what is 1 after normalization; empty if it is not.
        overall: configurations with runs on every environment; empty for one environment, and
            without normalization.
        improvement: for two labels the probability that the first scores higher.
    """

    settings: ReportSettings
    metric: str
    series: Sequence[Series]
    ends: dict[str, float]
    ranges: dict[str, tuple[float, float]]
    overall: Sequence[Overall]
    profiles: Profiles
    improvement: Mapping[tuple[str, str], Interval]
    warnings: Sequence[str]

    @property
    def labels(self) -> list[str]:
        return list(dict.fromkeys(s.label for s in self.series))

    @property
    def envs(self) -> list[str]:
        return list(self.ends)

    def of(self, env: str) -> list[Series]:
        return [s for s in self.series if s.env == env]


def analyze(
    runs: Sequence[Run], settings: ReportSettings, problems: Sequence[str] = ()
) -> Analysis:
    """Compare runs.

    Args:
        problems: what is to be warned of besides.

    Raises:
        UsageError: nothing to compare, or ranges that are missing.
    """
    warnings = [f"{problem}." for problem in problems]
    warnings += [f"{run.folder}: {problem}." for run in runs for problem in run.problems]
    runs = list(finished(runs, settings.unfinished, warnings.append))
    metric = chosen_metric(runs, settings.metric)
    curves = dict(drawable(runs, metric, settings.axis, warnings.append))
    kept = [run for run in runs if run.folder in curves]
    if not kept:
        raise UsageError(nothing(runs, metric, settings))
    groups = grouped(kept, settings.ignore, settings.rename)
    warnings += few_and_twice(groups)
    ends = ends_of(groups, curves, settings.axis, warnings.append)
    series = [series_of(group, curves, ends[group.env], settings) for group in groups]
    ranges = ranges_of(series, metric, settings)
    warnings += unlike(series, ends, ranges)
    labels = everywhere(series, ends)
    if len(labels) > MANY:
        warnings.append(f"Of more than {MANY} configurations only the best is compared with each.")
    rng = np.random.default_rng(0)
    facts = (series, labels, ends, ranges, settings, rng)
    return Analysis(
        settings=settings,
        metric=metric,
        series=series,
        ends=ends,
        ranges=ranges,
        overall=overall_of(*facts) if ranges and len(ends) > 1 else [],
        profiles=profiles_of(*facts),
        improvement=improvements(series, labels, settings, rng),
        warnings=warnings,
    )


def everywhere(series: Sequence[Series], ends: Mapping[str, float]) -> list[str]:
    """Configurations with runs on every environment."""
    envs: dict[str, set[str]] = {}
    for s in series:
        envs.setdefault(s.label, set()).add(s.env)
    return [label for label, labels in envs.items() if labels == set(ends)]


def unlike(
    series: Sequence[Series],
    ends: Mapping[str, float],
    ranges: Mapping[str, tuple[float, float]],
) -> list[str]:
    """Warnings of what cannot be compared over all environments."""
    out = []
    complete = everywhere(series, ends)
    if not complete:
        return ["No configuration has runs on all environments: nothing is compared over them."]
    if partial := list(dict.fromkeys(s.label for s in series if s.label not in complete)):
        out.append(
            "Comparisons over all environments leave out configurations that have no runs on some "
            f"of them: {listed(partial)}."
        )
    if len(ends) > 1 and not ranges:
        out.append(
            f"The returns of {len(ends)} environments are on different scales and are not "
            "averaged. Type report.normalize=min_max, or report.normalize=ranges with "
            f"report.ranges={{{limits_text(ends)}}} for the returns that are to be 0 and 1."
        )
    return out


def series_of(
    group: RunGroup,
    curves: Mapping[Path, Curve],
    end: float,
    settings: ReportSettings,
) -> Series:
    """The curve with its band, and the final scores, of one configuration. What is resampled does
    not depend on the other configurations, so that equal scores have equal intervals.
    """
    own = [curves[run.folder] for run in group.runs]
    x, values = common(own)
    finals = np.array([curve.final(end, settings.last_tests) for curve in own])
    return Series(
        group=group,
        curves=own,
        x=x,
        band=interval_of([values], settings, np.random.default_rng(0)),
        finals=finals,
        final=interval_of([finals], settings, np.random.default_rng(0)),
    )
