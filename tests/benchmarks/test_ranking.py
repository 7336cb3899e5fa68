"""Rankings, comparisons with the game's curves and repeated runs, from numbers known by hand."""

import json
import lzma

import numpy as np
import pytest

from benchmarks import game_curves, kept, ranking
from benchmarks.repeat import difference
from benchmarks.results import PRINTED, main


def keep_run(folder, name, win_rates, interval=100_000):
    rows = [{"env_steps": i * interval, "test/win_rate": x} for i, x in enumerate(win_rates)]
    lines = [{"run": {"git_commit": "0"}}, *rows]
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (folder / f"{name}.jsonl.xz").write_bytes(lzma.compress(text.encode()))


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "DATA", tmp_path)
    return tmp_path


def test_the_ranking_pools_maps_at_the_end_of_the_shortest_run(data):
    for method, level in (("iql", 0.1), ("vdn", 0.4), ("qmix", 0.7)):
        for seed in (1, 2):
            values = [level + 0.1 * seed] * 20
            later = [] if method == "iql" else [0.0] * 20  # behind the end of the shortest runs
            keep_run(data, f"{method}-2s3z-s{seed}", values + later)
    scores = ranking.scores_by_map()
    assert list(scores) == ["2s3z"]
    assert scores["2s3z"]["qmix"] == pytest.approx([0.8, 0.9])
    text = "\n".join(ranking.lines_of(scores))
    assert "P(qmix > vdn) = 1.00" in text
    assert "In 100% of 10,000 resamples" in text


def test_equal_methods_are_not_in_order():
    same = {method: [np.array([0.2, 0.6])] for method in ranking.ORDER}
    drawn = {method: [np.array([[0, 1], [0, 0]])] for method in ranking.ORDER}
    assert ranking.share_in_order(same, drawn) == 0


@pytest.mark.parametrize(
    ("x", "y", "rho"),
    [([1, 2, 3], [4, 5, 9], 1), ([1, 2, 3], [9, 5, 4], -1), ([1, 2, 2, 3], [1, 3, 2, 4], 0.9487)],
)
def test_rank_correlation(x, y, rho):
    assert game_curves.rank_correlation(np.array(x), np.array(y)) == pytest.approx(rho, abs=1e-4)


def test_runs_are_compared_with_the_games_at_the_same_steps(data):
    for race, level in (("protoss", 0.3), ("terran", 0.5), ("zerg", 0.4)):
        keep_run(data, f"smacv2-{race}-s1", [level] * 21)
    both = game_curves.compared()
    assert both["zerg_5_vs_5"][0] == pytest.approx([0.4] * 4)
    assert both["zerg_5_vs_5"][1] == pytest.approx([0.26, 0.35, 0.38, 0.41], abs=0.01)
    assert "of 3 scenarios at 2 M: 0.50." in "\n".join(game_curves.lines_of(both))


def test_a_repeated_run_differs_where_a_number_does_and_not_where_time_does():
    rows = [{"env_steps": 5, "seconds": 1.0, "time/share": 0.1, "learn/loss": 0.25}]
    assert difference(rows, [{**rows[0], "seconds": 2.0, "time/share": 0.9}]) is None
    assert difference(rows, [{**rows[0], "learn/loss": 0.5}]) == (
        "row 1: learn/loss was 0.25 and is 0.5"
    )
    assert difference(rows, []) == "1 rows were kept, and there are 0"


@pytest.mark.parametrize("row", ["no-such-task-s1", "lbf-vdn"])
def test_a_row_that_is_not_kept_is_named(row):
    with pytest.raises(SystemExit, match=f"no kept run '{row}'"):
        main(["repeat", row])


def test_the_games_curves_are_whole():
    assert len(json.loads(game_curves.GAME.read_text(encoding="utf-8"))["scenarios"]) == 15
    for curves in game_curves.of_game().values():
        assert len(curves) >= 3
        for x, y in curves:
            assert x[-1] > 2e6
            assert (np.diff(x) > 0).all()
            assert ((y >= 0) & (y <= 1)).all()


@pytest.mark.parametrize("command", ["ranking", "game", "costs", "table smac"])
def test_pages_take_what_commands_print(command):
    assert PRINTED.search(f"<!-- python -m benchmarks.results {command} -->\n<!-- end -->")
