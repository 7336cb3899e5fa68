"""Results of training runs: which runs are kept, the tables made of them, rankings, comparisons
with the game's curves and repeated runs, from numbers known by hand.
"""

import json
import lzma
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import agreement, game_curves, kept, ranking, results
from benchmarks.repeat import difference
from benchmarks.results import PRINTED, main
from benchmarks.task_kinds import Task
from rltrain.hardware.device import machine


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of kept runs, empty."""
    folder = tmp_path / "benchmarks/data"
    folder.mkdir(parents=True)
    monkeypatch.setattr(kept, "DATA", folder)
    return folder


def write(folder: Path, files: Mapping[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / name).write_text(text, encoding="utf-8")


def run_of_rltrain(folder: Path, status: str, win_rate: float) -> None:
    """A run folder with two tests."""
    record = {
        "status": status, "git_commit": "abcdefg1", "machine": machine(), "env_steps": 500_016,
        "seconds": 120.0, "environment": {"backend": "native", "rules_version": "3"},
    }  # fmt: skip
    tests = [{"env_steps": 0, "test/win_rate": 0.0}, {"env_steps": 1, "test/win_rate": win_rate}]
    lines = "".join(f"{json.dumps(line)}\n" for line in tests)
    write(folder, {"run.json": record, "config.json": {}, "metrics.jsonl": lines})


def run_of_epymarl(folder: Path, called: str, status: str = "COMPLETED") -> None:
    """A folder of Sacred with two tests, as EPyMARL's own code writes it."""
    values = {"steps": [50, 100], "timestamps": ["2026-01-01T00:00:30", "2026-01-01T00:01:00"]}
    files = {
        "config.json": {
            "name": "qmix", "env": "gymma", "env_args": {"key": "lbforaging:Foraging"}, "seed": 1,
            "local_results_path": f"somewhere/runs/{called}",
        },
        "run.json": {
            "status": status, "experiment": {"repositories": [{"commit": "1234567890"}]},
            "start_time": "2026-01-01T00:00:00", "stop_time": "2026-01-01T00:02:00",
        },
        "metrics.json": {"test_return_mean": {**values, "values": [0.25, 0.75]}},
        "info.json": {},
    }  # fmt: skip
    write(folder, files)


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lzma.decompress(path.read_bytes()).splitlines()]


def test_finished_runs_are_kept_and_others_are_not(tmp_path: Path, data: Path) -> None:
    run_of_rltrain(tmp_path / "runs/qmix-3m-s1", "finished", 1.0)
    run_of_rltrain(tmp_path / "runs/qmix-3m-s2", "running", 1.0)
    kept.keep(tmp_path / "runs")
    assert [path.name for path in data.iterdir()] == ["qmix-3m-s1.jsonl.xz"]
    head, *rows = lines_of(data / "qmix-3m-s1.jsonl.xz")
    assert head["run"]["environment"]["rules_version"] == "3"
    assert [row["test/win_rate"] for row in rows] == [0, 1]


def test_a_table_names_seeds_scores_commit_machine_and_rules(tmp_path: Path) -> None:
    for seed, win_rate in ((1, 1.0), (2, 0.5)):
        folder = tmp_path / f"runs/qmix-3m-s{seed}"
        run_of_rltrain(folder, "finished", win_rate)
        write(folder, {"evaluation.json": {"metrics": {"test/win_rate": win_rate / 2}}})
    kept.keep(tmp_path / "runs")
    *_, found, empty, origin = results.table("smac").splitlines()
    scores = "50.0%, 25.0% | 37.5% |  | 100.0% | 37.5%"
    assert found == f"| qmix-3m | 500,016 | 1, 2 | {scores} |  | 2.0 |"
    cpu, cores = machine()["cpu"], machine()["cores"]
    assert (empty, origin) == (
        "",
        f"Made with rltrain abcdefg; {cpu}, {cores} cores; battle rules version 3.",
    )


@pytest.mark.parametrize(
    ("win_rate", "published", "env_steps", "agrees"),
    [(0.92, "97%", None, [True]), (0.8, "97%", 500_000, [False]), (0.97, "97%", 600_000, [])],
)
def test_results_agree_with_published_ones_of_their_length(
    tmp_path: Path, monkeypatch, win_rate, published, env_steps, agrees
) -> None:
    task = Task("", "test/win_rate", 1, published, published_env_steps=env_steps)
    monkeypatch.setattr("benchmarks.agreement.TASKS", {"smac": {"qmix-3m": task}})
    run_of_rltrain(tmp_path / "runs/qmix-3m-s1", "finished", win_rate)
    kept.keep(tmp_path / "runs")
    assert [row.agrees for row in agreement.rows()] == agrees


