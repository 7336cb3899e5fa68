"""The tables of a report: what is in them, and as text, CSV and LaTeX."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rltrain.errors import printable
from rltrain.logger.metric_files import csv_text
from rltrain.logger.screen import plural, shown
from rltrain.report.comparison import Analysis, Series
from rltrain.report.ratings import ratings_over_time
from rltrain.report.run_data import POINTS, Run
from rltrain.report.run_groups import text
from rltrain.report.statistics import Interval, iqm, mean, optimality_gap, task_weights

SHARES = (0.5, 0.75, 0.9)
"""Thresholds of sample efficiency, between the lowest start and the highest final score."""
DETAILS = ("std", "lowest", "highest", "mean over training", "mean", "IQM", "median")
"""Columns of tables that the terminal has no room for."""
SELF_PLAY = (
    "Bradley-Terry ratings of the agents while they trained, exploring, from their battles against "
    "greedy snapshots of their own past. The first snapshot has 0; 400 points mean ten wins for a "
    "loss. Ratings of different runs do not compare: they have no opponent in common."
)
"""The note of the table."""


@dataclass(frozen=True)
class Table:
    """A table. Cells are text, whole numbers, numbers, and estimates with their intervals.

    Attributes:
        name: of its files.
        note: what a reader has to know.
    """

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    note: str = ""

    @property
    def is_text(self) -> list[bool]:
        """Whether there is text in a column."""
        return [any(isinstance(row[i], str) for row in self.rows) for i in range(len(self.columns))]

    def texts(self) -> list[list[str]]:
        """The cells for display."""
        return [[cell_text(cell) for cell in row] for row in self.rows]


def cell_text(cell: object) -> str:
    """``12.3 [11.8, 12.9]``; an infinite number, which no run reached, is a dash."""
    if isinstance(cell, Interval):
        value, low, high = (cell_text(float(number)) for number in cell)
        return value if math.isnan(float(cell.low)) else f"{value} [{low}, {high}]"
    if isinstance(cell, float):
        if not math.isfinite(cell):
            return "–"
        digits = 0 if abs(cell) >= 1000 else 1 if abs(cell) >= 100 else 2 if abs(cell) >= 1 else 3
        return f"{cell:,.{digits}f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def list_tables(analysis: Analysis) -> list[Table]:
    """Every table that has rows."""
    return [table for kind in TABLES.values() if (table := kind(analysis)).rows]


def size_text(analysis: Analysis) -> str:
    """``30 runs of 3 configurations on 2 environments``."""
    own = analysis.own or analysis.series
    n_runs = sum(len(s.curves) for s in own)
    configurations = plural(len({s.label for s in own}), "configuration")
    envs = plural(len(analysis.ends), "environment")
    return f"{plural(n_runs, 'run')} of {configurations} on {envs}"


def metric_name(analysis: Analysis) -> str:
    """``win rate``; the return of ``test/return_mean`` is ``return``."""
    return analysis.metric.rpartition("/")[2].removesuffix("_mean").replace("_", " ")


def interval_name(analysis: Analysis) -> str:
    """``mean [95% interval]``."""
    statistic = "IQM" if analysis.settings.statistic == "iqm" else "mean"
    return f"{statistic} [{analysis.settings.confidence * 100:g}% interval]"


def final_scores(analysis: Analysis) -> Table:
    """Each configuration on each environment."""
    rows = [
        [
            s.env,
            s.label,
            len(s.curves),
            s.final,
            float(np.std(s.finals, ddof=1)) if len(s.finals) > 1 else np.nan,
            float(s.finals.min()),
            float(s.finals.max()),
            float(np.mean([curve.mean(analysis.ends[s.env]) for curve in s.curves])),
        ]
        for s in analysis.series
    ]
    last = analysis.settings.last_tests
    where = "; ".join(f"{env}: {end:,.0f}" for env, end in analysis.ends.items())
    return Table(
        "final_scores",
        f"Final scores: {metric_name(analysis)}",
        ["environment", "configuration", "runs", interval_name(analysis), *DETAILS[:4]],
        rows,
        f"Score of a run: {'its last value' if last == 1 else f'mean of its last {last} values'} "
        f"up to the end of the shortest run ({analysis.axis}: {where}). Of more "
        f"than {2 * POINTS} values, such as those of single episodes, {POINTS} means of neighbors "
        "count.",
    )


def overall(analysis: Analysis) -> Table:
    """Each configuration over all environments."""
    rows = []
    for o in analysis.overall:
        pooled, weights = np.concatenate(list(o.scores)), task_weights(o.scores)
        average, middle, gap = (f(pooled, weights) for f in (mean, iqm, optimality_gap))
        median = np.median([task.mean() for task in o.scores])
        rows.append([o.label, len(pooled), o.final, *map(float, (average, middle, median, gap))])
    ranges = analysis.ranges.items()
    limits = "; ".join(f"{env}: {low:g} and {high:g}" for env, (low, high) in ranges)
    return Table(
        "overall",
        "Over all environments, normalized",
        ["configuration", "runs", interval_name(analysis), *DETAILS[4:], "optimality gap"],
        rows,
        f"Scores that are 0 and 1: {limits}.",
    )


def improvement(analysis: Analysis) -> Table:
    """Each pair of configurations."""
    return Table(
        "improvement",
        "Probability of improvement",
        ["X", "Y", "P(X > Y)"],
        [[a, b, gain] for (a, b), gain in analysis.improvement.items()],
        "Probability that a run of X scores higher than a run of Y on the same environment, ties "
        "counting one half; an interval that contains 0.5 leaves open which is better.",
    )


def sample_efficiency(analysis: Analysis) -> Table:
    """How much training reaches given scores."""
    rows: list[list[object]] = []
    for env in analysis.ends:
        series = [s for s in analysis.own if s.env == env]
        start = min((float(s.band.value[0]) for s in series), default=0)
        best = max((float(s.final.value) for s in series), default=0)
        for score in (start + share * (best - start) for share in SHARES if best > start):
            for s in series:
                reached = np.sort([c.reaches(score, analysis.ends[env]) for c in s.curves])
                count = f"{np.isfinite(reached).sum()} of {len(reached)}"
                median = reached[(len(reached) - 1) // 2]  # of two, which may be infinite: one
                rows.append([env, s.label, score, count, position(float(median), analysis)])
    axis = analysis.axis
    return Table(
        "sample_efficiency",
        "Sample efficiency",
        ["environment", "configuration", "score", "runs that reach it", f"median {axis}"],
        rows,
        "Scores are 50, 75 and 90% of the way from the lowest start to the highest final score. "
        "A median is missing if fewer than half of the runs reach the score.",
    )


def position(value: float, analysis: Analysis) -> float | int:
    """A place on the axis of training: all but minutes are counted, and no run may reach it."""
    return round(value) if np.isfinite(value) and analysis.settings.axis != "minutes" else value


def configurations(analysis: Analysis) -> Table:
    """The settings in which configurations of one algorithm on one environment differ."""
    rows: list[Sequence[str]] = []
    methods = dict.fromkeys(s.method for s in analysis.own)
    for place in itertools.product(methods, analysis.ends):
        series = [s for s in analysis.own if (s.method, s.env) == place]
        chosen = [{**s.runs[0].choices, **s.runs[0].settings} for s in series]
        for name in sorted({name for settings in chosen for name in settings}):
            values = [text(settings.get(name)) for settings in chosen]
            if len(set(values)) > 1:
                rows += [[s.env, s.label, name, v] for s, v in zip(series, values, strict=True)]
    columns = ["environment", "configuration", "setting", "value"]
    return Table("configurations", "Settings that differ", columns, rows)


def self_play_runs(analysis: Analysis) -> Iterator[tuple[Series, Run, np.ndarray, Interval]]:
    """Every run of self-play with the env steps of its snapshots and its ratings."""
    for s in analysis.series:
        for run in s.runs:
            if (found := ratings_over_time(run.folder)) is not None:
                yield s, run, *found


def self_play(analysis: Analysis) -> Table:
    """Ratings over training time of the runs of self-play."""
    rows = [
        [s.env, s.label, "" if run.seed is None else run.seed, int(step), Interval(*rating)]
        for s, run, steps, ratings in self_play_runs(analysis)
        for step, *rating in zip(steps, *ratings, strict=True)
    ]
    columns = ("environment", "configuration", "seed", "env steps", "rating")
    return Table("self_play", "Self-play: ratings over training time", columns, rows, SELF_PLAY)


def published(analysis: Analysis) -> Table:
    """Published results and their sources."""
    rows = [
        [s.env, s.label, len(s.curves), position(s.curves[0].end, analysis), s.runs[0].source]
        for s in analysis.series
        if s.published
    ]
    columns = ["environment", "configuration", "runs", "env steps", "source"]
    note = "Dashed in the figures; not part of comparisons. Values are for this many env steps."
    return Table("published", "Published results", columns, rows, note)


def runs(analysis: Analysis) -> Table:
    """Every run."""
    rows = [
        [
            s.env,
            s.label,
            "" if run.seed is None else run.seed,
            run.status,
            float(score),
            position(curve.end, analysis),
            shown(run.folder),
        ]
        for s in analysis.series
        for run, curve, score in zip(s.runs, s.curves, s.finals, strict=True)
        if not run.source
    ]
    end = f"end ({analysis.axis})"
    columns = ["environment", "configuration", "seed", "status", "score", end, "folder"]
    return Table("runs", "Runs", columns, rows)


TABLES = {
    kind.__name__: kind
    for kind in (
        final_scores, overall, improvement, sample_efficiency, self_play, configurations, published,
        runs,
    )
}  # fmt: skip
"""Every table by its name, in their order on the page."""


def as_csv(table: Table) -> str:
    """The table with all digits, an estimate in three columns."""
    header: list[str] = []
    rows: list[list[object]] = [[] for _ in table.rows]
    for i, name in enumerate(table.columns):
        column = [row[i] for row in table.rows]
        wide = any(isinstance(cell, Interval) for cell in column)
        header += [name, f"{name} low", f"{name} high"] if wide else [name]
        for cells, cell in zip(rows, column, strict=True):
            if isinstance(cell, Interval):
                cells += map(float, cell)
            else:
                cells += [cell, "", ""] if wide else [cell]
    return csv_text([header, *rows])


WORDS = {
    **{"\\": "backslash", "~": "asciitilde", "^": "asciicircum"},
    **{"<": "less", ">": "greater", "|": "bar"},
}
SPECIAL = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {c: f"\\text{word}{{}}" for c, word in WORDS.items()}
    | {"–": "--"}
)
"""Characters as LaTeX shows them."""


def as_latex(table: Table) -> str:
    """The table for a paper, with booktabs; figures are aligned to the right."""
    rows = [
        [printable(cell).translate(SPECIAL) for cell in row]
        for row in (table.columns, *table.texts())
    ]
    header, *body = (" & ".join(row) + r" \\" for row in rows)
    lines = [
        "% \\usepackage{booktabs}",
        "\\begin{tabular}{" + "".join("l" if is_text else "r" for is_text in table.is_text) + "}",
        "\\toprule",
        header,
        "\\midrule",
        *body,
        "\\bottomrule",
        "\\end{tabular}",
    ]
    return "\n".join(lines) + "\n"
