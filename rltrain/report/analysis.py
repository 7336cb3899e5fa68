"""From runs to everything that a report shows: which runs are compared, on which metric and up to
where, and what to warn of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from rltrain.common.metrics import CLOCK
from rltrain.config.schema import ReportSettings
from rltrain.errors import UsageError, closest, did_you_mean
from rltrain.logger.screen import plural
from rltrain.report.comparison import (
    MANY,
    Analysis,
    Series,
    compare,
    limits_text,
    make_interval,
    score_ranges,
)
from rltrain.report.run_data import AXES, Curve, Run, beside_runs, common, get_curve
from rltrain.report.run_groups import LONGEST, RunGroup, grouped, renaming

Warn = Callable[[str], None]
FEW = 5
"""Runs below which an interval says little."""
SHOWN = 5
"""Names that a warning lists."""


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
    runs = finished(runs, settings.unfinished, warnings.append)
    own = [run for run in runs if not run.source] or runs
    metric = common_metric(own) if settings.metric == "auto" else settings.metric
    curves = drawable(runs, metric, settings.axis, warnings.append)
    if not any(run.folder in curves for run in own):
        columns = [(run, name) for run in own for name in run.columns if name not in CLOCK]
        metrics = sorted({name for run, name in columns if len(run.series(name, settings.axis)[0])})
        wanted = metric.rpartition("/")[2]
        near = [name for name in metrics if wanted in name.rpartition("/")[2]]
        near = near or closest(metric, metrics) or closest(f"test/{metric}", metrics)
        typed = [f"report.metric={near[0]}"] if near else []
        if not metrics:
            others = (a for a in AXES if any(len(run.series(name, a)[0]) for run, name in columns))
            typed = [f"report.axis={axis}" for axis in others]
        damage = [f"{run.folder}: {problem}" for run in own for problem in run.problems]
        has = listed([f"{name:.{LONGEST}}" for name in metrics], 4 * SHOWN)
        raise UsageError(
            f"report.metric={metric}: none of the {len(own)} runs reports it over "
            f"{settings.axis}. They have {has or 'no metrics over it'}."
            + (f" Type {typed[0]}." if typed else "")
            + (f" {listed(damage)}." if damage else "")
        )
    kept = beside_runs(run for run in runs if run.folder in curves)
    groups = grouped(kept, settings.ignore, settings.rename)
    warnings += unmatched(settings, kept, [group.env for group in groups])
    ends = common_ends(groups, curves, settings.axis, warnings.append)
    at = {run.folder: ends[g.env] for g in groups for run in g.runs if not run.source}
    if late := [folder for folder, end in at.items() if not curves[folder].until(end).size]:
        named = listed([folder.name for folder in late])
        warnings.append(f"Without values up to where the shortest run ends, left out: {named}.")
        rest = [(g, [run for run in g.runs if run.folder not in late]) for g in groups]
        groups = [replace(group, runs=runs) for group, runs in rest if runs]
    warnings += few_and_twice(groups)
    series = [make_series(group, curves, ends[group.env], settings) for group in groups]
    ranges = score_ranges(series, metric, settings)
    analysis = Analysis(settings, metric, series, ends, ranges, warnings)
    warnings += unlike(analysis)
    if len(analysis.complete) > MANY:
        warnings.append(f"Of more than {MANY} configurations only the best is compared with each.")
    compare(analysis)
    return analysis


def common_metric(runs: Sequence[Run]) -> str:
    """The win rate if all runs have one, else the return. A run that has neither, such as one that
    just began, does not count.
    """
    scored = [run for run in runs if run.metric("win_rate") or run.metric("return_mean")]
    wins = bool(scored) and all(run.metric("win_rate") for run in scored)
    return "win_rate" if wins else "return_mean"


def listed(names: Sequence[str], shown: int = SHOWN) -> str:
    """The first names, and how many there are besides."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def counted(runs: Sequence[Run]) -> str:
    """``5 runs and 2 published results``."""
    published = sum(bool(run.source) for run in runs)
    counts = {"run": len(runs) - published, "published result": published}
    return " and ".join(plural(count, name) for name, count in counts.items() if count)


def finished(runs: Sequence[Run], every: bool, warn: Warn) -> list[Run]:
    """Finished runs, or all of them if that is wanted or there are no others."""
    n_runs = sum(not run.source for run in runs)
    if not (others := [run for run in runs if run.status != "finished"]):
        return list(runs)
    named = listed([f"{run.folder.name} ({run.status})" for run in others])
    if every or len(others) == n_runs:
        warn(f"{len(others)} of {n_runs} runs have not finished: {named}.")
        return list(runs)
    warn(
        f"{len(others)} of {n_runs} runs have not finished and are left out: {named}. With "
        "report.unfinished=true they are compared as far as they got."
    )
    return [run for run in runs if run.status == "finished"]


