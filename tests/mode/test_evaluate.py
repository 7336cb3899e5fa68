"""Statistics of an evaluation, and the same numbers from the command, from Python and by hand; with
load_step=all, those that every checkpoint has alone, in one file and one curve.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest

import rltrain
from rltrain.api import settings_from
from rltrain.common.checkpoint import Found
from rltrain.errors import StorageError, UsageError
from rltrain.mode import evaluate
from rltrain.mode.evaluate import plain_info, played, return_texts, summary
from rltrain.mode.evaluation_files import home, recordings_folder, write
from rltrain.types import Episode
from tests.env.games.two_step import TwoStep
from tests.helpers import full, stopped
from tests.video.viewer import read_page


def test_means_and_intervals_by_hand():
    episodes = [Episode(r, 10, {"win": r > 2}) for r in (1.0, 2.0, 3.0, 4.0)]
    m = summary(episodes)
    assert m["test/return_mean"] == 2.5
    assert m["test/return_standard_error"] == pytest.approx(np.std([1, 2, 3, 4], ddof=1) / 2)
    assert m["test/return_high"] - m["test/return_low"] == pytest.approx(
        2 * 3.1824 * m["test/return_standard_error"]  # Student's t with 3 degrees of freedom
    )
    assert m["test/win_rate"] == 0.5


def test_equal_returns_are_shown_without_an_interval():
    assert return_texts(summary([Episode(2.0, 3)] * 4)) == ("2.00", "all equal")
    assert return_texts(one := summary([Episode(2.0, 3)])) == ("2.00", "")
    assert "test/return_standard_error" not in one


def test_what_an_environment_counts_is_averaged():
    episodes = [Episode(1.0, 3), *(Episode(1.0, 3, {"metrics": {"score": x}}) for x in (2, 5))]
    assert summary(episodes)["test/score_mean"] == 3.5


@pytest.mark.parametrize(
    ("checkpoint", "place"),
    [
        *(("run/checkpoints/5", "run"), ("run/weights/5", "run"), ("run/pool/5", "run")),
        *(("run/opponents/b", "run/opponents/b"), ("exported/5", "exported/5")),
    ],
)
def test_results_belong_to_the_run_of_the_agents(own_folder, checkpoint, place):
    """Defect: those of a run's opponent were written as the run's own."""
    (own_folder / "run").mkdir()
    (own_folder / "run" / "run.json").touch()
    assert home(Found(own_folder / checkpoint, 5)) == own_folder / place


@pytest.fixture
def result(small):
    return rltrain.train([*small, "total_env_steps=60"])


def test_python_gives_the_numbers_of_the_command(result):
    first = rltrain.evaluate(result.run_dir, episodes=6, seed=3)
    assert first.metrics == rltrain.evaluate(result.run_dir, episodes=6, seed=3).metrics
    assert first.run_dir == result.run_dir
    assert {"test/return_mean", "train/return_mean", "learn/loss"} <= set(result.metrics)


def test_what_cannot_be_written_to_a_run_is_in_one_folder(own_folder, monkeypatch):
    """Defect: recordings were in another new folder than evaluation.json."""
    place, mkdir = own_folder / "run", Path.mkdir

    def make(path, *given, **options):
        if path.is_relative_to(place):
            full()
        mkdir(path, *given, **options)

    monkeypatch.setattr(Path, "mkdir", make)
    first = recordings_folder(place, 100)
    written = [write(place, {"n": n}) for n in range(2)]
    assert {path.parent for path in written} == {first.parent.parent}
    assert sorted(path.name for path in written[0].parent.glob("*.json")) == [
        *("evaluation-1.json", "evaluation.json")
    ]


def test_a_loaded_policy_plays_the_game_as_the_test_does(result):
    policy = rltrain.load_policy(result.run_dir)
    game, total = TwoStep(), 0.0
    step = game.reset(0)
    policy.reset()
    for _ in range(2):
        action = policy.act(step.obs, step.avail_actions)
        assert action.shape == (2,)
        step, reward, *_ = game.step(action)
        total += float(reward[0])
    assert total == rltrain.evaluate(result.run_dir, episodes=1).metrics["test/return_mean"]


def test_a_policy_that_a_gpu_trained_acts_without_one(result, monkeypatch):
    """Defect: it was refused, and only a command could name another device."""
    found, settings = evaluate.open_checkpoint(result.run_dir, [], None, plays=False)
    trained = replace(settings, hardware=replace(settings.hardware, device="cuda"))
    monkeypatch.setattr(evaluate, "open_checkpoint", lambda *_, **__: (found, trained))
    assert rltrain.load_policy(result.run_dir).step == found.step


def test_what_an_environment_could_not_count_is_null():
    """Defect: evaluation.json had NaN, which is not JSON, and the table ended in a KeyError."""
    episode = Episode(1.0, 3, {"metrics": {"sharpe": float("nan"), "trades": 2}})
    assert plain_info(episode) == {"metrics": {"sharpe": None, "trades": 2}}
    assert "test/sharpe_mean" not in summary([episode])


def test_what_was_played_is_closed_whatever_ends_it(small, monkeypatch):
    """Defect: Ctrl-C left environments open and what a dataset had not yet written unwritten."""
    closed = []
    rollout = SimpleNamespace(
        run_episodes=Mock(side_effect=KeyboardInterrupt), close=lambda: closed.append(True)
    )
    monkeypatch.setattr("rltrain.mode.evaluate.build", lambda *_: rollout)
    with pytest.raises(KeyboardInterrupt):
        played(settings_from(small), None, Path())
    assert closed == [True]


def test_a_page_of_an_evaluation_has_its_episodes_and_values(command, tmp_path):
    tiny = ["algo=qmix", "env=lbf", "env.max_episode_steps=9", "total_env_steps=60", "logger=[]"]
    tiny += ["test.episodes=2", "hardware.threads=1", "hardware.n_envs=2"]
    run_dir = rltrain.train(tiny).run_dir
    command("mode=evaluate", f"checkpoint={run_dir}", "record=html", "test.episodes=3")
    record = json.loads((run_dir / "evaluation.json").read_text())
    (file,) = {name for row in record["episodes"] for name in row["files"]}
    page = read_page((run_dir / file).read_text())
    assert [e["return"] for e in page["episodes"]] == [e["return"] for e in record["episodes"]]
    step = page["episodes"][2]["arrays"]
    assert step["weight"].shape == step["action"].shape == (page["episodes"][2]["length"], 2)
    assert step["q"].shape[2] == page["n_actions"] == 6
    chosen = np.take_along_axis(step["q"], step["action"].astype(int)[..., None], -1)[..., 0]
    masked = np.where(step["avail"][:-1] > 0, step["q"], -np.inf)
    assert (chosen >= masked.max(-1) - 1e-3).all(), "greedy"


def test_of_evaluations_at_once_every_one_is_kept(tmp_path):
    (tmp_path / ".evaluation.json.77").touch()  # of a killed one
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: write(tmp_path, {"n": n}), range(80)))
    assert not [*tmp_path.glob(".evaluation.json.*")]
    files = tmp_path.glob("evaluation*.json")
    assert sorted(json.loads(file.read_text())["n"] for file in files) == list(range(80))


EVALUATE = ("mode=evaluate", "checkpoint=demo/cartpole", "test.episodes=2")
MATCH = ("mode=match", "checkpoints=[closest, focus]", "match.battles=2", "env.map_name=3m")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "words",
    [
        pytest.param((*EVALUATE, "record=video"), marks=pytest.mark.slow),
        (*EVALUATE, "record=html"),
        (*EVALUATE, "record=html", "load_step=all"),
        (*MATCH, "env=smac", "record=html"),
        ("mode=watch", *EVALUATE[1:]),
    ],
)
def test_unwritable_recordings_end_with_the_table(command, own_folder, monkeypatch, capsys, words):
    for name in ("recorder.Recorder._write", "episode_recorder.EpisodeRecorder._write"):
        monkeypatch.setattr(f"rltrain.video.{name}", full)
    folder = "recordings/50007" if words[0] == "mode=watch" else "recordings"
    with pytest.raises(StorageError, match=rf"/{folder} cannot be written\. Free disk space"):
        command(*words)
    if words[0] == "mode=evaluate":
        assert "return" in capsys.readouterr().out
        assert [*own_folder.rglob("evaluation.json")]


def test_an_evaluation_stopped_while_it_waits_to_write_prints_its_table(
    command, own_folder, monkeypatch, capsys
):
    monkeypatch.setattr("rltrain.mode.evaluation_files.locked", stopped)
    with pytest.raises(KeyboardInterrupt):
        command("mode=evaluate", "checkpoint=demo/cartpole", "test.episodes=2")
    assert "return" in capsys.readouterr().out


@pytest.fixture
def run(small):
    overrides = [*small, "total_env_steps=120", "save.interval=40", "save.keep_last=9"]
    return rltrain.train(overrides).run_dir


def steps_of(run):
    return sorted(int(p.name) for p in (run / "checkpoints").iterdir() if p.is_dir())


READERS = {
    "evaluate": lambda run: rltrain.evaluate(run, episodes=1),
    "all": lambda run: rltrain.evaluate(run, episodes=1, load_step="all"),
    "load_policy": rltrain.load_policy,
}


@pytest.mark.parametrize("name", READERS)
def test_from_python_a_skipped_checkpoint_is_logged(trained, name, caplog):
    """Defect: an older one was taken and nothing said so."""
    newest = max(steps_of(trained))
    (trained / "checkpoints" / str(newest) / "model.json").write_text("{damaged")
    READERS[name](trained)
    assert [m.startswith(f"Skipped checkpoint {newest}: ") for m in caplog.messages].count(
        True
    ) == 1


@pytest.mark.slow
def test_every_checkpoint_is_evaluated_as_it_is_alone(command, run, capsys):
    steps = steps_of(run)
    assert len(steps) >= 3
    alone = rltrain.evaluate(run, episodes=5, seed=7, load_step=steps[0]).metrics
    (run / "checkpoints" / str(steps[1]) / "model.json").write_text("{damaged")
    overrides = ("load_step=all", "test.episodes=5", "seed=7")
    assert command("mode=evaluate", f"checkpoint={run}", *overrides) == 0
    record = json.loads((run / "evaluation.json").read_text())
    rows = record["checkpoints"]
    assert [row["env_steps"] for row in rows] == [steps[0], *steps[2:]]
    assert rows[0]["metrics"] == alone
    assert all(len(row["episodes"]) == 5 for row in rows)
    assert (run / "evaluation_curve.png").stat().st_size > 1000
    shown = capsys.readouterr().out
    assert f"Skipped checkpoint {steps[1]}" in shown
    assert all(f"{row['env_steps']:,}" in shown for row in rows)
    from_python = rltrain.evaluate(run, episodes=5, seed=7, load_step="all")
    assert {step: each.metrics for step, each in from_python.items()} == {
        row["env_steps"]: row["metrics"] for row in rows
    }
    assert {each.run_dir for each in from_python.values()} == {run}


@pytest.mark.slow
def test_one_checkpoint_is_not_all_and_elsewhere_one_is_needed(command, run, small):
    one = run / "checkpoints" / str(steps_of(run)[0])
    with pytest.raises(UsageError, match=r"every checkpoint of a run, and .* is one"):
        command("mode=evaluate", f"checkpoint={one}", "load_step=all")
    for overrides in (small, ["mode=export"]):
        with pytest.raises(UsageError, match="load_step=all"):
            command(*overrides, f"checkpoint={run}", "load_step=all")
    said = "load_step='all': expected the env step of a checkpoint, or 'best'"
    with pytest.raises(UsageError, match=said):
        rltrain.load_policy(run, load_step="all")
    with pytest.raises(UsageError, match="episodes of one checkpoint"):
        command("mode=evaluate", f"checkpoint={run}", "load_step=all", "dataset.write=data")
