"""Start-up warnings: what is reported, and that the rest is not; also of a checkpoint that was
trained under another version of the battle rules.
"""

import json

import gymnasium
import numpy as np
import pytest

import rltrain
from rltrain.mode.messages.warnings import other_rules
from tests.env.scripted import Plain


def without(overrides, *starts):
    return [w for w in overrides if not w.startswith(starts)]


def heard(caplog, overrides, folder):
    """What is warned of before a run begins."""
    caplog.clear()
    rltrain.make_trainer(overrides, run_dir=folder)
    return caplog.text


DQN = [
    *("algo=dqn", "env=cartpole", "tuned=none", "buffer.capacity=2000", "hardware.n_envs=2"),
    "test.n_envs=1",
]
SHORT = "algo.exploration.env_steps=100"
ALONE = ["algo/exploration=greedy"]
EXPLORES = [
    ([*DQN, *ALONE], "nothing explores"),
    ([*DQN, *ALONE, "algo.network.noisy_sigma=0.5"], None),
    (["algo=rainbow", *DQN[1:], "algo.network.noisy_sigma=null"], "nothing explores"),
    ([*DQN, SHORT, "algo.network.noisy_sigma=0.5"], "both explore"),
    ([*DQN, "algo.exploration.start=0", "algo.exploration.end=0"], "nothing explores"),
    ([*DQN, "algo/exploration=per_env", "hardware.n_envs=1"], "epsilon stays 0.4"),
    ([*DQN, "algo/exploration=per_env"], None),
    ([*DQN, SHORT], None),
]


@pytest.mark.parametrize(("overrides", "warning"), EXPLORES, ids=lambda x: str(x)[-60:])
def test_exploration(tmp_path, caplog, overrides, warning):
    said = heard(caplog, overrides, tmp_path)
    assert warning in said if warning else "explor" not in said


TAU = "algo.target_update.tau=0.01"
OFTEN = ["algo.target_update.episodes=null", "algo.target_update.updates=1"]


@pytest.mark.parametrize(
    ("overrides", "warning"),
    [
        ([TAU], "half of the way takes 13,794 episodes. Type algo.target_update.episodes=null "),
        (["algo.target_update.tau=1e-17"], "takes 13,862,943,611,198,904,320 episodes"),
        ([TAU, *OFTEN], None),
        ([], None),
    ],
)
def test_a_polyak_factor_with_the_period_of_copies(small, tmp_path, caplog, overrides, warning):
    said = heard(caplog, [*small, *overrides], tmp_path)
    assert warning in said if warning else "target" not in said


STOPS = [
    ("test/win_rate", "env=cartpole does not report whether its episodes are won"),
    ("train/temperature", "algo/exploration=epsilon_greedy has none"),
    ("learn/lr", "with algo.lr_factors only"),
    ("learn/clipped_target_mass", "with algo/distribution=categorical only"),
    ("offline/is_return", "with dataset.read only"),
    ("custom/success", "custom metrics come from callbacks"),
    ("test/draw_rate", "env=cartpole does not report whether its episodes are won"),
    ("learn/opt_loss", "with algo/loss=qtran only"),
    ("learn/weight_mean", "with algo/loss=weighted only"),
    ("learn/td_error_abs", None),
    ("train/epsilon", None),
    ("test/return_mean", None),
]


@pytest.mark.parametrize(("metric", "warning"), STOPS)
def test_a_metric_to_stop_on_that_is_never_reported(tmp_path, caplog, metric, warning):
    overrides = [f"stop.metric={metric}", "stop.value=0.5"]
    said = heard(caplog, [*DQN, SHORT, *overrides], tmp_path)
    assert f"will not stop on stop.metric={metric}: " in said if warning else "stop" not in said
    assert (warning or "") in said


TEAM = [
    *("algo=qtran", "env=smac", "env.map_name=3m", "tuned=none", "buffer.capacity=200"),
    *("hardware.n_envs=2", "test.n_envs=1", "stop.value=0.5", "hardware.threads=1"),
]
DRAWS = "draws are counted against an opponent only"


@pytest.mark.parametrize(
    ("overrides", "warning"),
    [
        (["stop.metric=test/draw_rate"], DRAWS),
        (["stop.metric=train/draw_rate", "test.opponent=closest"], DRAWS),
        (["stop.metric=test/draw_rate", "env.opponent=closest"], DRAWS),
        (["stop.metric=test/draw_rate", "test.opponent=closest"], None),
        (["stop.metric=train/draw_rate", "env.opponents={builtin: 1, closest: 1}"], None),
        (["stop.metric=train/win_rate/closest", "env.opponents={builtin: 1, closest: 1}"], None),
        (["stop.metric=learn/opt_loss"], None),
    ],
)
def test_a_metric_of_battles_that_is_never_reported(tmp_path, caplog, overrides, warning):
    said = heard(caplog, [*TEAM, *overrides], tmp_path)
    assert warning in said if warning else "will not stop" not in said


ENDS = "total_env_steps=30"
EXPLORATIONS = [
    ([ENDS], "env_steps"),
    (["algo/exploration=exponential", "algo.exploration.half_life=20", ENDS], "half_life"),
    (["algo/exploration=piecewise", "algo.exploration.points=[[0,1],[300,0]]", ENDS], "points"),
    ([], None),  # shorter
    (["total_env_steps=40"], None),  # a little longer
    (["algo/exploration=per_env"], None),  # constant
]


@pytest.mark.parametrize(("overrides", "key"), EXPLORATIONS, ids=lambda x: str(x))
def test_exploration_twice_as_long_as_the_run_is_warned_of(small, tmp_path, caplog, overrides, key):
    if any(word.startswith("algo/exploration") for word in overrides):
        small = without(small, "algo.exploration")
    said = heard(caplog, [*small, *overrides], tmp_path)
    if key is None:
        assert "exploration" not in said
    else:
        assert "the run ends at 30" in said
        assert f"Lower algo.exploration.{key}" in said


def test_a_run_that_cannot_learn_says_so(small, tmp_path, caplog):
    rltrain.make_trainer([*small, "algo.learning_starts=400"], run_dir=tmp_path)
    assert "learning may never begin: it waits for algo.learning_starts=400" in caplog.text


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


def test_a_memory_that_single_transitions_cannot_teach_is_warned_of(small, tmp_path, caplog):
    for kind in ("episode", "sequence", "replay"):
        assert "remembers" not in caplog.text
        overrides = [*small, f"buffer={kind}", "buffer.capacity=2000"]
        rltrain.make_trainer(overrides, run_dir=tmp_path / kind)
    assert "the network remembers, but it learns from single transitions" in caplog.text


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
