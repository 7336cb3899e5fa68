"""Checkpoints that hooks ask for at any time, and exceptions at any time: what is stored afterward
are still consecutive time steps of episodes.
"""

import shutil

import numpy as np
import pytest
from gymnasium import spaces

import rltrain
from rltrain.callback import Callback
from rltrain.common import checkpoint
from rltrain.errors import EnvError, UsageError
from rltrain.types import Clock
from tests.env.scripted import Plain
from tests.helpers import weights
from tests.marks import slow_except

HOOKS = [name for name in vars(Callback) if name.startswith("on_")]
DURING_TRAINING = [
    name
    for name in HOOKS
    if name not in ("on_train_start", "on_train_end", "on_exception", "on_save")
]
FAST = ("on_test_start", "on_step", "on_update")
OVERRIDES = {
    "algo": "dqn",
    "tuned": "none",
    "total_env_steps": 250,
    "test": {"interval": 120, "episodes": 1, "n_envs": 1},
    "log.interval": 40,
    "logger": {"console": False, "wandb.mode": "disabled"},
    "hardware": {"n_envs": 2, "threads": 1},
    "algo.steps_per_collect": 7,
    "algo.learning_starts": 30,
    "algo.batch_size": 4,
    "algo.target_update": {"env_steps": None, "updates": 1},
}


class Counting(Plain):
    """Observations are the episode's number and the time step."""

    observation_space, length = spaces.Box(-1e6, 1e6, (2,)), 23

    def reset(self, *, seed=None, options=None):
        self.episode = seed % 1000
        return super().reset(seed=seed)

    def seen(self):
        return np.array([self.episode, self.t], np.float32)


def acting_at(hook, act, after=100):
    """A callback that calls ``act(trainer)`` once, in a hook, after that many env steps."""

    class Once(Callback):
        done = False

    def method(self, trainer, value=None):
        if trainer.clock.env_steps > after and not self.done:
            self.done = True
            act(trainer)
        return value

    setattr(Once, hook, method)
    return Once()


def made(folder, callbacks=(), env=Counting):
    overrides = {**OVERRIDES, "env": env} if env == "cartpole" else OVERRIDES
    own = {} if env == "cartpole" else {"env": env}
    return rltrain.make_trainer(overrides, run_dir=folder, callbacks=[*callbacks], **own)


def joined(trainer):
    """Pairs of stored time steps, one after the other, that are not so in the environment."""
    store, pairs = trainer.buffer.store, []
    for e in range(2):
        rows = store.rows(e, np.arange(store.begin[e], store.end[e]))
        obs, last = store.read("obs", rows)[:, 0], store.arrays["last"][rows].ravel()
        follows = (obs[1:] == obs[:-1] + np.array([0, 1])).all(1)
        pairs += [(*a, *b) for a, b in zip(obs[:-1][~follows & ~last[:-1]], obs[1:], strict=False)]
    return pairs


