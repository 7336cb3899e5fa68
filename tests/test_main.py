"""The command as a person types it: folders, files, exit codes, one clear paragraph."""

from __future__ import annotations

import json
import logging
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

import rltrain
from rltrain import main as entry
from rltrain.common.files import digest
from rltrain.env.games.matrix import TwoStepGames
from rltrain.errors import CheckpointError, RltrainError, UsageError
from rltrain.mode import train as train_mode
from rltrain.mode.sweep import worst
from tests.conftest import SMALL


@pytest.fixture(scope="module")
def trained_once(tmp_path_factory):
    """A finished run, made once; tests work on copies of it."""
    folder = tmp_path_factory.mktemp("once")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert entry.run(SMALL) == 0
    (run_dir,) = folder.glob("outputs/*-*/*")
    return run_dir


@pytest.fixture
def trained(trained_once, own_folder):
    run_dir = own_folder / "outputs" / trained_once.parent.name / trained_once.name
    shutil.copytree(trained_once, run_dir)
    return run_dir


def nothing_written(folder):
    return not list(folder.iterdir())


def test_a_run_leaves_what_the_contract_names(trained):
    assert trained.parent.name == "qmix-two_step"
    names = {p.name for p in trained.iterdir()}
    expected = {".hydra", "config.json", "metrics.jsonl", "checkpoints", "run.json", "train.log"}
    assert expected | {"learning_curve.png"} <= names
    record = json.loads((trained / "run.json").read_text())
    assert (record["status"], record["exit_code"]) == ("finished", 0)
    assert record["final_test"]["env_steps"] == record["env_steps"] >= 300
    assert record["best_test"]["test/return_mean"] >= record["final_test"]["test/return_mean"]
    assert record["machine"]["torch"]
    rows = [json.loads(line) for line in (trained / "metrics.jsonl").read_text().splitlines()]
    assert all({"env_steps", "updates", "episodes", "seconds"} <= set(r) for r in rows)
    names = {k for r in rows for k in r}
    assert {
        "train/return_mean",
        "train/episode_length_mean",
        "train/epsilon",
        "test/return_mean",
        "test/return_std",
        "test/episode_length_mean",
        "learn/loss",
        "learn/td_error_abs",
        "learn/q_taken_mean",
        "learn/target_mean",
        "learn/grad_norm",
        "time/env_steps_per_s",
        "time/updates_per_s",
    } <= names
    latest = (trained / "checkpoints/latest").read_text().strip()
    held = {p.name for p in (trained / "checkpoints" / latest).iterdir()}
    assert {"model.safetensors", "config.json", "spec.json", "manifest.json"} <= held
    assert {"trainer.json", "trainer.safetensors", "replay.steps.obs.npy"} <= held


def test_only_the_newest_checkpoint_holds_the_replay(trained):
    full = [p for p in (trained / "checkpoints").iterdir() if (p / "trainer.json").exists()]
    assert len(full) == 3
    assert sum((p / "replay.json").exists() for p in full) == 1


def test_evaluate_plays_the_exact_number_whatever_the_number_of_copies(command, trained):
    found = []
    for n_envs in (1, 2, 5):
        words = [f"checkpoint={trained}", "test.episodes=7", f"test.n_envs={n_envs}"]
        assert command("mode=evaluate", *words) == 0
        record = json.loads((trained / "evaluation.json").read_text())
        assert [e["episode"] for e in record["episodes"]] == list(range(7))
        found.append([e["return"] for e in record["episodes"]])
    assert found[0] == found[1] == found[2]
    assert (trained / "evaluation-2.json").exists()
    metrics = record["metrics"]
    assert metrics["test/return_low"] <= metrics["test/return_mean"] <= metrics["test/return_high"]


@pytest.fixture
def drawn(monkeypatch):
    """The two-step game with pictures."""
    picture = np.zeros((8, 12, 3), np.uint8)
    monkeypatch.setattr(TwoStepGames, "frames_per_second", 10.0)
    monkeypatch.setattr(TwoStepGames, "render", lambda _, envs: [[picture] for _ in envs])


