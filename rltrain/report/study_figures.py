"""Figures of a hyperparameter search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from rltrain.report.figures import COLORS, STYLE, WIDTH, new_figure


def draw_history(path: Path, scores: Sequence[tuple[int, float]], mode: str) -> None:
    """The score of every trial, and the best so far."""
    import matplotlib

    numbers, values = np.array(scores, float).T
    best = np.maximum.accumulate(values) if mode == "max" else np.minimum.accumulate(values)
    with matplotlib.rc_context(STYLE):
        figure = new_figure(0.7 * WIDTH, 2.3)
        axes = figure.subplots()
        axes.plot(numbers, values, "o", color=COLORS[7], ms=3, label="trial")
        axes.step(numbers, best, where="post", color=COLORS[0], label="best so far")
        axes.set_xlabel("trial")
        axes.set_ylabel("score")
        axes.legend(frameon=False)
        figure.savefig(path)


def draw_importance(path: Path, importance: Mapping[str, float]) -> None:
    """How much each key matters."""
    import matplotlib

    names = list(importance)[::-1]
    with matplotlib.rc_context(STYLE):
        figure = new_figure(0.85 * WIDTH, 0.55 + 0.2 * len(names))
        axes = figure.subplots()
        axes.barh(names, [importance[name] for name in names], color=COLORS[0], height=0.6)
        axes.set_xlabel("importance")
        axes.grid(axis="y", visible=False)
        figure.savefig(path)