@pytest.mark.sampled(1)
@pytest.mark.parametrize("hook", slow_except(FAST, DURING_TRAINING))
def test_a_run_is_the_same_after_a_checkpoint_that_any_hook_asked_for(tmp_path, hook):
    callback = acting_at(hook, lambda trainer: trainer.save())

    class Copy(Callback):
        def on_collect(self, trainer, value):
            if (trainer.checkpoints / "latest").exists() and not (tmp_path / "copy").exists():
                shutil.copytree(trainer.checkpoints, tmp_path / "copy/checkpoints")
            return value

    trainer = made(tmp_path / "run", [Copy(), callback], "cartpole")
    trainer.train()
    resumed = made(tmp_path / "resumed", env="cartpole")
    assert resumed.restore(tmp_path / "copy").remarks == ()
    assert 100 < resumed.clock.env_steps < 150 or hook == "on_test_start"
    resumed.train()
    assert resumed.clock == trainer.clock
    for ours, theirs in zip(
        resumed.learner.online.parameters(), trainer.learner.online.parameters(), strict=True
    ):
        assert (ours == theirs).all()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "error", [KeyboardInterrupt, pytest.param(ZeroDivisionError, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("hook", slow_except(FAST, DURING_TRAINING))
def test_no_transition_joins_two_episodes_after_an_exception_in_any_hook(tmp_path, hook, error):
    def fail(trainer):
        raise error

    class Saving(Callback):
        def on_exception(self, trainer, value):
            trainer.save()
            return value

    first_end = 40  # env steps of the collect in which the first episodes end
    trainer = made(tmp_path, [acting_at(hook, fail, after=first_end), Saving()])
    with pytest.raises(error):
        trainer.train()
    resumed = made(tmp_path / "resumed")
    resumed.restore(tmp_path)
    assert resumed.clock == trainer.clock
    for each in (trainer, resumed):
        each.train()
        assert not joined(each)
        assert each.clock.env_steps >= 250


class Noting(Callback):
    """Puts a part of its own into every checkpoint."""

    def on_save(self, trainer, value):
        return {**value, "note": {"env_steps": trainer.clock.env_steps}}


def raising(value):
    raise ZeroDivisionError("on purpose")


BAD = {
    "raises": (raising, ZeroDivisionError, "on purpose"),
    "exits": (lambda value: exit(3), SystemExit, "3"),
    "has changed half": (lambda value: raising(value.clear()), ZeroDivisionError, "on purpose"),
    "returns nothing": (lambda value: None, UsageError, "returned nothing"),
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("kind", ["full", "weights"])
def test_a_checkpoint_is_written_whatever_its_hooks_do(tmp_path, kind, bad):
    """Defect: there was none, and the run was lost."""
    act, error, says = BAD[bad]

    class Bad(Callback):
        def on_save(self, trainer, value):
            return act(value)

    trainer = made(tmp_path, [Noting(), Bad(), Noting()])
    trainer.clock = Clock(env_steps=7)
    with pytest.raises(error, match=says):
        trainer.save(kind)
    assert checkpoint.read_kind(tmp_path / "checkpoints/7") == kind
    assert checkpoint.read(tmp_path / "checkpoints/7", "note") == {"env_steps": 7}
    if kind == "full":
        assert made(tmp_path / "resumed").restore(tmp_path).step == 7


@pytest.mark.parametrize("error", [ZeroDivisionError, OSError])
def test_the_last_checkpoint_of_a_run_is_written_whatever_its_hooks_do(tmp_path, caplog, error):
    """Defect: an OSError of a hook was logged as a checkpoint that could not be written."""

    class Bad(Callback):
        def on_save(self, trainer, value):
            if trainer.clock.env_steps >= 250:
                raise error("on purpose")
            return value

    trainer = made(tmp_path, [Bad()])
    with pytest.raises(error, match="on purpose"):
        trainer.train()
    assert "could not be written" not in caplog.text
    assert not trainer.disk.degraded
    assert checkpoint.newest_full(tmp_path / "checkpoints") == trainer.clock.env_steps >= 250


def test_a_refusal_of_our_own_prevents_a_checkpoint(tmp_path):
    first, second = made(tmp_path), made(tmp_path)
    first.save()
    second.clock = Clock(env_steps=7)
    with pytest.raises(UsageError, match="already running"):
        second.save("weights")


def test_a_checkpoint_that_is_restored_after_an_exception_keeps_its_open_episodes(tmp_path):
    def fail(trainer):
        raise ZeroDivisionError

    whole = made(tmp_path / "whole", env="cartpole")
    whole.train()
    trainer = made(tmp_path / "run", [acting_at("on_collect", fail)], "cartpole")
    trainer.run(50)
    trainer.save()
    with pytest.raises(ZeroDivisionError):
        trainer.train()
    trainer.restore(tmp_path / "run")
    trainer.train()
    assert trainer.clock == whole.clock
    assert (weights(trainer) == weights(whole)).all()


class FailsAtTheEnd(Callback):
    def __init__(self, hook, env_steps):
        def fail(trainer, value=None):
            if trainer.clock.env_steps >= env_steps:
                raise ZeroDivisionError(hook)
            return value

        setattr(type(self), hook, lambda self, trainer, value=None: fail(trainer, value))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("hook", ["on_train_end", "on_test_start", "on_test_end", "on_log"])
def test_the_last_checkpoint_is_written_though_a_callback_fails_at_the_end(small, tmp_path, hook):
    own = type("Own", (FailsAtTheEnd,), {})(hook, 48)
    overrides = [*small, "total_env_steps=48", "test.episodes=1", "test.interval=1000"]
    trainer = rltrain.make_trainer([*overrides, "log.interval=1000"], tmp_path, callbacks=[own])
    with pytest.raises(ZeroDivisionError, match=hook):
        trainer.train()
    trainer.close()
    assert checkpoint.pointed(trainer.checkpoints, "latest") == trainer.clock.env_steps


def test_a_failing_environment_is_saved_and_named_though_a_callback_fails_at_it(small, tmp_path):
    class Own(Callback):
        def on_iteration(self, trainer, value=None):
            if trainer.clock.env_steps >= 30:
                raise EnvError("broken")

        def on_exception(self, trainer, value):
            raise ZeroDivisionError

    trainer = rltrain.make_trainer(small, tmp_path, callbacks=[Own()])
    with pytest.raises(EnvError, match="broken"):
        trainer.train()
    trainer.close()
    assert checkpoint.pointed(trainer.checkpoints, "latest") == trainer.clock.env_steps


def test_weights_do_not_replace_what_a_run_can_resume_from(tmp_path):
    """Defect: ``latest`` named a checkpoint without the state of the trainer."""
    trainer = made(tmp_path)
    trainer.run(50)
    folder = trainer.save()
    assert trainer.save("weights") == folder
    assert made(tmp_path / "again").restore(tmp_path / "checkpoints/latest").folder == folder
