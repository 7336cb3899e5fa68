"""When runs end early, and the warning of those that end too early."""

from __future__ import annotations

import json

import gymnasium
import numpy as np
import pytest

import rltrain
from rltrain.callback import Stop


class Trainer:
    """As much of a trainer as Stop looks at."""

    def __init__(self, seconds=0.0, **latest):
        self.latest = {name.replace("_", "/", 1): value for name, value in latest.items()}
        self.seconds, self.why = seconds, None

    def stop(self, why):
        self.why = why


def reason(metric=None, value=None, hours=None, **facts):
    trainer = Trainer(**facts)
    Stop(metric=metric, value=value, hours=hours).on_iteration(trainer)
    return trainer.why


@pytest.mark.parametrize(
    ("now", "stops"), [(0.89, False), (0.9, True), (1.0, True), (float("nan"), False)]
)
def test_a_run_stops_once_its_metric_reaches_the_value(now, stops):
    why = reason(metric="test/win_rate", value=0.9, test_win_rate=now)
    assert (why is not None) is stops


def test_other_metrics_do_not_stop_it():
    assert reason(metric="test/win_rate", value=0.9, train_win_rate=1.0) is None


@pytest.mark.parametrize(("seconds", "stops"), [(5399.9, False), (5400.0, True)])
def test_a_run_stops_after_its_hours(seconds, stops):
    assert (reason(hours=1.5, seconds=seconds) == "1.5 hours are over") is stops


def test_hours_count_those_before_a_resume(small, tmp_path):
    words = [*small, "stop.hours=1", "total_env_steps=1000000"]
    trainer = rltrain.make_trainer(words, run_dir=tmp_path)
    trainer.seconds_before = 3600.0
    trainer.run(1_000_000)
    assert trainer.clock.env_steps < 100
    assert trainer.stopping == "1 hours are over"


def results_of(trainer):
    """Env steps and mean return of every test in metrics.jsonl."""
    path = trainer.run_dir / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [(r["env_steps"], r["test/return_mean"]) for r in lines if "test/return_mean" in r]


@pytest.mark.parametrize("at", [pytest.param(0, marks=pytest.mark.slow), 200])
def test_a_test_cut_short_is_played_again_by_the_resumed_run(small, tmp_path, at):
    words = [*small, "test.epsilon=0.5", "test.episodes=16"]
    whole = rltrain.make_trainer(words, run_dir=tmp_path / "whole")
    whole.train()
    part = rltrain.make_trainer(words, run_dir=tmp_path / "part")
    env, slots = part.test_rollout.env, []
    step = env.step

    def interrupting(*args):
        if part.clock.env_steps >= at:
            slots.append(part.clock.env_steps)
        if len(slots) == 3:
            part.stop("SIGINT", interrupted=True)
        return step(*args)

    env.step = interrupting
    part.train()
    assert part.clock.env_steps < whole.clock.env_steps
    assert len(results_of(part)) < len(results_of(whole))
    resumed = rltrain.make_trainer(words, run_dir=tmp_path / "part")
    resumed.restore(tmp_path / "part")
    resumed.train()
    assert results_of(resumed) == results_of(whole)


def test_a_resumed_run_may_play_another_number_of_test_episodes(small, tmp_path):
    trainer = rltrain.make_trainer(small, run_dir=tmp_path)
    trainer.restore(trainer.save())
    fewer = rltrain.make_trainer([*small, "test.episodes=1"], run_dir=tmp_path)
    fewer.restore(tmp_path)
    assert fewer.test_rollout.env.n_envs < trainer.test_rollout.env.n_envs
    assert fewer.test()


EXPLORATIONS = [
    ([], "env_steps"),
    (["algo/exploration=exponential", "algo.exploration.half_life=20"], "half_life"),
    (["algo/exploration=piecewise", "algo.exploration.points=[[0,1],[300,0]]"], "points"),
]


@pytest.mark.parametrize(("words", "key"), EXPLORATIONS, ids=lambda x: str(x))
def test_an_exploration_that_outlasts_the_run_is_warned_of(small, tmp_path, caplog, words, key):
    if words:
        small = [w for w in small if not w.startswith("algo.exploration")]
    total = 150 if not words else 200
    rltrain.make_trainer([*small, *words, f"total_env_steps={total}"], run_dir=tmp_path)
    assert f"the run ends at {total}" in caplog.text
    assert f"Set algo.exploration.{key} to less" in caplog.text


@pytest.mark.parametrize("words", [[], ["algo/exploration=per_copy"]], ids=["shorter", "constant"])
def test_others_are_not(small, tmp_path, caplog, words):
    if words:
        small = [w for w in small if not w.startswith("algo.exploration")]
    rltrain.make_trainer([*small, *words], run_dir=tmp_path)
    assert "exploration" not in caplog.text


def test_a_run_that_cannot_learn_says_so(small, tmp_path, caplog):
    rltrain.make_trainer([*small, "algo.learning_starts=400"], run_dir=tmp_path)
    assert "learning may never begin: it waits for algo.learning_starts=400" in caplog.text


def test_images_without_convolutions_are_warned_of(tmp_path, caplog):
    class Pixels(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(0, 255, (10, 10, 3), np.uint8)
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return np.zeros((10, 10, 3), np.uint8), {}

    words = ["buffer.capacity=2000", "hardware.n_envs=1", "test.n_envs=1"]
    rltrain.make_trainer(["algo=dqn", *words], env=Pixels, run_dir=tmp_path / "a")
    assert "observations are images 3×10×10, and algo/network=q_network takes" in caplog.text
    caplog.clear()
    conv = ["algo/network=conv", "algo.network.filters=[[4,3,1]]"]
    rltrain.make_trainer(["algo=dqn", *conv, *words], env=Pixels, run_dir=tmp_path / "b")
    assert "images" not in caplog.text


def test_a_memory_that_single_transitions_cannot_teach_is_warned_of(small, tmp_path, caplog):
    for kind in ("episode", "sequence", "replay"):
        assert "remembers" not in caplog.text
        words = [*small, f"buffer={kind}", "buffer.capacity=2000"]
        rltrain.make_trainer(words, run_dir=tmp_path / kind)
    assert "the network remembers, but it learns from single transitions" in caplog.text


def test_the_warning_is_in_the_log_of_a_run(small):
    result = rltrain.train([*small, "total_env_steps=60"])
    assert (
        "the exploration changes until env step 150" in (result.run_dir / "train.log").read_text()
    )