def drawable(runs: Sequence[Run], metric: str, axis: str, warn: Warn) -> dict[Path, Curve]:
    """The curves of the runs that have one, by folder."""
    columns = {run.folder: run.metric(metric) for run in runs}
    trained = [run for run in runs if (columns[run.folder] or "").startswith("train/")]
    if trained and len(trained) < len(runs) and "/" not in metric:
        named = ", ".join(sorted({run.method for run in trained}))
        warn(
            f"{counted(trained)} without tests ({named}): the curves show training "
            "episodes, with exploration."
        )
    found = {r.folder: get_curve(r, name, axis) for r in runs if (name := columns[r.folder])}
    curves = {folder: curve for folder, curve in found.items() if curve is not None}
    empty = [run for run in runs if run.folder not in curves]
    if empty and curves:
        named = listed([str(run.folder) if run.source else run.folder.name for run in empty])
        warn(f"{counted(empty)} without {metric} over {axis}, which are left out: {named}.")
    return curves


def unmatched(settings: ReportSettings, runs: Sequence[Run], envs: Sequence[str]) -> Iterator[str]:
    """Warnings of names in the settings of the report that no run has."""
    groups = grouped(runs, settings.ignore) if settings.rename else []
    places = [name for group in groups for name in (group.label, group.env)]
    old = [old for old, _ in map(renaming, settings.rename)]
    keys = list(dict.fromkeys(key for run in runs for key in (*run.choices, *run.settings)))
    ignored = [name for name in settings.ignore if not any(key.startswith(name) for key in keys)]
    for setting, what, names, known in (
        ("rename", "configuration or environment", old, places),
        ("ignore", "setting", ignored, keys),
        ("ranges", "environment", settings.ranges, envs),
    ):
        for name in names:
            if name not in known:
                yield f"report.{setting}: no {what} is named {name}.{did_you_mean(name, known)}"
    if settings.ranges and settings.normalize != "ranges":
        yield "report.ranges is used with report.normalize=ranges only."


def few_and_twice(groups: Sequence[RunGroup]) -> Iterator[str]:
    """Remarks on how many runs there are and on seeds that occur twice."""
    own = [group for group in groups if not group.published]
    if few := [f"{g.label} on {g.env} ({len(g.runs)})" for g in own if len(g.runs) < FEW]:
        yield (
            f"Fewer than {FEW} runs: {listed(few)}. Intervals over so few seeds are unreliable; "
            "add seeds before drawing conclusions."
        )
    twice = []
    for group in groups:
        seeds = [run.seed for run in group.runs if run.seed is not None]
        if same := sorted({seed for seed in seeds if seeds.count(seed) > 1}):
            twice.append(f"{group.label} on {group.env} (seed {', '.join(map(str, same))})")
    if twice:
        yield f"Several runs of one seed are counted as different runs: {listed(twice)}."


def common_ends(
    groups: Sequence[RunGroup], curves: Mapping[Path, Curve], axis: str, warn: Warn
) -> dict[str, float]:
    """Where the runs of each environment are compared: where the shortest ends."""
    out: dict[str, float] = {}
    for env in dict.fromkeys(group.env for group in groups):
        here = [g for g in groups if g.env == env]
        own = [g for g in here if not g.published] or here
        runs = [run for g in own for run in g.runs]
        ends = [curves[run.folder].end for run in runs]
        out[env] = end = min(ends)
        tests = {run.folder.name: curves[run.folder] for run in runs}
        if early := [name for name, c in tests.items() if end > 0 and c.before_training(end)]:
            warn(
                f"{env}: up to {end:,.0f} {axis.replace('_', ' ')}, where the runs are compared, "
                f"{listed(early)} had only the test before training. Leave such runs out, or train "
                "the others for longer."
            )
        if axis != "minutes" and max(ends) > 1.1 * end:
            first = runs[ends.index(end)]
            went_on = np.nanmax(first.columns[AXES[axis]]) > 1.1 * end
            why = "has no finite values after that, though it trained on" if went_on else "ends"
            warn(
                f"{env}: runs end between {end:,.0f} and {max(ends):,.0f} "
                f"{axis.replace('_', ' ')}. Final scores are those at {end:,.0f}: "
                f"{first.folder.name} {why}."
            )
    return out


def unlike(analysis: Analysis) -> Iterator[str]:
    """Warnings of what cannot be compared over all environments."""
    complete, ends = analysis.complete, analysis.ends
    own = dict.fromkeys(s.label for s in analysis.own)
    if not own:
        return
    if not complete:
        yield "No configuration has runs on all environments: nothing is compared over them."
        return
    if partial := [label for label in own if label not in complete]:
        yield (
            "Comparisons over all environments leave out configurations that have no runs on some "
            f"of them: {listed(partial)}."
        )
    if len(ends) > 1 and not analysis.ranges:
        yield (
            f"The returns of {len(ends)} environments are on different scales and are not "
            "averaged. Type report.normalize=min_max, or report.normalize=ranges with "
            f"{limits_text(ends)} for the returns that are to be 0 and 1."
        )


def make_series(
    group: RunGroup, curves: Mapping[Path, Curve], end: float, settings: ReportSettings
) -> Series:
    """The curve with its band, and the final scores, of one configuration. What is resampled does
    not depend on the other configurations, so that equal scores have equal intervals.
    """
    own = [curves[run.folder] for run in group.runs]
    x, values = common(own)
    finals = np.array([curve.final(end, settings.last_tests) for curve in own])
    band, final = (make_interval([v], settings, np.random.default_rng(0)) for v in (values, finals))
    return Series(group.label, group.env, group.runs, own, x, band, finals, final)