def test_evaluate_records_every_episode_and_lists_the_files(command, trained, drawn, capsys):
    words = [f"checkpoint={trained}", "record=true", "test.episodes=3"]
    assert command("mode=evaluate", *words) == 0
    record = json.loads((trained / "evaluation.json").read_text())
    folder = f"recordings/{record['env_steps']}"
    for k, episode in enumerate(record["episodes"]):
        wanted = {f"{folder}/episode-00{k}{end}" for end in (".gif", "-first.png", "-last.png")}
        assert wanted <= set(episode["files"])
        assert all((trained / name).exists() for name in episode["files"])
    assert str(trained / folder) in capsys.readouterr().out.replace("\n", "")
    assert command("mode=evaluate", *words) == 0  # the first recordings stay
    again = json.loads((trained / "evaluation.json").read_text())
    assert again["episodes"][0]["files"][0] == f"{folder}-2/episode-000.gif"


def test_recordings_go_elsewhere_if_the_run_folder_cannot_be_written(
    command, trained, drawn, own_folder
):
    (trained / "recordings").write_text("in the way")
    assert command("mode=evaluate", f"checkpoint={trained}", "record=true", "test.episodes=1") == 0
    assert len(list(own_folder.glob("outputs/evaluate/*/recordings/*/episode-000.gif"))) == 1


def test_recording_what_cannot_be_drawn_is_refused_before_anything_is_played(command, trained):
    with pytest.raises(UsageError, match="env 'two_step' cannot be drawn"):
        command("mode=evaluate", f"checkpoint={trained}", "record=true")
    assert not (trained / "evaluation.json").exists()
    assert not (trained / "recordings").exists()


def test_a_script_is_evaluated_without_a_checkpoint(command, own_folder, capsys):
    words = ["mode=evaluate", "algo=scripted", "env=smac", "env.map_name=3m", "test.episodes=4"]
    assert command(*words, "algo.policy=closest") == 0
    (path,) = own_folder.glob("outputs/evaluate/*/evaluation.json")
    record = json.loads(path.read_text())
    assert record["what"] == "scripted closest on smac 3m, seed 0"
    assert (record["checkpoint"], len(record["episodes"])) == (None, 4)
    shown = capsys.readouterr().out
    assert all(row in shown for row in ("return", "win rate", "episode length", "4 episodes"))


def test_two_evaluations_of_scripts_leave_two_files(command, own_folder):
    words = ["mode=evaluate", "algo=scripted", "algo.policy=random", "env=two_step"]
    for _ in range(2):
        assert command(*words, "test.episodes=2") == 0
    assert len(list(own_folder.glob("outputs/evaluate/*/evaluation.json"))) == 2


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["algo=scripted"], "algo=scripted has nothing to learn: type mode=evaluate"),
        (["mode=evaluate", "algo=scripted"], "algo.policy=closest needs battles"),
        (["mode=evaluate", "algo=scripted", "algo.policy=closet"], "one of random, stop, closest"),
        (["mode=evaluate", "algo=scripted", "algo.loss.gamma=1"], "Unknown key"),
        (["mode=evaluate", "algo=qmix"], "needs a checkpoint"),
    ],
    ids=lambda w: " ".join(w) if isinstance(w, list) else None,
)
def test_what_a_script_cannot_do_is_refused(command, own_folder, words, what):
    with pytest.raises(UsageError, match=what):
        command(*words, "env=two_step")
    assert nothing_written(own_folder)


def test_a_checkpoint_cannot_be_a_script(command, trained):
    forged(
        trained,
        algo={"_target_": "rltrain.algo.Scripted", "policy": "random"},
        mode="evaluate",
    )
    with pytest.raises(CheckpointError, match="without weights"):
        command("mode=evaluate", f"checkpoint={trained}")


def test_evaluate_from_a_folder_that_is_no_run(command, trained, own_folder):
    best = trained / "checkpoints" / (trained / "checkpoints/best").read_text().strip()
    moved = own_folder / "a=b, c d"
    best.rename(moved)
    assert command("mode=evaluate", f"checkpoint={moved}", "test.episodes=2") == 0
    assert (moved / "evaluation.json").exists()


def test_resume_goes_on_in_the_same_folder(command, trained):
    before = (trained / "metrics.jsonl").read_text()
    assert command(f"resume={trained}", "total_env_steps=450") == 0
    record = json.loads((trained / "run.json").read_text())
    assert record["env_steps"] >= 450
    assert len(record["resumes"]) == 1
    after = (trained / "metrics.jsonl").read_text()
    assert after.startswith(before)
    steps = [json.loads(line)["env_steps"] for line in after.splitlines()]
    assert steps == sorted(steps)
    assert json.loads((trained / "config.json").read_text())["total_env_steps"] == 450


