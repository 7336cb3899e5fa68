from pathlib import Path

import matplotlib
import pytest
from PIL import Image

from rltrain.logger import curve
from rltrain.logger.curve import new_figure
from rltrain.report import figures
from rltrain.report.analysis import analyze
from rltrain.report.statistics import Interval
from tests.helpers import no_room
from tests.marks import slow_except
from tests.report.runs import run, settings


def drawn(draw, runs):
    """A figure of some runs, as it is saved."""
    with matplotlib.rc_context(figures.STYLE):
        figure = draw(analyze(runs, settings()))
        figure.draw_without_rendering()
    return figure


@pytest.mark.slow
def test_every_figure_in_three_formats(tmp_path):
    runs = [
        run(Path(f"{algo}{env}{seed}"), algo, env, seed, values=[0, 1, seed])
        for algo in ("dqn", "pqn")
        for env in ("A-v1", "B-v1")
        for seed in range(2)
    ]
    paths = figures.draw_all(analyze(runs, settings(normalize="min_max")), tmp_path)
    names = {"curves", "overall", "final_scores", "profile", "improvement"}
    assert {(p.stem, p.suffix) for p in paths} == {
        (name, form) for name in names for form in (".png", ".svg", ".pdf")
    }
    pixels = Image.open(tmp_path / "curves.png").convert("RGB").getcolors(2**20)
    found = {color for _, color in pixels}
    assert {tuple(bytes.fromhex(c[1:])) for c in figures.COLORS[:2]} <= found


def test_a_figure_that_cannot_be_written_leaves_the_one_before(tmp_path, monkeypatch):
    def full(path, data):
        path.write_text("half")
        raise OSError(28, "No space left on device")

    (tmp_path / "curves.png").write_text("before")
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space"):
        figures.draw_all(analyze([run(Path("a"))], settings()), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["curves.png"]
    assert (tmp_path / "curves.png").read_text() == "before"


def test_more_configurations_than_colors_differ_in_their_dashes():
    labels = [str(i) for i in range(20)]
    assert len({tuple(figures.line_style(labels, label).values()) for label in labels}) == 20


def test_published_configurations_are_dashed_in_the_legend_as_in_the_axes():
    ours, theirs = run(Path("a")), run(Path("b"), "vdn", values=(0.9,), source="a paper")
    figure = figures.curves(analyze([ours, theirs], settings()))
    of_legend = figure.legends[0].get_lines()
    assert [line.get_linestyle() for line in of_legend] == ["-", "--"]
    assert sorted(line.get_linestyle() for line in figure.axes[0].lines) == ["-", "--"]


@pytest.mark.parametrize(("own", "end"), [((0, 1), 100), ((0, 1, 2, 1), 300), (None, 500)])
def test_a_published_curve_ends_where_the_longest_of_the_runs_does(own, end):
    runs = [run(Path("b"), "vdn", values=range(6), source="a paper")]
    runs += [] if own is None else [run(Path("a"), values=own), run(Path("c"), "x", values=(0, 1))]
    (axes,) = figures.curves(analyze(runs, settings())).axes
    assert max(x for line in axes.lines for x in line.get_xdata()) == end
    assert axes.get_xlim()[1] <= 1.1 * end


@pytest.mark.parametrize("label", [r"a $\foo$ b", "pay $5 and $6_a_b", "a_b^{c"])
def test_a_name_is_no_formula(label):
    (text,) = drawn(figures.curves, [run(Path("a"), label, label)]).legends[0].get_texts()
    assert text.get_text() == label
    assert not text.get_parse_math()


def test_a_bar_ends_where_its_interval_does():
    axes = new_figure(2, 1).subplots()
    figures.points(axes, ["A"], [Interval(0.5, 0.2, 0.9)], figures.COLORS[:1])
    bar, _ = axes.lines
    assert (list(bar.get_xdata()), bar.get_solid_capstyle()) == ([0.2, 0.9], "butt")


LABELS = ("dqn", "pqn boom=false", "vdn wind=very strong")
LONG = "algo.network.hidden_sizes=[64,64] algo.optimizer.lr=0.001 algo.batch_size=64 "


@pytest.mark.filterwarnings("error:constrained_layout")
@pytest.mark.parametrize("draw", [figures.curves, figures.final_scores, figures.improvement])
def test_long_labels_leave_room_for_the_axes(draw):
    """Defect: a warning of matplotlib, and axes of no width."""
    labels = (f"{LONG * 3}{i}" for i in range(3))
    runs = [run(Path(f"{i}{seed}"), a, seed=seed) for i, a in enumerate(labels) for seed in (0, 1)]
    assert all(axes.get_position().width > 0.3 for axes in drawn(draw, runs).axes)


@pytest.mark.parametrize("label", slow_except(LABELS[-1:], LABELS))
def test_the_legend_lies_within_the_figure(label):
    runs = [
        run(Path(f"{env}{i}"), f"{label}{i}", env) for env in ("A-v1", "B-v1") for i in range(9)
    ]
    figure = drawn(figures.curves, runs)
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.x1
    assert box.y1 < min(axes.get_position().y0 for axes in figure.axes) * figure.bbox.y1


def test_ticks_of_near_scores_differ():
    runs = [run(Path(str(i)), values=[-120, -112 + i / 20], seed=i) for i in range(5)]
    (axes,) = drawn(figures.final_scores, runs).axes
    ticks = [tick.get_text() for tick in axes.get_xticklabels()]
    assert len(ticks) > 3
    assert len(set(ticks)) == len(ticks)


@pytest.mark.parametrize(
    ("draw", "of"),
    [
        (curve.save, ([], "title")),
        (figures.draw_history, ([(0, 1.0)], "max")),
        (figures.draw_importance, ({"algo.batch_size": 1.0},)),
    ],
)
def test_a_figure_that_cannot_be_written_leaves_the_one_before_it(draw, of, tmp_path):
    """Defect: half of a search's figure was there in place of it."""
    path = tmp_path / "figure.png"
    path.write_bytes(b"before")
    with no_room(1000):
        draw(path, *of)
    assert path.read_bytes() == b"before"
    assert [*tmp_path.iterdir()] == [path]
