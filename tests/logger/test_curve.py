"""metrics.jsonl read back, and drawn."""

import json
import weakref

import numpy as np
import pytest

from rltrain.logger import curve
from rltrain.logger.curve import draw, drawn, history, make_figure, panels


def test_history_is_one_row_per_env_step_with_nan_where_nothing_was_measured(tmp_path):
    lines = [
        {"env_steps": 0, "updates": 0, "episodes": 0, "seconds": 0.1, "test/return_mean": 1.0},
        {"env_steps": 5, "updates": 2, "episodes": 1, "seconds": 0.2, "learn/loss": None},
        {"env_steps": 5, "updates": 2, "episodes": 1, "seconds": 0.3, "test/return_mean": 3.0},
    ]
    path = tmp_path / "metrics.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + '\n{"env_st', encoding="utf-8")
    found = history(path)
    assert (found["env_steps"].tolist(), found["env_steps"].dtype) == ([0, 5], np.int64)
    assert (found["seconds"].tolist(), found["test/return_mean"].tolist()) == ([0.1, 0.3], [1, 3])
    assert np.isnan(found["learn/loss"]).all()


def test_a_run_without_metrics_has_an_empty_history(tmp_path):
    assert history(tmp_path / "metrics.jsonl") == {}


@pytest.mark.slow
def test_a_figure_that_was_saved_leaves_no_memory_behind(tmp_path, monkeypatch):
    """Defect: each of them, one a minute, added a megabyte to a run for hours."""
    made = []

    def watched(lines, title):
        figure = make_figure(lines, title)
        made.append(weakref.ref(figure))
        return figure

    monkeypatch.setattr(curve, "make_figure", watched)
    curve.save(tmp_path / "curve.png", TESTS, "title")
    assert made[0]() is None


TESTS = [
    {"env_steps": 1000 * k, "test/return_mean": 10.0 * k, "test/return_std": 2.0} for k in range(4)
]


def test_what_is_drawn_of_a_row_makes_the_same_panels():
    """Defect: whole rows, of which a long run has thousands, were read for each drawing."""
    row = {"env_steps": 9, "updates": 1, "seconds": 0.5, "learn/loss": 1.0, "time/x": 2.0}
    added = {"train/win_rate": 0.5, "test/share": 0.2, "custom/last_angle": 0.1}
    lines = [*TESTS, {**row, **added}]
    short = [drawn(line) for line in lines]
    assert short[-1] == {"env_steps": 9, **added}
    assert panels(short) == panels(lines)


def labels(lines):
    return [panel.label for panel in panels(lines)]


def test_win_rates_and_what_environments_and_callbacks_add_have_axes_of_their_own():
    assert labels(TESTS) == ["return"]
    assert labels([*TESTS, {"env_steps": 9, "test/win_rate": 0.5}]) == ["return", "win rate"]
    added = {"train/excess_over_hold_mean": 1.0, "test/share": 0.2, "custom/last_angle": 0.1}
    lines = [*TESTS, {"env_steps": 9, **added, "learn/loss": 1.0, "time/updates_per_s": 2.0}]
    assert labels(lines) == ["return", "excess over hold", "share", "last angle"]
    assert panels(lines)[1].train == ([9], [1.0])


def test_a_series_of_one_point_is_marked():
    (axes,) = make_figure([TESTS[0], {"env_steps": 5, "train/return_mean": 1.0}], "run").axes
    assert [line.get_marker() for line in axes.lines] == ["o", "o"]


def test_many_points_are_not_marked():
    many = [{"env_steps": k, "train/return_mean": 1.0} for k in range(100)]
    (axes,) = make_figure(many, "run").axes
    assert [line.get_marker() for line in axes.lines] == ["None"]


def test_the_band_is_the_deviation_of_the_test_returns():
    (axes,) = make_figure(TESTS, "run").axes
    (band,) = axes.collections
    assert band.get_datalim(axes.transData).intervaly.tolist() == [-2.0, 32.0]


def test_the_legend_covers_no_line(tmp_path):
    lines = [*TESTS, {"env_steps": 500, "train/return_mean": 5.0, "train/win_rate": 0.0}]
    figure = make_figure(lines, "a long name of an algorithm on a long name of an environment")
    figure.savefig(tmp_path / "curve.png")
    legend = figure.legends[0].get_window_extent()
    assert not any(legend.overlaps(axes.get_window_extent()) for axes in figure.axes)
    assert not legend.overlaps(figure.axes[0].title.get_window_extent())


def test_a_run_without_metrics_is_drawn_empty(tmp_path):
    draw(tmp_path, "run")
    (path,) = tmp_path.iterdir()
    assert path.name == "learning_curve.png"
    assert path.stat().st_size > 0
