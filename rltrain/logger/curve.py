"""``metrics.jsonl`` read back: as rows, as arrays, and drawn as ``learning_curve.png``."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rltrain.common.files import JsonObject, replacing
from rltrain.common.metrics import COUNTS, METRICS
from rltrain.logger.metric_files import read_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Series = tuple[list[int], list[float]]
"""Env steps and values."""
MOST_PANELS = 6
MARKED = 30  # points of a line, at most, that are marked
DRAWN = ("env_steps", "test/", "train/", "custom/")
"""How names that ``panels`` reads begin."""


def series(lines: Iterable[Mapping[str, Any]], name: str) -> Series:
    """Env steps and values of one metric."""
    points = [(r["env_steps"], r[name]) for r in lines if r.get(name) is not None]
    return [x for x, _ in points], [y for _, y in points]


def history(path: Path) -> dict[str, np.ndarray]:
    """Every metric of a ``metrics.jsonl`` as an array, with ``env_steps`` and the rest of the
    clock; lines of one env step are one row, and a row without a metric has NaN there.
    """
    merged: dict[int, JsonObject] = {}
    for row in read_rows(path):
        merged.setdefault(row["env_steps"], {}).update(row)
    names = dict.fromkeys(name for row in merged.values() for name in row)
    columns = {name: [row.get(name) for row in merged.values()] for name in names}
    return {
        name: np.array(column, np.int64 if name in COUNTS and None not in column else np.float64)
        for name, column in columns.items()
    }


class Panel(NamedTuple):
    """One pair of axes: a metric of tests and the same one of training, either may be empty."""

    label: str
    test: Series
    train: Series
    std: Series = ([], [])  # of the test episodes


def panels(lines: Sequence[Mapping[str, object]]) -> list[Panel]:
    """The metrics that are drawn: returns, win rates where there are any, and those that the
    environment and callbacks add (``test/NAME``, ``train/NAME`` or ``custom/NAME``).
    """
    added = dict.fromkeys(name for row in lines for name in row if name not in METRICS)
    of_episodes = (n.partition("/")[2] for n in added if n.startswith(("test/", "train/")))
    names = ["return_mean", "win_rate", *dict.fromkeys(of_episodes)]
    drawn = [
        Panel(
            name.removesuffix("_mean").replace("_", " "),
            series(lines, f"test/{name}"),
            series(lines, f"train/{name}"),
            series(lines, f"test/{name.removesuffix('_mean')}_std"),
        )
        for name in names
    ]
    drawn += [
        Panel(name.removeprefix("custom/").replace("_", " "), ([], []), series(lines, name))
        for name in added
        if name.startswith("custom/")
    ]
    shown = [panel for panel in drawn[1:] if panel.test[0] or panel.train[0]]
    return [drawn[0], *shown][:MOST_PANELS]


def draw(run_dir: Path, title: str) -> None:
    """Draw the curves of one run into its folder."""
    lines = [drawn(row) for row in read_rows(run_dir / "metrics.jsonl")]
    save(run_dir / "learning_curve.png", lines, title)


def drawn(row: Mapping[str, object]) -> JsonObject:
    """The part of a row that may be drawn, a tenth of its memory: a long run has thousands."""
    return {sys.intern(name): row[name] for name in row if name.startswith(DRAWN)}


def save(path: Path, lines: Sequence[Mapping[str, object]], title: str) -> None:
    """Draw the curves of some rows of metrics."""
    save_figure(make_figure(lines, title), path, dpi=120)
    gc.collect()  # a figure is a megabyte of reference cycles, which a run seldom looks for


def save_figure(figure: Figure, path: Path, **options: Any) -> None:
    """Write a figure in the format that the path ends with, atomically; errors as ``replacing``."""
    image = BytesIO()  # writing a PDF itself, matplotlib hides that a disk is full
    figure.savefig(image, format=path.suffix[1:], **options)
    with replacing(path) as temporary:
        temporary.write_bytes(image.getvalue())


def new_figure(width: float, height: float) -> Figure:
    """An empty figure with a canvas that needs no display; matplotlib is imported only now."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def make_figure(lines: Sequence[Mapping[str, object]], title: str) -> Figure:
    """The curves as a figure."""
    from matplotlib.ticker import EngFormatter

    shown = panels(lines)
    figure = new_figure(7.0, 1.2 + 2.2 * len(shown))
    every_axes = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
    for axes, panel in zip(every_axes, shown, strict=True):
        draw_panel(axes, panel)
    shapes = [shape for axes in every_axes for shape in axes.get_legend_handles_labels()[0]]
    if handles := {shape.get_label(): shape for shape in shapes}:
        figure.legend(
            handles=list(handles.values()), loc="outside lower center", ncols=3, frameon=False
        )
    every_axes[0].set_title(title, fontsize=10)
    every_axes[-1].set_xlabel("environment steps")
    every_axes[-1].xaxis.set_major_formatter(EngFormatter(sep=""))
    return figure


def draw_panel(axes: Axes, panel: Panel) -> None:
    """One metric; few points are marked, so that even one is seen."""
    lines = ((panel.train, "0.65", 1.0, "training"), (panel.test, "C0", 1.8, "greedy test"))
    for (x, y), color, width, label in lines:
        if x:
            marker = "o" if len(x) <= MARKED else None
            axes.plot(x, y, color=color, lw=width, label=label, marker=marker, markersize=3.5)
    (x, mean), (_, std) = panel.test, panel.std
    if len(std) == len(mean) > 0:
        low, high = np.subtract(mean, std), np.add(mean, std)
        axes.fill_between(x, low, high, color="C0", alpha=0.15, linewidth=0, label="± std")
    axes.set_ylabel(panel.label)
    axes.grid(alpha=0.3)
    if panel.label == "win rate":
        axes.set_ylim(-0.03, 1.03)
