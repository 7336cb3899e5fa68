"""Checkpoints of a trainer: what is kept and restored. tests/integration/promises resumes runs."""

import os
from contextlib import closing

import numpy as np
import pytest
import torch
from gymnasium.envs.classic_control import CartPoleEnv

import rltrain
from rltrain.callback import Callbacks
from rltrain.common.checkpoint import write
from rltrain.errors import UsageError
from rltrain.mode.run_folder import run_lock
from rltrain.types import Clock
from tests.env.scripted import Plain
from tests.helpers import Trace, traced, trained, weights


def test_a_checkpoint_saved_by_hand_is_the_latest_and_older_ones_make_room(small, tmp_path):
    overrides = [w for w in small if not w.startswith("save.interval")]
    overrides += ["save.interval=100000", "save.keep_last=2", "test.interval=100000"]
    trainer = rltrain.make_trainer(overrides, run_dir=tmp_path)
    for until in (25, 50, 75):
        trainer.run(until)
        folder = trainer.save()
        assert (tmp_path / "checkpoints/latest").read_text().strip() == folder.name
    kept = [p.parent for p in (tmp_path / "checkpoints").glob("*/trainer.json")]
    assert len(kept) == 2
    assert [p.name for p in kept if (p / "replay.json").exists()] == [folder.name]
    exported = trainer.export(tmp_path / "mine")
    trainer.run(100)
    trainer.save("weights")
    assert (tmp_path / "checkpoints/latest").read_text().strip() == folder.name
    assert exported.exists()


def test_a_checkpoint_counts_on_rows_that_a_power_loss_leaves(small, tmp_path, monkeypatch):
    """Defect: rows before a checkpoint, which a resumed run does not write again, could be lost."""
    trainer = trained(small, tmp_path, 40)
    synced = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(opened(handle)))
    trainer.save()
    first_of_checkpoint = min(i for i, path in enumerate(synced) if "checkpoints/.tmp" in path)
    assert {f"{tmp_path}/metrics.jsonl", str(tmp_path)} <= set(synced[:first_of_checkpoint])


def opened(handle):
    """The file of a handle."""
    return os.readlink(f"/proc/self/fd/{handle}")


def test_a_folder_of_checkpoints_outlives_a_power_loss(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(opened(handle)))
    write(tmp_path / "checkpoints", 1, {"spec": {}})
    assert str(tmp_path) in synced


