"""The trained agents that come with rltrain: they play well, and nothing is written beside them.

Where a configuration has new keys, ``python -m benchmarks.demos --configs`` writes theirs again.
"""

import shutil

import numpy as np
import pytest

import rltrain
from rltrain.errors import CheckpointError, UsageError
from rltrain.mode.find_run import DEMOS, find_checkpoint

NAMES = sorted(path.parent.name for path in DEMOS.glob("*/run.json"))
FILES = {path: path.stat().st_mtime_ns for path in DEMOS.rglob("*")}


def test_they_are_small():
    assert set(NAMES) == {"cartpole", "3m", "2s3z", "MMM"}
    assert sum(path.stat().st_size for path in FILES if path.is_file()) < 1_000_000


@pytest.mark.parametrize("name", NAMES)
def test_they_play_well(name, command, tmp_path):
    metrics = rltrain.evaluate(f"demo/{name}", episodes=20).metrics
    assert metrics.get("test/win_rate", metrics["test/return_mean"] / 500) >= 0.6
    assert list(tmp_path.glob("outputs/evaluate/*/evaluation.json"))
    assert {path: path.stat().st_mtime_ns for path in DEMOS.rglob("*")} == FILES


def test_a_folder_of_that_name_wins(tmp_path):
    assert find_checkpoint("demo/3M").folder.is_relative_to(DEMOS / "3m")
    shutil.copytree(DEMOS / "cartpole", tmp_path / "demo/3m")
    assert find_checkpoint("demo/3m").folder.is_relative_to(tmp_path)


def test_a_new_run_starts_from_one(small, tmp_path):
    run = ["algo=dqn", "env=cartpole", "checkpoint=demo/cartpole", "total_env_steps=40"]
    made = rltrain.make_trainer([*run, "hardware.threads=1", "logger=[]"], run_dir=tmp_path / "r")
    states = made.learner.state_dict()
    assert states["online"].keys() == states["target"].keys()
    for name, weight in states["online"].items():
        assert np.array_equal(weight, states["target"][name]), name
    made.close()


@pytest.mark.parametrize(
    ("overrides", "error", "words"),
    [
        (
            "mode=evaluate checkpoint=demo/8m",
            CheckpointError,
            "demo/2s3z, demo/3m, demo/MMM, demo/cart",
        ),
        ("resume=demo/3m", UsageError, "have weights only and cannot be continued"),
    ],
)
def test_what_there_is_not(command, overrides, error, words):
    with pytest.raises(error, match=words):
        command(*overrides.split())