def test_resume_latest_finds_the_newest_run(command, trained, small):
    assert command("resume=latest", "total_env_steps=350") == 0


@pytest.fixture
def unsaved(trained):
    """The run as if it had been killed before its first checkpoint to resume from."""
    latest = trained / "checkpoints/latest"
    for folder in (trained / "checkpoints").glob("*/"):
        shutil.rmtree(folder)
    latest.unlink()
    record = json.loads((trained / "run.json").read_text())
    record |= {"status": "running", "best_test": {"env_steps": 0, "test/return_mean": 99}}
    (trained / "run.json").write_text(json.dumps(record))
    return trained


def without_times(file):
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    return [{k: v for k, v in r.items() if k != "seconds" and "time/" not in k} for r in rows]


@pytest.mark.parametrize("typed", ["latest", "outputs/qmix-two_step"])
def test_a_run_without_a_checkpoint_starts_again_in_its_folder(
    command, unsaved, trained_once, typed
):
    assert command(f"resume={typed}") == 0
    again, once = (without_times(run / "metrics.jsonl") for run in (unsaved, trained_once))
    assert again == once
    record = json.loads((unsaved / "run.json").read_text())
    assert (record["status"], len(record["resumes"])) == ("finished", 1)
    assert record["best_test"]["test/return_mean"] < 99
    assert "starts again at env step 0" in (unsaved / "train.log").read_text()


def test_a_run_that_has_begun_a_dataset_does_not_start_again_over_it(command, unsaved, own_folder):
    (own_folder / "data").mkdir()
    (own_folder / "data/shard").touch()
    dataset = json.loads((unsaved / "config.json").read_text())["dataset"]
    forged(unsaved, dataset={**dataset, "write": "data"})
    before = (unsaved / "metrics.jsonl").read_text()
    with pytest.raises(UsageError, match="Delete data, then resume again"):
        command(f"resume={unsaved}")
    assert (unsaved / "metrics.jsonl").read_text() == before


def test_outputs_latest_leads_to_the_newest_run(command, small, own_folder):
    link = own_folder / "outputs/latest"
    for seed in (1, 2):
        assert command(*small, f"seed={seed}", "total_env_steps=40") == 0
        assert link.is_symlink()
        assert not link.readlink().is_absolute()
        assert json.loads((link / "config.json").read_text())["seed"] == seed
    assert command("mode=evaluate", "checkpoint=outputs/latest", "test.episodes=1") == 0
    assert command("resume=outputs/latest", "total_env_steps=80") == 0
    assert json.loads((link / "run.json").read_text())["env_steps"] >= 80


def test_a_run_elsewhere_or_a_file_of_that_name_leaves_outputs_latest_alone(
    command, small, own_folder
):
    (own_folder / "outputs").mkdir()
    (own_folder / "outputs/latest").write_text("mine")
    assert command(*small, "total_env_steps=40") == 0
    assert command(*small, "total_env_steps=40", "hydra.run.dir=elsewhere") == 0
    assert (own_folder / "outputs/latest").read_text() == "mine"


def test_the_best_checkpoint_is_evaluated_by_its_name(command, trained, capsys):
    best = min(int(p.name) for p in (trained / "checkpoints").iterdir() if p.name.isdigit())
    (trained / "checkpoints/best").write_text(f"{best}\n")
    words = ["mode=evaluate", "checkpoint=latest", "load_step=best", "test.episodes=1"]
    assert command(*words) == 0
    assert json.loads((trained / "evaluation.json").read_text())["env_steps"] == best
    assert "The newest run below" in capsys.readouterr().out.replace("\n", " ")
    with pytest.raises(UsageError, match="expected the env step of a checkpoint, or best"):
        command("mode=evaluate", "checkpoint=latest", "load_step=worst")


@pytest.mark.parametrize("words", [["resume=latest"], ["mode=evaluate", "checkpoint=x"]])
def test_hydras_own_settings_are_for_new_runs(command, words):
    with pytest.raises(UsageError, match=r"hydra\.run\.dir=here: Hydra's own settings"):
        command(*words, "hydra.run.dir=here")