class Unseeded(CartPoleEnv):
    """Begins somewhere, whatever its seed."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=None, options=options)


class Rewarded(Plain):
    """Rewards every step the same, as its task says."""

    length = 4


@pytest.mark.parametrize(("env", "said"), [(CartPoleEnv, 0), (Unseeded, 1)])
def test_a_resume_says_where_environments_cannot_continue(single, tmp_path, env, said, caplog):
    overrides = [w for w in single if not w.startswith("env=")]
    overrides += ["algo=dqn", "algo.learning_starts=20"]
    trainer = rltrain.make_trainer(overrides, tmp_path, env=env)
    trainer.run(30)
    trainer.save()
    rltrain.make_trainer(overrides, tmp_path, env=env).restore(tmp_path)
    assert caplog.text.count("do not repeat their open episodes") == said


def test_a_part_of_an_update_that_is_owed_outlives_a_resume(small, tmp_path):
    """Two episodes of 0.7 updates: one is made, 0.4 of the next are owed."""
    overrides = [*small, "algo.updates_per_episode=0.7", "algo.batch_size=1"]
    first = trained(overrides, tmp_path, 10)
    assert 0 < first.update_ratio.owed < first.update_ratio.unit
    second = rltrain.make_trainer(overrides, run_dir=tmp_path)
    second.restore(first.save())
    assert second.update_ratio.owed == first.update_ratio.owed


def test_a_resume_goes_on_with_torchs_random_stream(small, tmp_path):
    first = trained(small, tmp_path, 10)
    with first.random:
        torch.rand(3)  # as noisy layers would
        folder = first.save()
        expected = torch.rand(4)
    second = rltrain.make_trainer(small, run_dir=tmp_path)
    second.restore(folder)
    with second.random:
        assert torch.equal(torch.rand(4), expected)


def test_what_was_saved_can_be_started_from(small, tmp_path):
    done = trained(small, tmp_path / "a")
    folder = done.save()
    fresh = rltrain.make_trainer([*small, f"checkpoint={folder}", "seed=9"], run_dir=tmp_path / "b")
    assert torch.equal(weights(fresh), weights(done))
    assert fresh.clock == Clock()


def test_without_a_saved_replay_the_environments_begin_new_episodes(small, tmp_path):
    first = trained(small, tmp_path, 51)
    folder = first.save(with_replay=False)
    second = rltrain.make_trainer(small, run_dir=tmp_path)
    hooks = first.step_hooks
    hooks.open, hooks.begun, hooks.t = np.ones(3, np.bool_), *np.ones((2, 3), np.int64)
    folder = first.save(with_replay=False)
    first.close()
    assert "collecting again" in second.restore(folder).remarks[-1]
    assert second.step_hooks.open.tolist() == [False] * 3
    second.started = True
    second.run(100)
    assert set(second.buffer._length[: second.buffer.n_episodes].tolist()) == {2}


@pytest.mark.slow
def test_new_episodes_after_a_resume_are_not_those_of_the_beginning(small, tmp_path):
    """Defect: without a saved replay the environments played their first episodes again."""
    first = trained(small, tmp_path, 51)
    folder = first.save(with_replay=False)
    first.close()
    second = rltrain.make_trainer(small, run_dir=tmp_path)
    second.restore(folder)
    skip = first.clock.episodes
    assert skip > 10
    asked = []
    seeds = second.rollout.seeds
    second.rollout.seeds = lambda i, k: asked.append((i, k)) or seeds(i, k)
    second.started = True
    second.run(75)
    assert {(copy, skip) for copy in range(3)} <= set(asked)
    assert min(k for _, k in asked) == skip
    third = rltrain.make_trainer(small, run_dir=tmp_path)
    third.restore(second.save())
    assert third.rollout._skip == skip


@pytest.mark.slow
def test_what_outlives_episodes_is_restored_without_a_replay(tmp_path):
    """Defect: a task that was set and the size of parameter noise fell back to their beginnings."""
    overrides = ["algo=dqn", "env=cartpole", "algo/exploration=parameter_noise"]
    overrides += ["hardware.n_envs=2"]
    overrides += ["buffer.capacity=2000", "test.n_envs=1", "logger.wandb.mode=disabled"]
    first = trained(overrides, tmp_path / "a", 300)
    first.rollout.call("set_task", {"gravity": 20.0})
    first.run(400)
    noise = first.rollout.policy.exploration.stddev
    assert noise != 0.1
    second = rltrain.make_trainer(overrides, run_dir=tmp_path / "b")
    second.restore(first.save(with_replay=False))
    assert second.rollout.policy.exploration.stddev == noise
    second.started = True
    second.run(420)
    assert [copy.env.unwrapped.gravity for copy in second.rollout.env.envs] == [20.0, 20.0]


@pytest.mark.parametrize("beside", [[], pytest.param(["test.n_workers=2"], marks=pytest.mark.slow)])
def test_tests_of_a_resumed_run_play_the_tasks_that_were_set(single, tmp_path, beside):
    """Also of no task, in a trainer that has set one since then."""
    overrides = [w for w in single if not w.startswith("env=")]
    overrides += ["algo=dqn", "algo.learning_starts=20", *beside]
    with closing(rltrain.make_trainer(overrides, tmp_path / "a", env=Rewarded)) as first:
        first.run(30)
        without = first.save()
        first.test_rollout.call("set_task", {"reward": 3.0})
        first.run(60)
        expected, saved = first.test(), first.save()
        assert expected["test/return_mean"] == 3 * Rewarded.length
    with closing(rltrain.make_trainer(overrides, tmp_path / "a", env=Rewarded)) as second:
        second.test_rollout.call("set_task", {"reward": 5.0})
        second.restore(without)
        assert second.test()["test/return_mean"] == Rewarded.length
        second.restore(saved)
        assert second.test() == expected


def test_a_stop_criterion_ends_with_a_test_and_an_interruption_does_not(small, tmp_path):
    for interrupted in (False, True):
        trainer, trace = traced(small, tmp_path / str(interrupted))
        trainer.start()
        trainer.run(30)
        trainer.stop("enough", interrupted=interrupted)
        trainer.train()
        assert (trace.tests[-1] == trainer.clock.env_steps) is not interrupted


@pytest.mark.slow
def test_callbacks_added_on_a_resume_do_not_shift_the_others(small, tmp_path):
    first = trained(small, tmp_path, 60)
    first.save()
    first.close()
    second = rltrain.make_trainer(small, run_dir=tmp_path)
    second.callbacks = Callbacks([Trace(), *second.callbacks.callbacks])
    second.restore(tmp_path)
    assert second.callbacks.callbacks[1].due.at == first.callbacks.callbacks[0].due.at


GOING_BACK = [
    "algo=dqn", "env=cartpole", "tuned=none", "logger=[]", "hardware.n_envs=2", "test.episodes=2",
    "test.n_envs=2", "test.interval=100", "save.interval=100", "save.keep_last=9",
    "log.interval=100", "total_env_steps=300", "algo.learning_starts=50", "buffer.capacity=2000",
]  # fmt: skip


def test_going_back_deletes_nothing_before_the_run_goes_on(tmp_path):
    """Defect: restoring an earlier checkpoint deleted the only replay, that of the newest."""
    checkpoints = tmp_path / "checkpoints"
    trainer = rltrain.make_trainer(GOING_BACK, run_dir=tmp_path)
    trainer.run(150)
    first = trainer.save()
    trainer.run(250)
    last = trainer.save()
    trainer.restore(last)
    n_steps = trainer.buffer.n_steps
    with pytest.raises(UsageError, match="holds no replay"):
        trainer.restore(first)
    assert trainer.buffer.n_steps == n_steps
    assert trainer.clock.env_steps == int(last.name)
    fresh = rltrain.make_trainer(GOING_BACK, run_dir=tmp_path)
    fresh.restore(first)
    assert (last / "replay.json").exists()
    assert (checkpoints / "latest").read_text().strip() == last.name
    fresh.run(fresh.clock.env_steps)  # nothing left to do
    assert (last / "replay.json").exists()
    fresh.run(180)
    assert not last.exists()
    assert (checkpoints / "latest").read_text().strip() == first.name


def test_a_restored_trainer_trains_and_ends_again(tmp_path, monkeypatch):
    """Defect: it remembered that it had been stopped, and that it had ended at this env step."""
    overrides = [w for w in GOING_BACK if not w.startswith("save.interval")]
    trainer, trace = traced([*overrides, "save.interval=100000"], tmp_path)
    trainer.train()
    folder = trainer.run_dir / "checkpoints" / str(trainer.clock.env_steps)
    ended = trace.tests[-1]
    ends = []
    monkeypatch.setattr(trainer.callbacks, "on_train_end", ends.append)
    trainer.restore(folder)
    trainer.train()
    assert ends == [trainer]
    monkeypatch.undo()
    trainer.run(400)
    trainer.stop("enough")
    trainer.restore(folder)
    assert (trainer.stopping, trainer.interrupted) == (None, False)
    trainer.total_env_steps = 350
    trainer.train()
    assert trace.tests[-1] == trainer.clock.env_steps >= 350 > ended


def test_a_stop_does_not_undo_an_interruption(small, tmp_path):
    """Defect: a Ctrl-C in the iteration in which a stop criterion was met was lost."""
    trainer = rltrain.make_trainer(small, run_dir=tmp_path)
    trainer.stop("SIGINT", interrupted=True)
    trainer.stop("five hours are over")
    assert (trainer.stopping, trainer.interrupted) == ("SIGINT", True)


def test_a_checkpoint_whose_replacement_was_killed_is_restored(small, tmp_path):
    """Defect: from Python the one before was, and that one was deleted."""
    trainer = trained(small, tmp_path, 30)
    first = trainer.save()
    trainer.run(60)
    last = trainer.save()
    trainer.close()
    aside = last.rename(last.with_name(f".tmp-{last.name}-replaced"))
    with run_lock(tmp_path):  # of a process that may be replacing it
        rltrain.make_trainer(small, run_dir=tmp_path).close()
    assert aside.exists()
    again = rltrain.make_trainer(small, run_dir=tmp_path)
    assert again.restore(tmp_path).step == int(last.name) > int(first.name)
