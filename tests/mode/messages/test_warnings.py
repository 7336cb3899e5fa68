"""Start-up warnings: what is reported, and that the rest is not; also of a checkpoint that was
trained under another version of the battle rules.
"""

import json
import shlex

import gymnasium
import numpy as np
import pytest

import rltrain
from rltrain.mode.messages.warnings import other_rules
from tests.conftest import SMALL
from tests.env.scripted import Plain
from tests.helpers import data_rows, over, without

DQN = [
    *("algo=dqn", "env=cartpole", "tuned=none", "buffer.capacity=2000", "hardware.n_envs=2"),
    "test.n_envs=1",
]
QTRAN = [
    *("algo=qtran", "env=smac", "env.map_name=3m", "tuned=none", "buffer.capacity=200"),
    *("hardware.n_envs=2", "test.n_envs=1", "stop.value=0.5", "hardware.threads=1"),
]
BASES = {
    "cartpole": DQN,
    "cartpole until a metric is 0.5": [*DQN, "algo.exploration.env_steps=100", "stop.value=0.5"],
    "qtran on 3m until a metric is 0.5": QTRAN,
    "two_step": SMALL,
}


@pytest.mark.parametrize(
    "row", [*data_rows("warned_commands.txt")], ids=lambda row: " ".join(row[:2])
)
def test_what_a_command_is_warned_of(tmp_path, caplog, row):
    base, line, *texts = row
    words = without(BASES[base], "algo.exploration") if "algo/expl" in line else BASES[base]
    rltrain.make_trainer(over(words, *shlex.split(line)), run_dir=tmp_path)
    for text in texts:
        assert (text.removeprefix("not ") in caplog.text) != text.startswith("not ")


def test_images_without_convolutions_are_warned_of(tmp_path, caplog):
    class Pixels(Plain):
        observation_space = gymnasium.spaces.Box(0, 255, (10, 10, 3), np.uint8)

    overrides = ["buffer.capacity=2000", "hardware.n_envs=1", "test.n_envs=1"]
    rltrain.make_trainer(["algo=dqn", *overrides], env=Pixels, run_dir=tmp_path / "a")
    assert "observations are images 3×10×10, and algo/network=q_network takes" in caplog.text
    caplog.clear()
    conv = ["algo/network=conv", "algo.network.filters=[[4,3,1]]"]
    rltrain.make_trainer(["algo=dqn", *conv, *overrides], env=Pixels, run_dir=tmp_path / "b")
    assert "images" not in caplog.text


def test_the_warning_is_in_the_log_of_a_run(small):
    result = rltrain.train([*small, "total_env_steps=30"])
    assert "exploration falls until env step 75" in (result.run_dir / "train.log").read_text()


NOW = {"backend": "native", "rules_version": "4"}


def checkpoint_of(folder, environment):
    facts = {} if environment is None else {"environment": environment}
    (folder / "run.json").write_text(json.dumps(facts), encoding="utf-8")
    return folder / "checkpoints" / "100"


@pytest.mark.parametrize("key", ["rules", "rules_version"])
def test_another_version_is_remarked_with_both_names(tmp_path, key):
    trained = {"backend": "native", key: "smaclite"}
    (remark,) = other_rules(checkpoint_of(tmp_path, trained), NOW)
    assert "version smaclite" in remark
    assert "version 4" in remark


def test_of_a_long_version_the_beginning_is_shown(tmp_path):
    trained = {**NOW, "rules_version": "A" * 300_000}
    (remark,) = other_rules(checkpoint_of(tmp_path, trained), NOW)
    assert len(remark) < 500


@pytest.mark.parametrize(
    "trained",
    [NOW, {**NOW, "rules_version": "3, 4"}, {"backend": "sc2"}, {"backend": "native"}, None],
)
def test_the_same_version_the_game_and_unknown_runs_are_not_remarked(tmp_path, trained):
    assert other_rules(checkpoint_of(tmp_path, trained), NOW) == ()
    assert other_rules(checkpoint_of(tmp_path, trained), {}) == ()