def test_from_python_the_folder_of_a_run_may_be_typed(small, own_folder):
    words = [*small, "total_env_steps=60", "hydra.run.dir=outputs/mine"]
    assert rltrain.train(words).run_dir == own_folder / "outputs" / "mine"
    with pytest.raises(UsageError, match="run_dir=FOLDER"):
        rltrain.make_trainer(words)


def test_a_resume_cuts_metrics_back_to_the_checkpoint(command, trained):
    file = trained / "metrics.jsonl"
    before = file.read_text()
    file.write_text(before + '{"env_steps": 10000}\n')
    assert command(f"resume={trained}", "total_env_steps=350") == 0
    assert '"env_steps": 10000' not in file.read_text()


def test_a_resume_passes_over_a_broken_checkpoint(command, trained):
    latest = (trained / "checkpoints/latest").read_text().strip()
    (trained / "checkpoints" / latest / "trainer.safetensors").write_bytes(b"")
    assert command(f"resume={trained}", "total_env_steps=350") == 0


@pytest.mark.slow
def test_a_warm_start_is_a_new_run_with_these_weights(command, trained, small, own_folder):
    assert command(*small, f"checkpoint={trained}", "load_step=100", "seed=4") == 0
    assert len(list(own_folder.glob("outputs/*-*/*"))) == 2


def test_a_run_is_built_once_and_says_what_was_typed(command, small, own_folder, monkeypatch):
    built, build = [], train_mode.build_trainer
    monkeypatch.setattr(train_mode, "build_trainer", lambda *a: built.append(1) or build(*a))
    assert command(*small, "total_env_steps=40", "hydra.run.dir=a=b, c") == 0
    assert len(built) == 1
    files = {p.name: OmegaConf.load(p) for p in (own_folder / "a=b, c/.hydra").iterdir()}
    assert set(files) == {"config.yaml", "hydra.yaml", "overrides.yaml"}
    assert "total_env_steps=40" in files["overrides.yaml"]
    assert files["config.yaml"].total_env_steps == 40
    assert files["hydra.yaml"].hydra.runtime.output_dir == str(own_folder / "a=b, c")
    assert "hydra" not in files["config.yaml"]


def test_the_folder_of_a_run_may_name_its_settings(command, small, own_folder):
    words = ["total_env_steps=40", "seed=3", "hydra.run.dir=${hydra:runtime.choices.algo}-${seed}"]
    assert command(*small, *words) == 0
    assert (own_folder / "qmix-3/run.json").exists()


def test_messages_from_before_there_was_a_folder_are_in_its_log(command, small, monkeypatch):
    build = train_mode.build_trainer

    def talking(*args):
        logging.getLogger("rltrain").info("said while building")
        return build(*args)

    monkeypatch.setattr(train_mode, "build_trainer", talking)
    assert command(*small, "total_env_steps=40", "hydra.run.dir=run") == 0
    assert "said while building" in Path("run/train.log").read_text()


@pytest.mark.parametrize("word", ["hydra.job.chdir=true", "hydra/launcher=joblib", "+hydra.x=1"])
def test_hydras_other_settings_are_refused_by_name(command, small, own_folder, word):
    with pytest.raises(UsageError, match=re.escape(word)):
        command(*small, word)
    assert nothing_written(own_folder)


def test_questions_are_answered_from_the_composition(command, own_folder, capsys):
    answers = {}
    for flags in (["--version"], ["--cfg", "job"], ["--cfg=job", "-p", "algo.loss"]):
        assert command(*flags, "algo=dqn", "env=cartpole", "seed=7") == 0
        answers[flags[0]] = capsys.readouterr().out
    assert answers["--version"] == f"rltrain {rltrain.__version__}\n"
    shown = OmegaConf.create(answers["--cfg"])
    assert (shown.seed, shown.env.id) == (7, "CartPole-v1")
    assert answers["--cfg"].startswith("# algo=dqn ")
    assert "n_step: 3" in answers["--cfg=job"]  # of conf/tuned
    assert "seed" not in answers["--cfg=job"]
    for wrong in (["--help", "algo=qmx"], ["--cfg", "job", "seed=abc"], ["--cfg", "jobs"]):
        with pytest.raises(UsageError):
            command(*wrong)
    assert nothing_written(own_folder)


