"""Learning curves of the kept runs of a group, one panel per task, thin lines its seeds, dashed
published results.
"""

from __future__ import annotations

from collections.abc import Mapping
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

    n_rows, n_columns = ceil(len(runs) / COLUMNS), min(COLUMNS, len(runs))
    figure = Figure(figsize=(3.2 * n_columns, 3.6 * n_rows), layout="constrained")
    every_axes = figure.subplots(2 * n_rows, n_columns, squeeze=False)
    for k, (name, both) in enumerate(runs.items()):
        row, column = divmod(k, COLUMNS)
        metric, published = task(name).metric, task(name).published_range
        for below, clock in enumerate(CLOCKS):
            axes = every_axes[2 * row + below, column]
            for of, color, label in zip(both, ("C0", "C1"), ("rltrain", "EPyMARL"), strict=True):
                panel(axes, of, metric, clock, color, label)
            if published is not None:
                mark(axes, *published)
            if clock == "env steps":
                axes.xaxis.set_major_formatter(EngFormatter(sep=""))
            axes.locator_params(axis="x", nbins=5)
            axes.set_xlabel(clock, fontsize=8)
            axes.set_ylabel(metric.removeprefix("test/").replace("_", " "), fontsize=8)
            axes.tick_params(labelsize=7)
            axes.grid(alpha=0.3)
        every_axes[2 * row, column].set_title(name, fontsize=9)
        if both[1]:
            every_axes[2 * row, column].legend(fontsize=7)
    for axes in every_axes.flat:
        axes.set_visible(bool(axes.lines))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=80, metadata={"Software": None})


def panel(axes: Any, runs: Runs, metric: str, clock: str, color: str, label: str) -> None:
    """The tests of all seeds over one clock; runs without times are left out."""
    column, unit = CLOCKS[clock]
    for k, lines in enumerate(runs.values()):
        tests = [line for line in lines[1:] if metric in line and column in line]
        if tests:
            y = series(tests, metric)[1]
            x = np.array([line[column] for line in tests]) / unit
            axes.plot(x, y, color=color, linewidth=1, alpha=0.8, label=None if k else label)
    if metric.endswith("win_rate") and axes.lines:
        axes.set_ylim(-0.03, 1.03)


def mark(axes: Any, low: float, high: float) -> None:
    """Draw a published result and its deviation where they lie among the tests."""
    seen = axes.get_ylim()
    axes.axhspan(low, high, color="gray", alpha=0.15, linewidth=0)
    axes.axhline((low + high) / 2, color="gray", linestyle="--", linewidth=1)
    axes.set_ylim(seen)
