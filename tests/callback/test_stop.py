"""Undone updates are warned of and end the run; a support that targets leave is reported once."""

import json
import logging
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import rltrain
from rltrain.callback import Callback, Callbacks
from rltrain.callback.stop import Health
from rltrain.errors import DivergedError
from rltrain.types import Clock, UpdateResult


def stand_in(folder):
    """As much of a trainer as Health looks at."""
    return SimpleNamespace(clock=Clock(), run_dir=folder, diverging=False)


def learn(health, trainer, undone):
    """One update and a look at the run for each of ``undone``."""
    for skipped in undone:
        trainer.clock = trainer.clock.after_update()
        metrics = {"skipped_updates": torch.tensor(float(skipped))}
        health.on_update(trainer, UpdateResult(torch.zeros(1), metrics))
        health.on_iteration(trainer)


def test_a_hundred_undone_updates_in_a_row_are_warned_of_once(tmp_path, caplog):
    health, trainer = Health(), stand_in(tmp_path)
    learn(health, trainer, [1] * 99 + [0] + [1] * 99 + [0])
    assert not caplog.text
    learn(health, trainer, [1] * 300)
    assert caplog.text.count("updates were undone") == 1
    assert trainer.diverging
    learn(health, trainer, [0] * 100)
    assert not trainer.diverging


def test_a_thousand_undone_updates_in_a_row_end_the_run(tmp_path):
    health, trainer = Health(), stand_in(tmp_path)
    learn(health, trainer, [1] * 950 + [0])
    with pytest.raises(DivergedError, match="Learning diverged: the last 1,"):
        learn(health, trainer, [1] * 1_100)
    assert 1_000 <= trainer.clock.updates - 951 < 1_100


def test_updates_most_of_which_are_undone_are_warned_of_once(tmp_path, caplog):
    """Defect: three of four were undone, never a hundred in a row, and nothing was said."""
    health, trainer = Health(), stand_in(tmp_path)
    health.on_log(trainer, {"learn/skipped_updates": 0.5})
    assert not caplog.text
    for _ in range(3):
        health.on_log(trainer, {"learn/skipped_updates": 0.75})
    assert caplog.text.count("75% of the updates since the last log row were undone") == 1
    again = Health()
    again.load_state_dict(json.loads(json.dumps(health.state_dict())))
    again.on_log(trainer, {"learn/skipped_updates": 0.75})
    assert caplog.text.count("were undone") == 1


def test_the_count_outlives_a_resume(tmp_path):
    health, again, trainer = Health(), Health(), stand_in(tmp_path)
    learn(health, trainer, [1] * 700)
    again.load_state_dict(json.loads(json.dumps(health.state_dict())))
    with pytest.raises(DivergedError):
        learn(again, trainer, [1] * 400)


class Poisoned(Callback):
    """Rewards are infinite from an env step on."""

    def on_batch(self, trainer, value):
        if trainer.clock.env_steps >= 250:
            value.reward.fill_(np.inf)
        return value


@pytest.mark.slow
def test_a_run_whose_updates_are_all_undone_exits_with_5_and_its_last_good_checkpoint(
    command, small, own_folder
):
    overrides = [w for w in small if not w.startswith(("total_env_steps", "test.interval"))]
    overrides += ["total_env_steps=100000", "algo.updates_per_episode=20", "save.keep_last=1"]
    overrides += ["callbacks=[{_target_: tests.callback.test_stop.Poisoned}]"]
    assert command(*overrides, "hydra.run.dir=run") == 5
    record = json.loads((own_folder / "run/run.json").read_text())
    assert (record["status"], record["exit_code"]) == ("failed", 5)
    assert "The checkpoint of env step 2" in record["error"]
    latest = (own_folder / "run/checkpoints/latest").read_text().strip()
    assert 200 <= int(latest) < 250 + 3 * 8
    assert (own_folder / "run/checkpoints" / latest / "trainer.json").exists()


@pytest.mark.slow
def test_a_categorical_support_that_targets_leave_is_warned_of_once(tmp_path, caplog):
    overrides = ["algo=c51", "env=cartpole", "total_env_steps=120", "algo.learning_starts=30"]
    overrides += ["hardware.n_envs=1", "hardware.threads=1", "buffer.capacity=2000"]
    overrides += ["log.interval=40"]
    overrides += ["algo.exploration.env_steps=100", "test.episodes=1", "test.interval=1000"]
    narrow = ["algo.distribution.v_min=-1", "algo.distribution.v_max=1"]
    trainer = rltrain.make_trainer([*overrides, *narrow], run_dir=tmp_path / "narrow")
    trainer.train()
    assert caplog.text.count("lies outside algo.distribution.v_min … v_max") == 1
    caplog.clear()
    wide = ["algo.distribution.v_min=-1", "algo.distribution.v_max=100"]
    rltrain.make_trainer([*overrides, *wide], run_dir=tmp_path / "wide").train()
    assert "outside" not in caplog.text


def test_others_have_no_support_to_leave(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        Health().on_log(stand_in(tmp_path), {"learn/loss": 1.0})
    assert not caplog.text


def test_health_is_part_of_every_run(small, tmp_path):
    trainer = rltrain.make_trainer(small, run_dir=tmp_path)
    assert isinstance(trainer.callbacks, Callbacks)
    assert any(isinstance(c, Health) for c in trainer.callbacks.callbacks)
