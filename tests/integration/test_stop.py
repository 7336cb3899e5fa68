"""When runs and other commands end early: a metric, hours, signals."""

import signal
import subprocess
import sys
import time

import pytest

import rltrain
from rltrain.callback import Stop
from rltrain.common.files import get_json
from rltrain.common.machine.time_and_memory import Usage
from tests.helpers import over, rows


class Trainer:
    """As much of a trainer as Stop looks at."""

    def __init__(self, seconds=0.0, **latest):
        self.latest = {name.replace("_", "/", 1): value for name, value in latest.items()}
        self.seconds, self.why, self.usage = seconds, None, Usage()

    def stop(self, why):
        self.why = why


def reason(metric=None, mode="max", value=None, hours=None, **facts):
    trainer = Trainer(**facts)
    Stop(metric=metric, mode=mode, value=value, hours=hours).on_iteration(trainer)
    return trainer.why


NAN = float("nan")


@pytest.mark.parametrize(
    ("given", "facts", "stops"),
    [
        *(
            ({"metric": "test/win_rate", "value": 0.9}, {"test_win_rate": now}, now >= 0.9)
            for now in (0.89, 0.9, 1.0, NAN)
        ),
        *(
            ({"metric": "learn/loss", "mode": "min", "value": 0.3}, {"learn_loss": now}, now <= 0.3)
            for now in (0.31, 0.3, 0.1, NAN)
        ),
        ({"metric": "test/win_rate", "value": 0.9}, {"train_win_rate": 1.0}, False),
        ({"hours": 1.5}, {"seconds": 5399.9}, False),
        ({"hours": 1.5}, {"seconds": 5400.0}, "1.5 hours are over"),
    ],
)
def test_a_run_stops_once_its_metric_or_its_time_is_reached(given, facts, stops):
    why = reason(**given, **facts)
    assert why == stops if isinstance(stops, str) else (why is not None) is stops


def test_a_run_goes_on_until_a_falling_metric_is_low_enough(small, tmp_path):
    overrides = ["stop.metric=train/epsilon", "stop.mode=min", "stop.value=0.5"]
    trainer = rltrain.make_trainer([*small, *overrides], run_dir=tmp_path)
    trainer.train()
    assert 38 <= trainer.clock.env_steps < 75  # epsilon falls from 1 to 0.05 until step 75


def test_a_metric_that_an_environment_does_not_count_is_warned_of_after_the_first_test(caplog):
    reason(metric="test/score_mean", value=1, train_return_mean=1.0)
    reason(metric="test/score_mean", value=1, test_return_mean=1.0, test_score_mean=0.0)
    assert not caplog.text
    reason(metric="test/score_mean", value=1, test_return_mean=1.0)
    assert "not stop on stop.metric=test/score_mean: the environment does not" in caplog.text
    assert "There are test/return_mean." in caplog.text


def test_hours_count_from_the_start_or_the_resume(small, tmp_path):
    """Defect: a run that was resumed after its time limit ended at once."""
    overrides = [*small, "stop.hours=1", "total_env_steps=1000000"]
    first = rltrain.make_trainer(overrides, run_dir=tmp_path)
    first.usage.begun -= 3600.0
    first.run(1_000_000)
    assert first.stopping == "1 hours are over"
    assert first.clock.env_steps < 100
    first.save()
    first.close()
    trainer = rltrain.make_trainer(overrides, run_dir=tmp_path)
    trainer.restore(tmp_path)
    assert trainer.seconds >= 3600.0
    trainer.run(first.clock.env_steps + 20)
    assert trainer.stopping is None
    trainer.usage.begun -= 3600.0
    trainer.run(1_000_000)
    assert trainer.stopping == "1 hours are over"


def results_of(trainer):
    """Env steps and mean return of every test in metrics.jsonl."""
    name, there = "test/return_mean", (trainer.run_dir / "metrics.jsonl").exists()
    return [(row["env_steps"], row[name]) for row in rows(trainer, name)] if there else []


