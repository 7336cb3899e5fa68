"""What a run writes into its folder, however it ends, and what it must never write."""

import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf

import rltrain
from rltrain.common.files import get_json
from rltrain.errors import UsageError
from rltrain.logger import Wandb
from rltrain.mode import train as train_mode
from rltrain.mode.find_run import find_run
from tests.env.scripted import Plain
from tests.helpers import json_lines, over


def test_a_run_leaves_what_the_contract_names(trained):
    assert trained.parent.name == "qmix-two_step"
    names = {p.name for p in trained.iterdir()}
    expected = {".hydra", "config.json", "metrics.jsonl", "checkpoints", "run.json", "train.log"}
    assert expected | {"learning_curve.png", "README.md"} <= names
    record = get_json(trained / "run.json")
    assert (record["status"], record["exit_code"]) == ("finished", 0)
    assert record["final_test"]["env_steps"] == record["env_steps"] >= 150
    assert record["best_test"]["test/return_mean"] >= record["final_test"]["test/return_mean"]
    assert record["machine"]["torch"]
    rows = json_lines(trained / "metrics.jsonl")
    assert all({"env_steps", "updates", "episodes", "seconds"} <= set(r) for r in rows)
    names = {k for r in rows for k in r}
    assert {
        *(f"train/{name}" for name in ("return_mean", "episode_length_mean", "epsilon")),
        *(f"test/{name}" for name in ("return_mean", "return_std", "episode_length_mean")),
        *("learn/loss", "learn/td_error_abs", "learn/q_taken_mean", "learn/target_mean"),
        *("learn/grad_norm", "time/env_steps_per_s", "time/updates_per_s"),
        *(f"time/{part}_share" for part in ("env", "acting", "sampling", "learning")),
    } <= names
    latest = (trained / "checkpoints/latest").read_text().strip()
    held = {p.name for p in (trained / "checkpoints" / latest).iterdir()}
    assert {"model.safetensors", "config.json", "spec.json", "manifest.json"} <= held
    assert {"trainer.json", "trainer.safetensors", "replay.steps.obs.npy"} <= held
    full = [p for p in (trained / "checkpoints").iterdir() if (p / "trainer.json").exists()]
    assert len(full) == 3
    assert sum((p / "replay.json").exists() for p in full) == 1  # of the newest


def test_outputs_latest_leads_to_the_newest_run(command, small, own_folder):
    link = own_folder / "outputs/latest"
    for seed in (1, 2):
        assert command(*small, f"seed={seed}", "total_env_steps=40") == 0
        assert link.is_symlink()
        assert not link.readlink().is_absolute()
        assert get_json(link / "config.json")["seed"] == seed
    assert command("mode=evaluate", "checkpoint=outputs/latest", "test.episodes=1") == 0
    assert command("resume=outputs/latest", "total_env_steps=80") == 0
    assert get_json(link / "run.json")["env_steps"] >= 80


@pytest.mark.slow
def test_a_search_leaves_outputs_latest_alone(command, small, own_folder):
    assert command(*small, "total_env_steps=40") == 0
    before = (own_folder / "outputs/latest").readlink()
    trial = "hydra.run.dir=outputs/tune/study/trials/0001"
    assert command(*small, "total_env_steps=40", trial) == 0
    assert (own_folder / "outputs/latest").readlink() == before
    assert find_run("latest").parent.parent == own_folder / "outputs"
    assert find_run("outputs/tune/study").name == "0001"  # the search itself was named