def test_hydra_answers_what_is_about_hydra(command, own_folder, capsys):
    assert command("--cfg", "hydra") == 0
    assert "launcher:" in capsys.readouterr().out
    assert nothing_written(own_folder)


def test_tab_completion(command, monkeypatch, capsys):
    monkeypatch.setenv("COMP_LINE", "rltrain algo=q")
    for shell, separator in (("bash", " "), ("fish", "\n")):
        assert command("-sc", f"query={shell}") == 0
        assert capsys.readouterr().out == f"algo=qmix{separator}algo=qrdqn\n"


def test_a_sweep_over_nothing_is_refused(command, small, own_folder):
    with pytest.raises(UsageError, match=r"no key has several.*seed=1,2,3"):
        command("-m", *small)
    assert nothing_written(own_folder)


def test_every_job_of_a_sweep_is_checked_before_the_first_begins(command, small, own_folder):
    with pytest.raises(UsageError, match=r"algo\.loss\.gamma=2"):
        command("-m", *small, "algo.loss.gamma=0.9,2")
    assert nothing_written(own_folder)


def test_a_job_that_cannot_be_built_is_recorded_and_the_others_run(command, small, capsys):
    sweep = ["buffer.capacity=4,64", "total_env_steps=40", "hydra.sweep.dir=s"]
    base = [word for word in small if not word.startswith("buffer.capacity")]
    assert command("-m", *base, *sweep) == 2
    first, second = (json.loads(p.read_text()) for p in sorted(Path("s").glob("*/run.json")))
    assert (first["status"], first["exit_code"], second["status"]) == ("failed", 2, "finished")
    assert "buffer.capacity" in first["error"]
    assert "rltrain: 0_buffer.capacity-4: " in capsys.readouterr().err
    with pytest.raises(UsageError, match="already holds runs of a sweep"):
        command("-m", *base, *sweep)


def test_an_interrupted_job_ends_its_sweep(command, small, capsys):
    stops = "callbacks=[{_target_: tests.helpers.Terminated}]"
    assert command("-m", *small, "seed=1,2,3", stops, "hydra.sweep.dir=s") == 143
    assert len(list(Path("s").glob("*/run.json"))) == 1
    assert "2 of 3 jobs were not started" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("codes", "code"), [([0, 0], 0), ([0, 130], 130), ([1, 3, 130], 3), ([2, 143], 2)]
)
def test_a_sweep_exits_with_the_worst_of_its_jobs(codes, code):
    assert worst(codes) == code


def test_a_sweep_makes_one_run_per_combination(command, small, own_folder, capsys):
    words = [*small, "algo=vdn,iql", "seed=1,2", "total_env_steps=40", "logger.console=true"]
    assert command("-m", *words) == 0
    folders = sorted(own_folder.glob("outputs/multirun/*/*/run.json"))
    names = [p.parent.name for p in folders]
    assert len(names) == 4
    assert names[0].startswith("0_algo-vdn_")
    assert all(len(n) <= 120 and not set(n) & set("=, /") for n in names)
    seeds = [json.loads((p.parent / "config.json").read_text())["seed"] for p in folders]
    assert seeds == [1, 2, 1, 2]
    shown = capsys.readouterr().out
    assert "finished" in shown
    assert "job 4 of 4: iql on two_step, seed 2" in shown
    assert all(f"[{name}] test " in shown for name in names)  # plain lines: several may run at once


WRONG = [
    ["algo=qmx"],
    ["env.map_name=3mm", "env=smac"],
    ["+nonsense=1"],
    ["total_env_steps=-1"],
    ["algo.optimizer.lr=nan"],
    ["algo=[vdn,qmix]"],
    ["seed=1,2"],
    ["--bogus"],
    ["mode=evaluate"],
    ["record=true"],
    ["record=1"],
    ["buffer.capacity=4"],
    ["buffer.max_bytes=1000"],
    ["+algo.optimizer.nonsense=1"],
    ["hydra.run.dir=/proc/nowhere"],
]


@pytest.mark.parametrize("words", WRONG, ids=lambda w: w[0])
def test_wrong_commands_are_refused_before_a_file_exists(command, small, own_folder, words):
    base = [w for w in small if not any(w.split("=")[0] == x.split("=")[0] for x in words)]
    with pytest.raises(UsageError) as caught:
        command(*base, *words)
    assert caught.value.exit_code == 2
    assert nothing_written(own_folder)


