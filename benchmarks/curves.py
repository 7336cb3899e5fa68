"""Learning curves of a group's kept runs, one panel per task: thin lines are seeds, thick lines
their mean, dashed lines published results.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.tasks import task
from rltrain.logger.curve import series

Runs = Mapping[str, list[dict[str, Any]]]
"""The lines of every run of one task, by seed."""
COLUMNS = 3
CLOCKS = {"env steps": ("env_steps", 1.0), "minutes": ("seconds", 60.0)}


def draw(path: Path, runs: Mapping[str, tuple[Runs, Runs]]) -> None:
    """Draw what tests measured over env steps and, below, over minutes.

    Args:
        path: of the picture.
        runs: ours and those of EPyMARL's own code, by the task's name.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter
    from PIL import Image

    n_rows, n_columns = ceil(len(runs) / COLUMNS), min(COLUMNS, len(runs))
    figure = Figure(figsize=(3.4 * n_columns, 4 * n_rows), layout="constrained")
    every_axes = figure.subplots(2 * n_rows, n_columns, squeeze=False)
    for k, (name, both) in enumerate(runs.items()):
        row, column = divmod(k, COLUMNS)
        metric, published = task(name).metric, task(name).published_range
        for below, clock in enumerate(CLOCKS):
            axes = every_axes[2 * row + below, column]
            for of, color, label in zip(both, ("C0", "C1"), ("rltrain", "EPyMARL"), strict=True):
                panel(axes, of, metric, clock, color, label)
            axes.set_ylim(limits(both, metric, published))
            if published is not None:
                mark(axes, *published)
            if clock == "env steps":
                axes.xaxis.set_major_formatter(EngFormatter(sep=""))
            axes.locator_params(axis="x", nbins=5)
            axes.set_xlabel(clock, fontsize=8)
            axes.set_ylabel(metric.partition("/")[2].replace("_", " "), fontsize=8)
            axes.tick_params(labelsize=7)
            axes.grid(alpha=0.3)
        every_axes[2 * row, column].set_title(name, fontsize=9)
        if both[1]:
            every_axes[2 * row, column].legend(fontsize=7)
    for axes in every_axes.flat:
        axes.set_visible(bool(axes.lines))
    path.parent.mkdir(parents=True, exist_ok=True)
    drawn = BytesIO()
    figure.savefig(drawn, dpi=100)
    Image.open(drawn).convert("RGB").quantize(64).save(path, optimize=True)  # a third of the bytes


def panel(axes: Any, runs: Runs, metric: str, clock: str, color: str, label: str) -> None:
    """The curves of all seeds over one clock, and their mean as far as the shortest one reaches;
    runs without times are left out.
    """
    column, unit = CLOCKS[clock]
    curves = []
    for lines in runs.values():
        points = [line for line in lines[1:] if metric in line and column in line]
        if points:
            x = np.array([line[column] for line in points]) / unit
            curves.append((x, series(points, metric)[1]))
    if not curves:
        return
    for x, y in curves:
        axes.plot(x, y, color=color, linewidth=0.8, alpha=0.5 if len(curves) > 1 else 1)
    x = np.unique(np.concatenate([x for x, _ in curves]))
    x = x[(x >= max(x[0] for x, _ in curves)) & (x <= min(x[-1] for x, _ in curves))]
    mean = np.mean([np.interp(x, *curve) for curve in curves], axis=0)
    axes.plot(x, mean, color=color, linewidth=1.8 if len(curves) > 1 else 0.8, label=label)


def limits(
    both: tuple[Runs, Runs], metric: str, published: tuple[float, float] | None
) -> tuple[float, float]:
    """What the vertical axis shows: every value but each run's first, which would take most of it
    on some tasks, and the level of a published result.
    """
    if metric.endswith("win_rate"):
        return -0.03, 1.03
    curves = [series(lines[1:], metric)[1] for runs in both for lines in runs.values()]
    values = [value for curve in curves for value in curve[1:]]
    values += [] if published is None else [sum(published) / 2]
    low, high = min(values), max(values)
    margin = 0.05 * (high - low) or 1.0
    return low - margin, high + margin


def mark(axes: Any, low: float, high: float) -> None:
    """Draw a published result and its deviation."""
    axes.axhspan(low, high, color="gray", alpha=0.15, linewidth=0)
    axes.axhline((low + high) / 2, color="gray", linestyle="--", linewidth=1, zorder=1)