@pytest.mark.slow
@pytest.mark.parametrize("at", [0, 100])
def test_a_test_cut_short_is_played_again_by_the_resumed_run(small, tmp_path, at):
    overrides = [*small, "test.epsilon=0.5", "test.episodes=16"]
    whole = rltrain.make_trainer(overrides, run_dir=tmp_path / "whole")
    whole.train()
    part = rltrain.make_trainer(overrides, run_dir=tmp_path / "part")
    env, env_steps = part.test_rollout.env, []
    step = env.step

    def interrupting(*args):
        if part.clock.env_steps >= at:
            env_steps.append(part.clock.env_steps)
        if len(env_steps) == 3:
            part.stop("SIGINT", interrupted=True)
        return step(*args)

    env.step = interrupting
    part.train()
    part.close()
    assert part.clock.env_steps < whole.clock.env_steps
    assert len(results_of(part)) < len(results_of(whole))
    resumed = rltrain.make_trainer(overrides, run_dir=tmp_path / "part")
    resumed.restore(tmp_path / "part")
    resumed.train()
    assert results_of(resumed) == results_of(whole)


def test_a_resumed_run_may_play_another_number_of_test_episodes(small, tmp_path):
    trainer = rltrain.make_trainer(small, run_dir=tmp_path)
    trainer.restore(trainer.save())
    trainer.close()
    fewer = rltrain.make_trainer([*small, "test.episodes=1"], run_dir=tmp_path)
    fewer.restore(tmp_path)
    assert fewer.test_rollout.env.n_envs < trainer.test_rollout.env.n_envs
    assert fewer.test()


def test_a_resume_of_a_run_that_a_metric_ended_changes_nothing(small):
    """Defect: every resume trained one more iteration and made another test."""
    words = [*small, "stop.metric=test/return_mean", "stop.value=-100", "save.interval=1"]
    run = rltrain.train(words).run_dir
    before = get_json(run / "run.json")
    assert 0 < before["env_steps"] < 40
    for more in ({}, {"total_env_steps": 400}):
        rltrain.resume(run, **more)
        after = get_json(run / "run.json")
        for name in ("env_steps", "updates", "status", "final_test", "best_test"):
            assert after[name] == before[name], (name, more)
    overrides = ["stop.metric=null", "stop.value=null", "total_env_steps=60"]
    rltrain.resume(run, overrides=overrides)
    assert get_json(run / "run.json")["env_steps"] >= 60


ENV = """
import gymnasium
from pathlib import Path


class Endless(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample(), {}

    def step(self, action):
        Path("playing").touch()
        return self.observation_space.sample(), 0.0, False, False, {}

    def close(self):
        Path("closed").touch()
"""


def started(*words):
    """A command in a process of its own, with what it prints as text."""
    line = [sys.executable, "-m", "rltrain", *words]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_an_evaluation_is_left_in_order(own_folder, no_nohup, name):
    """Defect: SIGTERM and SIGHUP ended commands other than training on the spot."""
    (own_folder / "endless.py").write_text(ENV)
    words = ["mode=evaluate", "algo=scripted", "algo.policy=random", "env=gymnasium"]
    process = started(*words, "env.id=endless:Endless", "test.episodes=1", "test.n_envs=1")
    for _ in range(600):
        if (own_folder / "playing").exists() or process.poll() is not None:
            break
        time.sleep(0.1)
    process.send_signal(getattr(signal, name))
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + getattr(signal, name), printed
    assert (own_folder / "closed").exists()
    assert "Traceback" not in printed


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_save_and_say_how_to_go_on(small, own_folder, number, code):
    words = ["total_env_steps=1000000", "logger.console=true", "hydra.run.dir=run"]
    process = started(*over(small, *words))
    for line in process.stdout:
        if line.startswith("train "):
            process.send_signal(number)
            break
    printed = process.stdout.read()
    assert process.wait() == code
    assert "Everything is saved." in printed
    assert "rltrain resume=run" in printed
    record = get_json(own_folder / "run/run.json")
    assert (record["status"], record["exit_code"]) == ("interrupted", code)
    assert (own_folder / "run/checkpoints/latest").exists()