def test_an_unknown_map_names_the_nearest(command, small):
    base = [w for w in small if not w.startswith("env=")]
    with pytest.raises(UsageError, match="8m"):
        command(*base, "env=smac", "env.map_name=8mm")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_cuda_without_a_gpu(command, small, own_folder):
    with pytest.raises(UsageError, match=r"hardware\.device=cpu"):
        command(*small, "hardware=cuda")
    assert nothing_written(own_folder)


@pytest.mark.parametrize("mode", ["mode=evaluate", "mode=train", "resume"])
def test_a_missing_checkpoint(command, small, own_folder, mode):
    words = ["resume=nowhere"] if mode == "resume" else [mode, "checkpoint=nowhere"]
    with pytest.raises(CheckpointError) as caught:
        command(*(words if mode != "mode=train" else [*small, *words]))
    assert caught.value.exit_code == 3
    assert nothing_written(own_folder)


def test_a_broken_checkpoint(command, trained):
    for folder in (trained / "checkpoints").iterdir():
        if folder.is_dir():
            (folder / "model.safetensors").write_bytes(b"broken")
    with pytest.raises(CheckpointError, match="damaged"):
        command("mode=evaluate", f"checkpoint={trained}")


def test_a_checkpoint_of_another_environment(command, trained, small):
    base = [w for w in small if not w.startswith("env=")]
    with pytest.raises(UsageError) as caught:
        command(*base, "env=smac", f"checkpoint={trained}")
    said = str(caught.value)
    assert "it is of qmix on two_step (2 agents, 2 actions, observation" in said
    assert "this run is qmix on smac (3 agents" in said
    assert "Type env=two_step" in said


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["algo=vdn"], "it is a qmix checkpoint, this run is vdn. Type algo=qmix"),
        (["algo.mixer.embed_dim=8"], "algo.mixer.embed_dim=32, here 8"),
    ],
)
def test_a_checkpoint_of_another_network_says_what_to_type(command, trained, small, words, what):
    with pytest.raises(UsageError, match=re.escape(what)):
        command(*small, *words, f"checkpoint={trained}")


def test_a_warm_start_says_what_begins_again(command, trained, small, capsys):
    words = [w for w in small if w != "logger.console=false"]
    assert command(*words, f"checkpoint={trained}", "total_env_steps=20") == 0
    said = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "networks and targets only, optimizer, replay, schedules and exploration" in said
    assert "(epsilon 1; less with algo.exploration.start) start from scratch" in said


def forged(run_dir, without=None, **changes):
    """A run whose configuration was changed and whose manifests vouch for it."""
    for file in [run_dir / "config.json", *run_dir.glob("checkpoints/*/config.json")]:
        saved = {**json.loads(file.read_text()), **changes}
        saved.pop(without, None)
        file.write_text(json.dumps(saved))
        manifest = file.with_name("manifest.json")
        if manifest.exists():
            facts = json.loads(manifest.read_text())
            facts["files"]["config.json"] = {"bytes": file.stat().st_size, "sha256": digest(file)}
            manifest.write_text(json.dumps(facts))


@pytest.mark.parametrize("trust", [[], ["subprocess"]])
@pytest.mark.parametrize("word", ["mode=evaluate checkpoint=", "resume="])
def test_a_run_cannot_vouch_for_its_own_classes(command, trained, own_folder, trust, word):
    evil = {"_target_": "subprocess.getoutput", "cmd": f"touch {own_folder}/PWNED"}
    forged(trained, env=evil, trust=trust)
    words = f"{word}{trained}".split()
    with pytest.raises(CheckpointError, match=r"subprocess\.getoutput"):
        command(*words)
    assert not (own_folder / "PWNED").exists()


@pytest.mark.parametrize(
    "changes", [{"algo": [1]}, {"algo": {}}, {"callbacks": None}, {"hardware": {}}, {"env": None}]
)
def test_a_broken_configuration_of_a_run_is_refused(command, trained, changes):
    forged(trained, **changes)
    with pytest.raises(RltrainError):
        command(f"resume={trained}")


def test_resume_takes_the_run_of_a_checkpoint(command, trained):
    latest = (trained / "checkpoints/latest").read_text().strip()
    assert command(f"resume={trained}/checkpoints/{latest}", "total_env_steps=350") == 0
    assert json.loads((trained / "run.json").read_text())["env_steps"] >= 350


