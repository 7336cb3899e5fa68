import json
import tracemalloc

import pytest

from rltrain.common.json_text import LONGEST
from rltrain.errors import UsageError
from rltrain.report.readers import find_runs
from rltrain.report.readers.rltrain_runs import env_name
from rltrain.report.run_groups import grouped
from tests.report.runs import write_run


def test_run_folder(tmp_path):
    write_run(tmp_path / "r", seed=3, values=[1, 2])
    (run,) = find_runs([tmp_path])
    about = (run.library, run.algo, run.env, run.seed, run.status, run.choices)
    assert about == ("rltrain", "dqn", "CartPole-v1", 3, "finished", {"buffer": "replay"})
    assert run.settings == {"algo.batch_size": 32, "algo.lr": 0.1}
    assert run.series("test/return_mean", "updates")[1].tolist() == [1, 2]
    assert run.problems == []


def test_a_half_written_last_line_is_left_out(tmp_path):
    folder = write_run(tmp_path / "r")
    with (folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"env_steps": 200, "test/ret')
    (run,) = find_runs([folder])
    assert (run.problems, len(run.columns["env_steps"])) == ([], 2)


def test_broken_lines_are_reported(tmp_path):
    folder = write_run(tmp_path / "r")
    lines = (folder / "metrics.jsonl").read_text("utf-8").splitlines()
    odd = '{"env_steps": 50, "test/return_mean": "1e9x"}'
    text = "\n".join([lines[0], "garbage", "[1, 2]", odd, lines[1]])
    (folder / "metrics.jsonl").write_text(text, encoding="utf-8")
    (run,) = find_runs([folder])
    assert run.problems == ["lines of metrics.jsonl that cannot be read are left out: 2, 3, 4"]
    assert run.series("test/return_mean")[1].tolist() == [0, 1]


@pytest.mark.slow
def test_of_rows_only_the_numbers_are_kept(tmp_path):
    folder = write_run(tmp_path / "r")
    row = {f"learn/metric_{i}": i / 3 for i in range(3)} | {"text": "x" * 2_000}
    n_rows, n_columns = 12_000, 5  # env steps, and NaN for the text
    with (folder / "metrics.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps({"env_steps": i, **row}) + "\n" for i in range(n_rows))
    tracemalloc.start()
    (run,) = find_runs([folder])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(run.columns["learn/metric_2"]) == n_rows
    assert peak < 2 * 8 * n_rows * n_columns + 1.1 * LONGEST


def test_two_runs_in_one_file_are_not_mixed(tmp_path):
    folder = write_run(tmp_path / "r", values=[1, 2, 3])
    rows = (folder / "metrics.jsonl").read_text("utf-8")
    again = json.dumps({"env_steps": 0, "test/return_mean": 9}) + "\n"
    (folder / "metrics.jsonl").write_text(rows + again, encoding="utf-8")
    (run,) = find_runs([folder])
    assert run.series("test/return_mean")[1].tolist() == [9]
    assert "env_steps go back from 200 to 0" in run.problems[0]


def test_a_run_that_never_began_has_no_metrics(tmp_path):
    folder = write_run(tmp_path / "r")
    (folder / "metrics.jsonl").unlink()
    (folder / "run.json").write_text('{"status": "failed"}', encoding="utf-8")
    (run,) = find_runs([folder])
    assert run.status == "failed"
    assert run.metric("return_mean") is None


def test_environments_have_the_names_of_their_makers():
    assert env_name("cartpole", {"id": "CartPole-v1"}) == "CartPole-v1"
    assert env_name("gymnasium", {"id": "my_package:Mine-v0"}) == "Mine-v0"
    assert env_name("smac", {"map_name": "3m"}) == "smac 3m"
    several = {"maps": ["3m", "8m"], "map_file": None, "map_name": "3m"}
    assert env_name("smac", several) == "smac 3m,8m"
    assert env_name("smac", {"map_file": "maps/mine.yaml", "map_name": "3m"}) == "smac mine.yaml"
    assert env_name("two_step", {}) == "two_step"


def test_trials_of_a_study_are_read_only_where_it_is_named(tmp_path):
    write_run(tmp_path / "runs/r")
    write_run(tmp_path / "tune/trials/0000")
    (tmp_path / "tune/study.json").write_text("{}", encoding="utf-8")
    assert len(find_runs([tmp_path])) == 1
    assert len(find_runs([tmp_path / "tune"])) == 1


EVALUATION = {"env_steps": 100, "episodes": [{}] * 20, "epsilon": 0.0, "overrides": []}


def best_at_100(tmp_path):
    """A run folder whose best test was at 100 env steps."""
    folder = write_run(tmp_path / "r", test={"episodes": 2, "epsilon": 0.0})
    record = {"status": "finished", "best_test": {"env_steps": 100}}
    (folder / "run.json").write_text(json.dumps(record), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("name", "changes", "value"),
    [
        ("evaluation.json", {}, 7.5),
        ("evaluation-2.json", {}, 7.5),
        ("evaluation.json", {"env_steps": 0}, None),  # of another checkpoint
        ("evaluation.json", {"episodes": [{}] * 19}, None),  # fewer than ten times as many
        ("evaluation.json", {"episodes": 20}, None),
        ("evaluation.json", {"epsilon": 0.5}, None),
        ("evaluation.json", {"metrics": [7.5]}, None),
        *(
            ("evaluation.json", {"overrides": ["test.episodes=20", other]}, None)
            for other in (
                *("env.x=1", "env=acrobot", "+env.y=2", "algo.z=3", "test.opponent=a"),
                "+test.env.n=1",
            )
        ),
        ("evaluation.json", {"overrides": ["test.episodes=20", "record=video"]}, 7.5),
        ("evaluation.json", {"overrides": 3}, None),
        ("evaluation.json", {"metrics": {"other": 7.5}}, None),
    ],
)
def test_the_absolute_metric_is_that_of_the_best_checkpoint_in_ten_times_the_episodes(
    name, changes, value, tmp_path
):
    folder = best_at_100(tmp_path)
    found = {**EVALUATION, "metrics": {"test/return_mean": 7.5}, **changes}
    (folder / name).write_text(json.dumps(found), encoding="utf-8")
    (run,) = find_runs([folder])
    read = run.series("absolute/return_mean")[1].tolist()
    assert read == ([] if value is None else [value])
    assert run.series("test/return_mean")[1].tolist() == [0, 1]


def test_the_newest_evaluation_counts(tmp_path):
    folder = best_at_100(tmp_path)
    for value, name in enumerate(["-1", "-2", "-10", ""]):
        text = json.dumps({**EVALUATION, "metrics": {"test/return_mean": value}})
        (folder / f"evaluation{name}.json").write_text(text, encoding="utf-8")
        (run,) = find_runs([folder])
        assert run.series("absolute/return_mean")[1].tolist() == [value]


@pytest.mark.parametrize("name", ["evaluation.json", "run.json"])
@pytest.mark.parametrize("text", ["{", "", "[1]", "null", "[" * 9_999, '{"a": 1, "a": 2}', "\\xff"])
def test_a_damaged_file_of_results_is_named(tmp_path, name, text):
    """Defect: an older evaluation was taken silently."""
    folder = best_at_100(tmp_path)
    for file in ("evaluation-1.json", "evaluation.json"):
        found = {**EVALUATION, "metrics": {"test/return_mean": 7.5}}
        (folder / file).write_text(json.dumps(found), encoding="utf-8")
    (folder / "evaluation_curve.png").write_bytes(b"an image")
    problems = []
    (run,) = find_runs([folder], problems)
    assert not problems
    assert not run.problems
    (folder / name).write_text(text, encoding="utf-8")
    (run,) = find_runs([folder], problems)
    assert [f"{name} is left out" in problem for problem in [*problems, *run.problems]] == [True]


CONFIGURATIONS = {
    "missing": lambda path: path.unlink(),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a link to a folder": lambda path: (path.unlink(), path.symlink_to(path.parent.parent)),
    **{
        text: lambda path, text=text: path.write_text(text, encoding="utf-8")
        for text in (
            *("{", "", "[1]", "7", "null", '"text"', "{}", '{"choice": {"algo": "dqn"}}'),
            *(f'{{"choices": {value}}}' for value in ("null", "[]", "7", '"dqn"')),
        )
    },
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_run_whose_configuration_is_damaged_is_named(tmp_path, name):
    """Defect: it was left out silently."""
    CONFIGURATIONS[name](write_run(tmp_path / "runs/bad") / "config.json")
    with pytest.raises(UsageError, match=r"holds no runs\..*bad is left out, .*config\.json"):
        find_runs([tmp_path / "runs/bad"])
    write_run(tmp_path / "runs/good")
    problems = []
    assert [run.folder.name for run in find_runs([tmp_path / "runs"], problems)] == ["good"]
    assert len(problems) == 1
    text = "time/total_timesteps,rollout/ep_rew_mean\n1,1\n2,2\n"
    (tmp_path / "runs/bad/progress.csv").write_text(text, encoding="utf-8")
    (run,) = find_runs([tmp_path / "runs/bad"])
    assert run.library == "SB3"


SAME = {
    "name": ({"name": "a"}, {"name": None}),
    "test.record": ({"test": {"record": "html"}}, {"test": {"record": "videos"}}),
    "buffer": ({"buffer": {"folder": "/a", "storage": "disk"}}, {"buffer": {"folder": None}}),
    "kernels": ({"hardware": {"kernels": "torch"}}, {"hardware": {"kernels": "auto"}}),
    "a package to import": ({"env": {"id": "a:Own-v0"}}, {"env": {"id": "Own-v0"}}),
}
OTHER = {
    "game version": ({"env": {"game_version": "4.6"}}, {"env": {"game_version": "4.10"}}),
    "game timeout": ({"env": {"game_timeout": 1}}, {"env": {"game_timeout": 2}}),
    "module of a class": ({"env": {"id": "a:Own"}}, {"env": {"id": "b:Own"}}),
    "module of a maker": ({"env": {"maker": "a:own"}}, {"env": {"maker": "b:own"}}),
    "a setting": ({"algo": {"lr": 1}}, {"algo": {"lr": 2}}),
}


@pytest.mark.parametrize("key", [*SAME, *OTHER])
def test_configurations_differ_by_what_changes_results(tmp_path, key):
    for number, config in enumerate({**SAME, **OTHER}[key]):
        folder = write_run(tmp_path / str(number), seed=number)
        tree = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**tree, **config}))
    assert len(grouped(find_runs([tmp_path]))) == (1 if key in SAME else 2)
