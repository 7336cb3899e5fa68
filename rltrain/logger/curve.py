"""``metrics.jsonl`` read back: as rows, as arrays, and drawn as ``learning_curve.png``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

COUNTS = ("env_steps", "updates", "episodes")
"""Whole numbers that every row has."""


def rows(path: Path) -> list[dict[str, Any]]:
    """The lines of a ``metrics.jsonl``; a half-written last line is left out."""
    out = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            out.append(json.loads(line))
        except ValueError:
            continue
    return out


def series(lines: Iterable[dict[str, Any]], name: str) -> tuple[list[int], list[float]]:
    """Env steps and values of one metric."""
    points = [(r["env_steps"], r[name]) for r in lines if r.get(name) is not None]
    return [x for x, _ in points], [y for _, y in points]


def history(path: Path) -> dict[str, np.ndarray]:
    """Every metric of a ``metrics.jsonl`` as an array, with ``env_steps`` and the rest of the
    clock; lines of one env step are one row, and a row without a metric has NaN there.
    """
    merged: dict[int, dict[str, Any]] = {}
    for row in rows(path):
        merged.setdefault(row["env_steps"], {}).update(row)
    names = dict.fromkeys(name for row in merged.values() for name in row)
    columns = {name: [row.get(name) for row in merged.values()] for name in names}
    return {
        name: np.array(column, np.int64 if name in COUNTS else np.float64)
        for name, column in columns.items()
    }


def draw(run_dir: Path, title: str) -> Path:
    """Draw the curves of one run into its folder; matplotlib is imported here and nowhere
    earlier.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter

    lines = rows(run_dir / "metrics.jsonl")
    wins = series(lines, "test/win_rate")
    figure = Figure(figsize=(7.0, 5.2 if wins[0] else 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(2 if wins[0] else 1, 1, sharex=True, squeeze=False)[:, 0]
    names = [("test/return_mean", "train/return_mean", "return")]
    if wins[0]:
        names.append(("test/win_rate", "train/win_rate", "win rate"))
    for axes, (test, train, label) in zip(panels, names, strict=True):
        axes.plot(*series(lines, train), color="0.75", linewidth=1, label="while exploring")
        axes.plot(*series(lines, test), color="C0", linewidth=1.8, label="greedy test")
        axes.set_ylabel(label)
        axes.grid(alpha=0.3)
        if label == "win rate":
            axes.set_ylim(-0.03, 1.03)
    panels[0].legend(frameon=False, loc="lower right")
    panels[0].set_title(title, fontsize=10)
    panels[-1].set_xlabel("environment steps")
    panels[-1].xaxis.set_major_formatter(EngFormatter(sep=""))
    path = run_dir / "learning_curve.png"
    temporary = path.with_name(".learning_curve.png")
    figure.savefig(temporary, dpi=120, format="png")
    temporary.replace(path)
    return path
