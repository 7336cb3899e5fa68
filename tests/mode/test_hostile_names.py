"""Names in files of others are shown as text: no control character and no markup in a terminal."""

from __future__ import annotations

import json
import shutil

import pytest

from rltrain.common.checkpoint.run_checkpoints import seal
from rltrain.common.machine.streams import say
from rltrain.errors import UNPRINTABLE, RltrainError
from rltrain.main import run
from tests.mode.test_damaged_runs import change, checkpoints

TEXT = "e\x1b[31m\x9b2J\u202e\x07[/b][bold]z"
NAME = "e\x1b[31m\x9b2J\u202e\x07[bold]z"  # of a file
RUN = (
    ("mode=evaluate", "checkpoint={}", "test.episodes=1"),
    ("resume={}", "total_env_steps=165", "logger.console=true"),
    ("config={}", "total_env_steps=10", "logger.console=true"),
    ("env=two_step", "checkpoint={}", "total_env_steps=10", "logger=[]", "hardware.threads=1"),
    ("mode=report", "runs={}"),
    ("mode=export", "checkpoint={}"),
    ("mode=push", "checkpoint={}", "hub.repo=a/b"),
    ("mode=watch", "checkpoint={}"),
)
"""Commands that read a run."""
RUN_FILES = {
    "run.json": (
        *("status", "started", "version", "git_commit", "error", "machine", "environment"),
        *("final_test", "best_test", "exit_code", "env_steps", "plan", "resumes"),
    ),
    "config.json": (
        *("choices.algo", "choices.env", "choices.buffer", "choices.x", "name", "env._target_"),
        *("env.id", "env.map_name", "env.kwargs", "env.rules", "algo._target_", "hardware.device"),
        *("algo.loss._target_", "algo.network.groups", "callbacks", "logger", "tuned", "trust"),
    ),
    "spec.json": ("agents", "obs_space", "n_agents", "layout", "obs_dtype", "actions"),
    "trainer.json": ("latest", "rollout", "callbacks", "clock"),
}
"""Fields of a run's files."""


def said(capsys, words):
    """The output of a command, and the error that ends it."""
    try:
        run(words)
    except RltrainError as error:
        refused = error
    else:
        return "".join(capsys.readouterr())
    assert refused.exit_code in (2, 3, 4, 5)
    say(f"rltrain: {refused}", error=True)
    return "".join(capsys.readouterr())


def places(run_dir):
    return [run_dir, *checkpoints(run_dir)]


def forge(run_dir, file, path, value):
    for folder in places(run_dir):
        if (folder / file).exists():
            change(folder / file, path, value)
        if folder != run_dir:
            seal(folder, "full")


def folder_of_run(run_dir):
    new = run_dir.parent / "x[" / f"b]{NAME}"
    new.parent.mkdir()
    return run_dir.rename(new)


def checkpoint_of_run(run_dir):
    shutil.copytree(places(run_dir)[-1], run_dir / "checkpoints" / NAME)
    return run_dir


def pointer_of_run(run_dir):
    (run_dir / "checkpoints" / "latest").write_text(NAME)
    (run_dir / "checkpoints" / "best").write_text(TEXT)
    return run_dir


def metrics_of_run(run_dir):
    row = {"env_steps": 200, "updates": 1, TEXT: 1.0, "test/return_mean": 1, f"test/{TEXT}": 2}
    with (run_dir / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n" + TEXT + "\n")
    return run_dir


NAMED = (folder_of_run, checkpoint_of_run, pointer_of_run, metrics_of_run)


@pytest.mark.slow
@pytest.mark.parametrize("words", RUN, ids=lambda words: words[0].partition("=")[2] or words[0])
@pytest.mark.parametrize("named", NAMED)
def test_names_of_folders_checkpoints_and_metrics(trained, capsys, named, words):
    place = named(trained)
    out = said(capsys, [word.format(place, place) for word in words])
    assert not UNPRINTABLE.search(out), out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "path"), [(file, path) for file, paths in RUN_FILES.items() for path in paths]
)
def test_fields_of_the_files_of_a_run(trained_once, own_folder, capsys, file, path):
    value = {TEXT: [TEXT]}
    for words in RUN:
        shutil.rmtree("r", ignore_errors=True)
        shutil.copytree(trained_once, "r")
        forge(own_folder / "r", file, path, value)
        out = said(capsys, [word.format("r", "r") for word in words])
        assert not UNPRINTABLE.search(out), (words, out)


def test_a_title_is_no_markup(trained, capsys):
    forge(trained, "config.json", "choices.algo", "e[/b][bold]z")
    assert "[bold]z" in said(capsys, ["mode=evaluate", f"checkpoint={trained}", "test.episodes=1"])