def test_a_name_is_that_of_the_folder_and_of_the_run_in_loggers(command, small, own_folder):
    for _ in range(2):
        assert command(*small, "total_env_steps=40", "name=my_run") == 0
    folder, _ = sorted((own_folder / "outputs/qmix-two_step").iterdir())
    assert re.fullmatch(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d-my_run-s0-[0-9a-f]{4}", folder.name)
    assert get_json(folder / "run.json")["status"] == "finished"
    given = {"mode": "offline", "project": "p", "group": None, "tags": None}
    assert Wandb(run_dir=folder, config={}, **given).options["name"] == folder.name
    with pytest.raises(UsageError, match="name="):
        command(*small, "name=../elsewhere")
    with pytest.raises(UsageError, match=r"name: the name .* has \d+ bytes"):
        command(*small, f"name='{'漢' * 80}'")
    assert command(f"config={folder}", "total_env_steps=40", *small[-1:]) == 0  # has its own name
    assert len(list((own_folder / "outputs").glob("*-*/*"))) == 3


@pytest.mark.slow
def test_a_run_elsewhere_or_a_file_of_that_name_leaves_the_link_alone(command, small, own_folder):
    (own_folder / "outputs").mkdir()
    (own_folder / "outputs/latest").write_text("mine")
    assert command(*small, "total_env_steps=40") == 0
    assert command(*small, "total_env_steps=40", "hydra.run.dir=elsewhere") == 0
    assert (own_folder / "outputs/latest").read_text() == "mine"


def test_from_python_the_folder_of_a_run_may_be_typed(small, own_folder):
    overrides = [*small, "total_env_steps=60", "hydra.run.dir=outputs/mine"]
    assert rltrain.train(overrides).run_dir == own_folder / "outputs" / "mine"
    with pytest.raises(UsageError, match="run_dir=FOLDER"):
        rltrain.make_trainer(overrides)


def test_a_run_is_built_once_and_says_what_was_typed(command, small, own_folder, monkeypatch):
    """Messages from before there was a folder are in its log."""
    built, build = [], train_mode.build_trainer

    def talking(*args):
        built.append(1)
        logging.getLogger("rltrain").info("said while building")
        return build(*args)

    monkeypatch.setattr(train_mode, "build_trainer", talking)
    assert command(*small, "total_env_steps=40", "hydra.run.dir=a=b, c") == 0
    assert len(built) == 1
    assert "said while building" in (own_folder / "a=b, c/train.log").read_text()
    files = {p.name: OmegaConf.load(p) for p in (own_folder / "a=b, c/.hydra").iterdir()}
    assert set(files) == {"config.yaml", "hydra.yaml", "overrides.yaml"}
    assert "total_env_steps=40" in files["overrides.yaml"]
    assert files["config.yaml"].total_env_steps == 40
    assert files["hydra.yaml"].hydra.runtime.output_dir == str(own_folder / "a=b, c")
    assert "hydra" not in files["config.yaml"]


def test_the_folder_of_a_run_may_name_its_settings(command, small, own_folder):
    overrides = ["total_env_steps=40", "seed=3"]
    overrides += ["hydra.run.dir=${hydra:runtime.choices.algo}-${seed}"]
    assert command(*small, *overrides) == 0
    assert (own_folder / "qmix-3/run.json").exists()


@pytest.mark.slow
def test_run_folders_may_be_numbers(command, small, own_folder):
    assert command(*small, f"hydra.run.dir={own_folder}/77") == 0
    assert command("mode=evaluate", f"checkpoint={own_folder}/77", "test.episodes=2") == 0


def test_a_terminated_run_is_saved(exit_code, small, own_folder):
    overrides = [*small, "total_env_steps=1000000", "hydra.run.dir=run"]
    overrides += ["callbacks=[{_target_: tests.helpers.Terminated}]"]
    assert exit_code(*overrides) == 143
    record = get_json(own_folder / "run/run.json")
    assert (record["status"], record["exit_code"]) == ("interrupted", 143)
    assert 100 <= record["env_steps"] < 200
    assert (own_folder / "run/checkpoints/latest").exists()


def test_from_python_a_failed_run_raises(small):
    with pytest.raises(RuntimeError, match=r"train\.log"):
        rltrain.train([*small, "callbacks=[{_target_: tests.helpers.Failing}]"])
    with pytest.raises(UsageError):
        rltrain.train(["resume=latest"])


def test_a_failing_run_is_recorded_and_its_traceback_kept(command, small, own_folder):
    assert command(*small, "callbacks=[{_target_: tests.helpers.Failing}]") == 1
    (run_dir,) = own_folder.glob("outputs/*-*/*")
    assert get_json(run_dir / "run.json")["status"] == "failed"
    assert "Traceback" in (run_dir / "train.log").read_text()


def test_a_run_whose_environment_cannot_be_closed_is_recorded_as_finished(own_folder):
    class Unclosed(Plain):
        def close(self):
            raise OSError("the server is gone")

    overrides = ["algo=dqn", "algo.learning_starts=8", "total_env_steps=20", "test.episodes=1"]
    result = rltrain.train([*overrides, "logger=[]"], env=Unclosed, progress=False)
    record = get_json(result.run_dir / "run.json")
    assert (record["status"], record["exit_code"]) == ("finished", 0)
    assert "OSError: the server is gone" in (result.run_dir / "train.log").read_text()


def test_a_trainer_that_goes_on_after_its_end_is_running(small, own_folder):
    """Defect: it had finished, or failed, until its next end."""
    file = Path("run/run.json")
    trainer = rltrain.make_trainer([*small, "total_env_steps=80"], file.parent)
    trainer.train()
    trainer.callbacks.on_exception(trainer, ValueError("once"))
    trainer.total_env_steps, ended = 600, get_json(file)
    trainer.iterate()
    again = get_json(file)
    assert (ended["error"], again["status"]) == ("ValueError: once", "running")
    assert {"finished", "error"} <= ended.keys() - again.keys()


def test_a_worse_test_of_the_same_step_is_the_final_and_not_the_best_one(small, own_folder):
    trainer, recorded = rltrain.make_trainer(small, run_dir=own_folder / "run"), []
    for value in (5.0, 3.0, 6.0):
        trainer.callbacks.on_test_end(trainer, {"test/return_mean": value})
        record = get_json(own_folder / "run/run.json")
        tests = [record[name]["test/return_mean"] for name in ("best_test", "final_test")]
        recorded.append(tests)
    assert recorded == [[5, 5], [5, 3], [6, 6]]


SECRETS = {
    "WANDB_API_KEY": "0123456789abcdef0123456789abcdef01234567",
    "HF_TOKEN": "hf_notAToken0123456789",
    "SECRET_OF_MINE": "do-not-write-this",
}


def files_with_secrets(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    texts = {path: path.read_bytes() for path in files}
    return [p for p, text in texts.items() if any(s.encode() in text for s in SECRETS.values())]


def test_no_file_of_a_run_holds_a_secret(command, small, own_folder, monkeypatch):
    for name, secret in SECRETS.items():
        monkeypatch.setenv(name, secret)
    words = ["logger=[csv,tensorboard,wandb]", "hydra.run.dir=run", "total_env_steps=60"]
    assert command(*small, *words) == 0
    assert command("mode=evaluate", "checkpoint=run", "test.episodes=1") == 0
    assert files_with_secrets(own_folder) == []


@pytest.mark.slow
def test_wandb_writes_no_secret_either(small, own_folder):
    words = over(small, "logger=[wandb]", "logger.wandb.mode=offline", "hydra.run.dir=run")
    environment = {**os.environ, **SECRETS, "WANDB_MODE": "offline"}
    subprocess.run([sys.executable, "-m", "rltrain", *words], env=environment, check=True)
    assert list(own_folder.rglob("*.wandb"))
    assert files_with_secrets(own_folder) == []
