"""Figures of reports and searches with matplotlib, for papers, readable without colors."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rltrain.logger.curve import new_figure, save_figure
from rltrain.report.comparison import Analysis
from rltrain.report.report_tables import metric_name, self_play_runs
from rltrain.report.statistics import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F3C8D", "#6B6B6B")
"""Told apart with every kind of color vision (Okabe and Ito, without yellow and black)."""
DASHES = ("-", "--", "-.", ":")
FORMATS = ("png", "svg", "pdf")
DATES = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
"""Metadata that would make every file another one."""
HANDLE, GAP = 2.8, 1.6
"""Legend widths in font sizes: a line with the space behind it, and the gap between columns."""
WIDTH = 5.5  # inches, the text width of usual conference styles
LABEL = 45  # characters of a line of a label
STYLE: Any = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7.5,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.4,
    "pdf.fonttype": 42,  # text stays text, as publishers want it
    "svg.fonttype": "none",
    "text.parse_math": False,  # a name with $ in it is not a formula
    "svg.hashsalt": "rltrain",
    "figure.dpi": 100,
    "savefig.dpi": 200,
}


def line_style(labels: Sequence[str], label: str, published: bool = False) -> dict[str, Any]:
    """Color and dashes of a configuration, the same in all figures."""
    i = labels.index(label)
    dashes = "--" if published else DASHES[i // len(COLORS) % len(DASHES)]
    return {"color": COLORS[i % len(COLORS)], "linestyle": dashes}


def draw_all(analysis: Analysis, folder: Path) -> list[Path]:
    """Draw every figure that there is something for, in three formats; returns their paths."""
    import matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    wanted: dict[Callable[[Analysis], Figure], object] = {
        curves: True,
        overall: analysis.overall,
        final_scores: True,
        profile: len(analysis.profiles) > 1,
        improvement: analysis.improvement,
        self_play: any(True for _ in self_play_runs(analysis)),
    }
    out = []
    with matplotlib.rc_context(STYLE):
        for draw in (draw for draw, content in wanted.items() if content):
            figure = draw(analysis)
            figure.draw_without_rendering()
            figure.set_layout_engine("none")  # once is enough for all formats
            for form in FORMATS:
                out.append(folder / f"{draw.__name__}.{form}")
                save_figure(figure, out[-1], metadata=DATES.get(form))
    return out


def bands(
    analysis: Analysis, rows: Iterable[tuple[str, np.ndarray, Interval]], x: str, y: str
) -> Figure:
    """One pair of axes, with a line and its interval for each label, places and values."""
    figure = figure_with_legend(analysis, 0.7 * WIDTH, 2.1)
    axes = figure.subplots()
    for label, at, estimate in rows:
        band(axes, at, estimate, **line_style(analysis.labels, label))
    axes.set(xlabel=x, ylabel=y)
    return figure


def curves(analysis: Analysis) -> Figure:
    """One pair of axes per environment: the statistic over runs and its interval. A published curve
    ends where the runs do.
    """
    from matplotlib.ticker import EngFormatter, MaxNLocator

    columns = min(3, len(analysis.ends))
    rows = math.ceil(len(analysis.ends) / columns)
    figure = figure_with_legend(analysis, WIDTH if columns > 1 else 0.7 * WIDTH, rows * 2.1)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes, env in zip(grid.flat, analysis.ends, strict=False):
        own = [s for s in analysis.of(env) if not s.published]
        end = max((s.x[-1] for s in own), default=math.inf)
        for s in analysis.of(env):
            style, shown = line_style(analysis.labels, s.label, s.published), s.x <= end
            if s.published and len(s.x) == 1:
                axes.axhline(s.band.value[0], **style)
            else:
                band(axes, s.x[shown], Interval(*(part[shown] for part in s.band)), **style)
        axes.set(title=env, xlabel=analysis.axis)
        axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))  # 20k, 1M
    for axes in grid.flat[len(analysis.ends) :]:
        axes.set_visible(False)
    figure.supylabel(metric_name(analysis), fontsize=8)
    return figure


def overall(analysis: Analysis) -> Figure:
    """Normalized scores over all environments."""
    rows = ((o.label, o.x * 100, o.band) for o in analysis.overall)
    return bands(analysis, rows, f"share of the {analysis.axis} (%)", "normalized score")


def final_scores(analysis: Analysis) -> Figure:
    """Final scores of every run, the statistic and its interval."""
    heights = [n_lines(s.label for s in analysis.of(env)) for env in analysis.ends]
    figure = new_figure(0.85 * WIDTH, 0.4 + 0.2 * sum(heights) + 0.35 * len(heights))
    grid = figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, env in zip(grid, analysis.ends, strict=True):
        series = analysis.of(env)[::-1]
        colors = [line_style(analysis.labels, s.label)["color"] for s in series]
        for at, (s, color) in enumerate(zip(series, colors, strict=True)):
            axes.plot(s.finals, np.full(len(s.finals), at), "|", color=color, alpha=0.5, ms=7)
        points(axes, [s.label for s in series], [s.final for s in series], colors)
        axes.set_title(env)
    grid[-1].set_xlabel(metric_name(analysis))
    return figure


def profile(analysis: Analysis) -> Figure:
    """Fraction of runs above each score."""
    rows = ((label, analysis.thresholds, part) for label, part in analysis.profiles.items())
    score = "normalized score" if analysis.ranges else metric_name(analysis)
    figure = bands(analysis, rows, score, "fraction of runs above")
    figure.axes[0].set_ylim(-0.02, 1.02)
    return figure


def improvement(analysis: Analysis) -> Figure:
    """Probability that the first of a pair scores higher."""
    pairs = list(analysis.improvement.items())[::-1]
    labels, gains = [f"{a} > {b}" for (a, b), _ in pairs], [gain for _, gain in pairs]
    figure = new_figure(0.85 * WIDTH, 0.55 + 0.2 * n_lines(labels))
    axes = figure.subplots()
    points(axes, labels, gains, COLORS[:1] * len(pairs))
    axes.axvline(0.5, color="0.4", lw=0.8, ls="--")
    axes.set(xlim=(-0.02, 1.02), xlabel="probability of improvement")
    return figure


def self_play(analysis: Analysis) -> Figure:
    """Ratings over training time, a line for each run of self-play."""
    rows = ((s.label, steps, rating) for s, _, steps, rating in self_play_runs(analysis))
    return bands(analysis, rows, "env steps", "rating against own past")


def wrapped(label: str) -> str:
    """A label in lines that leave room for the axes."""
    return "\n".join(textwrap.wrap(label, LABEL)) or label


def n_lines(labels: Iterable[str]) -> int:
    """Lines of labels below each other."""
    return sum(1 + wrapped(label).count("\n") for label in labels)


def band(axes: Axes, x: np.ndarray, estimate: Interval, **style: Any) -> None:
    """A line with its interval; a single point is marked."""
    axes.plot(x, estimate.value, marker="o" if len(x) == 1 else None, ms=4, **style)
    if np.isfinite(estimate.low).all():
        axes.fill_between(x, estimate.low, estimate.high, color=style["color"], alpha=0.18, lw=0)


def points(
    axes: Axes, labels: Sequence[str], estimates: Sequence[Interval], colors: Sequence[str]
) -> None:
    """A row for each label, from below: a point, and a bar from the lower to the upper end."""
    for at, (estimate, color) in enumerate(zip(estimates, colors, strict=True)):
        if np.isfinite(estimate.low):
            ends = [estimate.low, estimate.high]
            axes.plot(ends, [at, at], color=color, lw=5, alpha=0.35, solid_capstyle="butt")
        axes.plot(estimate.value, at, "o", color=color, ms=4)
    axes.set_yticks(range(len(labels)), list(map(wrapped, labels)))
    axes.set_ylim(-0.6, len(labels) - 0.4)
    axes.grid(axis="y", visible=False)


def figure_with_legend(analysis: Analysis, width: float, height: float) -> Figure:
    """A figure with room for axes of this height and the labels below them, as many side by side as
    fit: each as wide as the widest, with the line before it and the gap behind it.
    """
    from matplotlib.font_manager import FontProperties
    from matplotlib.lines import Line2D
    from matplotlib.textpath import TextPath

    labels, size = analysis.labels, STYLE["legend.fontsize"]
    font, shown = FontProperties(size=size), list(map(wrapped, labels))
    texts = (TextPath((0, 0), line, prop=font) for label in shown for line in label.split("\n"))
    widest = max(text.get_extents().width for text in texts)
    wide = (widest + (HANDLE + GAP) * size) / 72
    columns = max(1, min(len(labels), int(width / wide)))
    figure = new_figure(width, height + 0.22 * math.ceil(n_lines(labels) / columns))
    published = {s.label for s in analysis.series if s.published}
    handles = [Line2D([], [], **line_style(labels, name, name in published)) for name in labels]
    figure.legend(
        handles,
        shown,
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        columnspacing=GAP,
    )
    return figure


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
        axes.set(xlabel="trial", ylabel="score")
        axes.legend(frameon=False)
        save_figure(figure, path)


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
        save_figure(figure, path)