def test_a_folder_that_holds_a_run_takes_no_other(command, trained, small):
    with pytest.raises(UsageError, match="already holds a run"):
        command(*small, f"hydra.run.dir={trained}")


@pytest.mark.slow
def test_run_folders_may_be_numbers(command, small, own_folder):
    assert command(*small, f"hydra.run.dir={own_folder}/77") == 0
    assert command("mode=evaluate", f"checkpoint={own_folder}/77", "test.episodes=2") == 0


@pytest.mark.parametrize(
    "words",
    [
        ["load_step=5"],
        ["resume=x", "load_step=5"],
        ["resume=x", "mode=evaluate"],
        ["-m", "resume=x"],
    ],
    ids=" ".join,
)
def test_words_that_would_be_ignored_are_refused(command, small, words):
    with pytest.raises(UsageError):
        command(*words, *([] if "resume=x" in words else small))


def test_a_terminated_run_is_saved(monkeypatch, small, own_folder):
    words = [*small, "total_env_steps=1000000", "hydra.run.dir=run"]
    words += ["callbacks=[{_target_: tests.helpers.Terminated}]"]
    monkeypatch.setattr(sys, "argv", ["rltrain", *words])
    with pytest.raises(SystemExit) as left:
        entry.main()
    assert left.value.code == 143
    record = json.loads((own_folder / "run/run.json").read_text())
    assert (record["status"], record["exit_code"]) == ("interrupted", 143)
    assert 100 <= record["env_steps"] < 200
    assert (own_folder / "run/checkpoints/latest").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_save_and_say_how_to_go_on(small, own_folder, number, code):
    words = [*small, "total_env_steps=1000000", "logger.console=true", "hydra.run.dir=run"]
    words = [w for w in words if w not in ("logger.console=false", "total_env_steps=300")]
    command = [sys.executable, "-m", "rltrain", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if line.startswith("train "):
            process.send_signal(number)
            break
    said = process.stdout.read()
    assert process.wait() == code
    assert "Everything is saved." in said
    assert "rltrain resume=run" in said
    record = json.loads((own_folder / "run/run.json").read_text())
    assert (record["status"], record["exit_code"]) == ("interrupted", code)
    assert (own_folder / "run/checkpoints/latest").exists()


@pytest.mark.slow
def test_a_closed_standard_output_does_not_stop_a_run(small, own_folder):
    words = [w for w in small if w != "logger.console=false"] + ["hydra.run.dir=run"]
    command = [sys.executable, "-m", "rltrain", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    process.stdout.close()
    assert process.wait() == 0
    assert json.loads((own_folder / "run/run.json").read_text())["status"] == "finished"


def test_from_python_a_failed_run_raises(small):
    with pytest.raises(RuntimeError, match=r"train\.log"):
        rltrain.train([*small, "callbacks=[{_target_: tests.helpers.Failing}]"])
    with pytest.raises(UsageError):
        rltrain.train(["resume=latest"])


def test_a_resumed_run_keeps_what_makes_it_the_same_run(command, trained):
    with pytest.raises(UsageError, match=r"algo\.loss\.gamma"):
        command(f"resume={trained}", "algo.loss.gamma=0.5")


def test_a_failing_run_is_recorded_and_its_traceback_kept(command, small, own_folder):
    from tests.helpers import Failing

    assert Failing
    code = command(*small, "callbacks=[{_target_: tests.helpers.Failing}]")
    assert code == 1
    (run_dir,) = own_folder.glob("outputs/*-*/*")
    assert json.loads((run_dir / "run.json").read_text())["status"] == "failed"
    assert "Traceback" in (run_dir / "train.log").read_text()


def test_errors_are_one_paragraph_on_stderr(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["rltrain", "algo=qmx"])
    with pytest.raises(SystemExit) as caught:
        entry.main()
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("rltrain: ")
    assert "Traceback" not in said
    assert len(said.splitlines()) <= 6


def test_every_refusal_has_an_exit_code():
    codes = {kind.__name__: kind.exit_code for kind in RltrainError.__subclasses__()}
    assert codes == {
        "UsageError": 2,
        "CheckpointError": 3,
        "DatasetError": 3,
        "EnvError": 4,
        "DivergedError": 5,
    }
