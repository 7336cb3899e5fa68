"""Which runs a report compares, on which metric and up to where, and what to warn of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from rltrain.config.schema import ReportSettings
from rltrain.logger.screen import plural
from rltrain.report.run_data import CLOCK, Run
from rltrain.report.run_groups import RunGroup
from rltrain.report.scores import Curve, curve_of

Warn = Callable[[str], None]
FEW = 5
"""Runs below which an interval says little."""
SHOWN = 5
"""Names that a warning lists."""


def listed(names: Sequence[str]) -> str:
    """The first names, and how many there are besides."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def finished(runs: Sequence[Run], every: bool, warn: Warn) -> Iterator[Run]:
    """Finished runs, or all of them if that is wanted or there are no others."""
    others = [run for run in runs if run.status != "finished"]
    named = listed([f"{run.folder.name} ({run.status})" for run in others])
    if not others or every or len(others) == len(runs):
        if others:
            warn(f"{len(others)} of {len(runs)} runs have not finished: {named}.")
        yield from runs
        return
    warn(
        f"{len(others)} of {len(runs)} runs have not finished and are left out: {named}. With "
        "report.unfinished=true they are compared as far as they got."
    )
    yield from (run for run in runs if run.status == "finished")


def chosen_metric(runs: Sequence[Run], typed: str) -> str:
    """The metric that is compared: ``auto`` is the win rate if every run has one."""
    if typed != "auto":
        return typed
    return "win_rate" if all(run.metric("win_rate") for run in runs) else "return_mean"


def drawable(
    runs: Sequence[Run], metric: str, axis: str, warn: Warn
) -> Iterator[tuple[Path, Curve]]:
    """The curves of the runs that have one, by folder."""
    columns = {run.folder: run.metric(metric) for run in runs}
    trained = [run for run in runs if (columns[run.folder] or "").startswith("train/")]
    if trained and len(trained) < len(runs) and "/" not in metric:
        named = ", ".join(sorted({run.method for run in trained}))
        warn(
            f"{plural(len(trained), 'run')} without tests ({named}): the curves are of training "
            "episodes, with exploration."
        )
    empty = []
    for run in runs:
        column = columns[run.folder]
        curve = curve_of(run, column, axis) if column else None
        if curve is None:
            empty.append(run.folder.name)
        else:
            yield run.folder, curve
    if empty and len(empty) < len(runs):
        without = f"{plural(len(empty), 'run')} without {metric} over {axis}"
        warn(f"{without}, which are left out: {listed(empty)}.")


def nothing(runs: Sequence[Run], metric: str, settings: ReportSettings) -> str:
    """The message where no run has the metric."""
    metrics = sorted({name for run in runs for name in run.columns if name not in CLOCK})
    return (
        f"report.metric={metric}: none of the {len(runs)} runs reports it over {settings.axis}. "
        f"They have {', '.join(metrics) if metrics else 'no metrics at all'}."
    )


def few_and_twice(groups: Sequence[RunGroup]) -> Iterator[str]:
    """Remarks on how many runs there are and on seeds that occur twice."""
    few = [f"{g.label} on {g.env} ({len(g.runs)})" for g in groups if len(g.runs) < FEW]
    if few:
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


def ends_of(
    groups: Sequence[RunGroup],
    curves: Mapping[Path, Curve],
    axis: str,
    warn: Warn,
) -> dict[str, float]:
    """Where the runs of each environment are compared: where the shortest ends."""
    out: dict[str, float] = {}
    for env in dict.fromkeys(group.env for group in groups):
        ends = [curves[run.folder].end for g in groups if g.env == env for run in g.runs]
        out[env] = min(ends)
        if axis != "minutes" and max(ends) > 1.1 * min(ends):
            warn(
                f"{env}: runs end between {min(ends):,.0f} and {max(ends):,.0f} {axis}. Final "
                f"scores are those at {min(ends):,.0f}, where the shortest ends."
            )
    return out
