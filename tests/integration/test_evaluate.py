"""mode=evaluate: episodes, recordings, scripted policies."""

from pathlib import Path

import numpy as np
import pytest

import rltrain
from rltrain.common.files import get_json
from rltrain.env.games.matrix import TwoStepGames
from rltrain.errors import CheckpointError, UsageError
from tests.conftest import CARTPOLE
from tests.env.scripted import Plain
from tests.helpers import forged


def test_evaluate_plays_the_exact_number_whatever_the_number_of_environments(command, trained):
    found = []
    for n_envs in (1, 2, 5):
        overrides = [f"checkpoint={trained}", "test.episodes=7", f"test.n_envs={n_envs}"]
        assert command("mode=evaluate", *overrides) == 0
        record = get_json(trained / "evaluation.json")
        assert [e["episode"] for e in record["episodes"]] == list(range(7))
        found.append([e["return"] for e in record["episodes"]])
    assert found[0] == found[1] == found[2]
    assert (trained / "evaluation-2.json").exists()
    metrics = record["metrics"]
    assert metrics["test/return_low"] <= metrics["test/return_mean"] <= metrics["test/return_high"]


class Seeded(Plain):
    """One step; the reward depends on the seed."""

    length = 1

    def reset(self, *, seed=None, options=None):
        self.reward = float(np.random.default_rng(seed).integers(1000))
        return super().reset(seed=seed)


@pytest.mark.parametrize("seed", [0, 7])
def test_every_episode_has_the_seed_that_its_environment_was_reset_with(command, own_folder, seed):
    words = ["env=gymnasium", f"env.id={__name__}:Seeded", "test.episodes=5", "test.n_envs=2"]
    scripted = ["algo=scripted", "algo.policy=random", f"seed={seed}"]
    assert command("mode=evaluate", *scripted, *words) == 0
    (path,) = own_folder.glob("outputs/evaluate/*/evaluation.json")
    record, alone = get_json(path), Seeded()
    for episode, seed_of in zip(record["episodes"], record["seeds"], strict=True):
        alone.reset(seed=seed_of % 2**32)
        assert alone.step(0)[1] == episode["return"]


@pytest.fixture
def drawn(monkeypatch):
    """The two-step game with pictures."""
    picture = np.zeros((8, 12, 3), np.uint8)
    monkeypatch.setattr(TwoStepGames, "frames_per_second", 10.0)
    monkeypatch.setattr(TwoStepGames, "render", lambda _, envs: [[picture] for _ in envs])


def test_evaluate_records_every_episode_and_lists_the_files(command, trained, drawn, capsys):
    overrides = [f"checkpoint={trained}", "record=video", "test.episodes=3"]
    assert command("mode=evaluate", *overrides) == 0
    record = get_json(trained / "evaluation.json")
    folder = f"recordings/{record['env_steps']}"
    for k, episode in enumerate(record["episodes"]):
        wanted = {f"{folder}/episode-00{k}{end}" for end in (".gif", "-first.png", "-last.png")}
        assert wanted <= set(episode["files"])
        assert all((trained / name).exists() for name in episode["files"])
    said = capsys.readouterr().out
    run = trained.relative_to(Path.cwd())
    assert f"The recordings are in {run / folder}." in said
    assert f"every episode is in {run / 'evaluation.json'}" in said
    assert command("mode=evaluate", *overrides) == 0  # the first recordings stay
    again = get_json(trained / "evaluation.json")
    assert again["episodes"][0]["files"][0] == f"{folder}-2/episode-000.gif"


def test_recordings_go_elsewhere_if_the_run_is_not_writable(command, trained, drawn, own_folder):
    (trained / "recordings").write_text("in the way")
    assert command("mode=evaluate", f"checkpoint={trained}", "record=true", "test.episodes=1") == 0
    assert len(list(own_folder.glob("outputs/evaluate/*/recordings/*/episode-000.gif"))) == 1


def test_recording_what_cannot_be_drawn_is_refused_before_anything_is_played(command, trained):
    with pytest.raises(UsageError, match="env 'two_step' cannot be drawn"):
        command("mode=evaluate", f"checkpoint={trained}", "record=video")
    assert not (trained / "evaluation.json").exists()
    assert not (trained / "recordings").exists()


def test_a_script_is_evaluated_without_a_checkpoint(command, own_folder, capsys):
    overrides = ["mode=evaluate", "algo=scripted", "env=smac", "env.map_name=3m", "test.episodes=4"]
    assert command(*overrides, "algo.policy=closest") == 0
    (path,) = own_folder.glob("outputs/evaluate/*/evaluation.json")
    record = get_json(path)
    assert record["what"] == "scripted closest on smac 3m, seed 0"
    assert (record["checkpoint"], len(record["episodes"])) == (None, 4)
    shown = capsys.readouterr().out
    assert all(row in shown for row in ("return", "win rate", "episode length", "4 episodes"))


def test_two_evaluations_of_scripts_leave_two_files(command, own_folder):
    overrides = ["mode=evaluate", "algo=scripted", "algo.policy=random", "env=two_step"]
    for _ in range(2):
        assert command(*overrides, "test.episodes=2") == 0
    assert len(list(own_folder.glob("outputs/evaluate/*/evaluation.json"))) == 2


def test_a_checkpoint_cannot_be_a_script(command, trained):
    forged(trained, algo={"_target_": "rltrain.algo.Scripted", "policy": "random"}, mode="evaluate")
    with pytest.raises(CheckpointError, match="without weights"):
        command("mode=evaluate", f"checkpoint={trained}")


def test_evaluate_from_a_folder_that_is_no_run(command, trained, own_folder):
    best = trained / "checkpoints" / (trained / "checkpoints/best").read_text().strip()
    moved = own_folder / "a=b, c d"
    best.rename(moved)
    assert command("mode=evaluate", f"checkpoint={moved}", "test.episodes=2") == 0
    assert (moved / "evaluation.json").exists()


def test_a_result_stands_where_a_run_folder_is_expected(own_folder):
    result = rltrain.train(CARTPOLE)
    assert rltrain.load_policy(result).step >= 60
    assert rltrain.evaluate(result, episodes=1).metrics


def test_the_best_checkpoint_is_evaluated_by_its_name(command, trained, capsys):
    best = min(int(p.name) for p in (trained / "checkpoints").iterdir() if p.name.isdigit())
    (trained / "checkpoints/best").write_text(f"{best}\n")
    overrides = ["mode=evaluate", "checkpoint=latest", "load_step=best", "test.episodes=1"]
    assert command(*overrides) == 0
    assert get_json(trained / "evaluation.json")["env_steps"] == best
    assert "The newest run below" in capsys.readouterr().out.replace("\n", " ")
    with pytest.raises(UsageError, match=r"expected a whole number, .* or one of best"):
        command("mode=evaluate", "checkpoint=latest", "load_step=worst")