def test_costs_reach_from_the_least_to_the_most_of_the_runs(tmp_path: Path) -> None:
    costs = ((90.0, 2**20), (91.0, 2**21), (None, None))
    for seed, (cpu_seconds, memory) in enumerate(costs, 1):
        run_of_rltrain(tmp_path / f"runs/qmix-3m-s{seed}", "finished", 1.0)
        path = tmp_path / f"runs/qmix-3m-s{seed}/run.json"
        record = json.loads(path.read_text(encoding="utf-8"))
        record |= {"cpu_seconds": cpu_seconds, "peak_memory_bytes": memory}
        path.write_text(json.dumps(record), encoding="utf-8")
    kept.keep(tmp_path / "runs")
    assert results.costs().splitlines()[-1] == (
        "| qmix-3m | 3 | 500,016 |  | 2.0 | 1.5 | 1.0–2.0 |  |  |"
    )


def test_finished_runs_of_epymarl_are_kept_beside_ours(tmp_path: Path, data: Path) -> None:
    folder = tmp_path / "sacred/qmix/lbforaging:Foraging"
    run_of_epymarl(folder / "1", "lbf-qmix-epymarl-s1")
    run_of_epymarl(folder / "2", "lbf-qmix-epymarl-s2", status="RUNNING")
    run_of_epymarl(folder / "3", "results")
    kept.keep(tmp_path / "sacred")
    assert [path.name for path in data.iterdir()] == ["lbf-qmix-epymarl-s1.jsonl.xz"]
    head, *rows = lines_of(data / "lbf-qmix-epymarl-s1.jsonl.xz")
    assert (head["run"]["git_commit"], head["run"]["seconds"]) == ("1234567890", 120)
    assert rows[1] == {"env_steps": 100, "seconds": 60, "test/return_mean": 0.75}
    *_, found, _, origin = results.table("teams").splitlines()
    assert found == "| lbf-qmix, EPyMARL's own code | 100 | 1 | 0.50 | 0.50 |  | 0.75 |  |  | 2.0 |"
    assert origin.startswith("Made with EPyMARL 1234567;")


def test_curves_are_drawn_beside_published_results(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(results, "CURVES", tmp_path / "curves")
    run_of_rltrain(tmp_path / "runs/qmix-2s3z-s1", "finished", 1.0)
    kept.keep(tmp_path / "runs")
    results.draw_all()
    assert [path.name for path in (tmp_path / "curves").iterdir()] == ["smac.png"]
    assert Task("").published_range is None
    assert Task("", published="99%").published_range == (0.99, 0.99)
    assert Task("", published="-76.5 ± 11.5").published_range == (-88, -65)


def test_what_is_missing_of_a_group_is_run(tmp_path: Path) -> None:
    run_of_rltrain(tmp_path / "runs/lbf-vdn-s2", "finished", 1.0)
    kept.keep(tmp_path / "runs")
    names = [folder.name for folder, _ in results.jobs(["lbf-vdn"])]
    assert names == ["lbf-vdn-s1", "lbf-vdn-s3"]
    assert set(names) < {folder.name for folder, _ in results.jobs(["teams"])}
    everything = [folder.name for folder, _ in results.jobs([])]
    assert len(everything) == len(set(everything))
    assert {"lbf-vdn-s1", "qmix-3m-s1", "cartpole-s8"} <= set(everything)


def test_seeds_that_are_named_are_run(tmp_path: Path) -> None:
    run_of_rltrain(tmp_path / "runs/lbf-vdn-s2", "finished", 1.0)
    kept.keep(tmp_path / "runs")
    (folder, words), *more = results.jobs(["lbf-vdn:2-4"])
    found = folder.name, words[0], words[-1]
    assert found == ("lbf-vdn-s2", "experiment=epymarl/lbf/vdn", "seed=2")
    assert [folder.name for folder, _ in more] == ["lbf-vdn-s3", "lbf-vdn-s4"]


def test_unknown_tasks_are_refused_with_all_names() -> None:
    with pytest.raises(SystemExit, match=r"no task 'lbf-iql'. Groups: smac, .* Tasks: qmix-3m, "):
        list(results.jobs(["lbf-iql"]))


def keep_run(folder, name, win_rates, interval=100_000):
    rows = [{"env_steps": i * interval, "test/win_rate": x} for i, x in enumerate(win_rates)]
    lines = [{"run": {"git_commit": "0"}}, *rows]
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (folder / f"{name}.jsonl.xz").write_bytes(lzma.compress(text.encode()))


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
