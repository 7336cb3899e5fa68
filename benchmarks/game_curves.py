"""Compare win rates of kept SMACv2 runs with learning curves in the game: a table and a figure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.kept import DATA, kept
from benchmarks.tasks import TASKS
from rltrain.logger.curve import series

GAME = DATA / "smacv2_game.json"
STEPS = (500_000, 1_000_000, 1_500_000, 2_000_000)
NEAR = 100_000
"""A run's win rate at a step is the mean of its tests within this many env steps."""
METRIC = "test/win_rate"
Curves = Sequence[tuple[np.ndarray, np.ndarray]]
"""A pair (env steps, win rates) per seed."""


def of_game() -> dict[str, Curves]:
    """QMIX's curves in StarCraft II, by scenario."""
    scenarios = json.loads(GAME.read_text(encoding="utf-8"))["scenarios"]
    return {
        name: [arrays(zip(*run, strict=True)) for run in runs] for name, runs in scenarios.items()
    }


def ours() -> dict[str, Curves]:
    """The curves of the kept runs by scenario, without those in an environment of one's own."""
    out = {}
    for name, each in TASKS["smacv2"].items():
        words = dict(word.split("=", 1) for word in each.overrides.split())
        runs = kept(name, METRIC)
        if runs and "env._target_" not in words:
            curves = [arrays(series(lines[1:], METRIC)) for lines in runs.values()]
            out[words["env.map_name"]] = curves
    return out


def arrays(both: Any) -> tuple[np.ndarray, np.ndarray]:
    x, y = both
    return np.array(x, float), np.array(y, float)


def compared() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """By scenario our win rates and the game's at ``STEPS`` [4], means over seeds; NaN beyond the
    end of our runs.
    """
    game = of_game()
    out = {}
    for name, curves in ours().items():
        near = [[y[abs(x - step) <= NEAR] for step in STEPS] for x, y in curves]
        here = [[each.mean() if len(each) else np.nan for each in seed] for seed in near]
        there = [np.interp(STEPS, *curve) for curve in game[name]]
        out[name] = np.mean(here, axis=0), np.mean(there, axis=0)
    return out


def lines_of(both: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> Iterator[str]:
    """A Markdown table, the mean differences and the rank correlation at the last step."""
    steps = [f"{step / 1e6:g} M" for step in STEPS]
    cells = [f"{step} | game" for step in steps]
    yield f"| scenario | {' | '.join(cells)} |"
    yield f"|{' --- |' * (1 + 2 * len(steps))}"
    for name, pair in both.items():
        values = (f"{100 * x:.0f}" if np.isfinite(x) else "" for x in np.stack(pair, 1).flat)
        yield f"| {name} | {' | '.join(values)} |"
    here, there = (np.array(each) for each in zip(*both.values(), strict=True))
    gaps = 100 * (here - there)
    said = [
        f"In percent. Over {len(both)} scenarios and these steps they differ by "
        f"{np.nanmean(abs(gaps)):.1f} points on average (rltrain's minus the game's: "
        f"{np.nanmean(gaps):+.1f}), by {np.nanmax(abs(gaps)):.0f} at most."
    ]
    done = np.isfinite(here[:, -1])
    if done.sum() > 2:
        rho = rank_correlation(here[done, -1], there[done, -1])
        said.append(
            f"Spearman's rank correlation of {done.sum()} scenarios at {steps[-1]}: {rho:.2f}."
        )
    yield ""
    yield " ".join(said)


def rank_correlation(x: np.ndarray, y: np.ndarray) -> float:
    """Spearman's: that of the ranks, equal values having the mean of theirs."""
    return float(np.corrcoef(ranks(x), ranks(y))[0, 1])


def ranks(x: np.ndarray) -> np.ndarray:
    """How many values are smaller, of the equal ones half."""
    return (x[:, None] > x).sum(1) + 0.5 * (x[:, None] == x).sum(1)


def draw_beside_game(path: Path) -> None:
    """Draw one panel per scenario of ours: means over seeds, and bands from the lowest to the
    highest.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter

    runs, game = ours(), of_game()
    if not runs:
        return
    n_rows = -(-len(runs) // 3)
    figure = Figure(figsize=(10.2, 2.6 * n_rows), layout="constrained")
    grid = figure.subplots(n_rows, 3, squeeze=False, sharey=True)
    for axes, name in zip(grid.flat, runs, strict=False):
        for curves, color, dashes, label in (
            (runs[name], "C0", "-", "rltrain"),
            (game[name], "0.4", "--", "StarCraft II"),
        ):
            low, high = max(x[0] for x, _ in curves), min(x[-1] for x, _ in curves)
            x = np.linspace(low, min(high, STEPS[-1]), 41)
            y = np.array([np.interp(x, *smoothed(*curve)) for curve in curves])
            count = f"{label}, {len(curves)} seed{'s' * (len(curves) > 1)}"
            axes.plot(x, y.mean(0), color=color, linestyle=dashes, label=count)
            axes.fill_between(x, y.min(0), y.max(0), color=color, alpha=0.2, linewidth=0)
        axes.set_title(name, fontsize=9)
        axes.set_ylim(-0.03, 1.03)
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.tick_params(labelsize=7)
        axes.set_xlabel("env steps", fontsize=8)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)
    for axes in grid.flat[len(runs) :]:
        axes.set_visible(False)
    for axes in grid[:, 0]:
        axes.set_ylabel("win rate", fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)


def smoothed(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """At every test the mean of those within ``NEAR``; the points of the game are such means."""
    return x, np.array([y[abs(x - at) <= NEAR].mean() for at in x])
