"""Exceptions at any time of a run that is driven by hand: what they broke off is made again."""

import json
from types import SimpleNamespace
from unittest.mock import patch

import pytest

import rltrain
from rltrain.callback import Callback, SaveSnapshots
from rltrain.common import checkpoint
from rltrain.common.checkpoint import run_checkpoints
from rltrain.common.failures import Disk
from rltrain.errors import UsageError
from rltrain.mode import run_folder
from rltrain.types import Clock
from tests.helpers import rows
from tests.marks import slow_except
from tests.test_periodic_tests import BESIDE

HOOKS = ("on_test_start", "on_step", "on_test_end", "on_log", "on_save")
INTERVALS = [
    "env=two_step", "total_env_steps=120", "test.interval=30", "test.episodes=2", "test.n_envs=1",
    "save.interval=30", "save.keep_last=99", "log.interval=30", "algo.batch_size=8", "logger=[]",
    "buffer.capacity=64", "hardware.n_envs=2", "hardware.threads=1", "algo.steps_per_collect=2",
]  # fmt: skip


class Counts(Callback):
    """Adds 0, 1, 2, … to the metrics, one in every iteration."""

    n = 0

    def on_collect(self, trainer, value):
        trainer.metrics.add("custom", {"n": float(self.n)})
        self.n += 1
        return value


def breaking(hook, error, begins, times=1):
    """A callback whose hook, in tests if it is one of a step, raises from an env step on."""

    class Breaks(Callback):
        left = times

        def at(self, trainer, value=None):
            if trainer.clock.env_steps >= begins and self.left and getattr(value, "test", True):
                self.left -= 1
                raise error
            return value

    setattr(Breaks, hook, Breaks.at)
    return Breaks()


def driven(folder, callbacks, overrides=INTERVALS):
    """A trainer that is iterated to its end, whatever its hooks raise, and how often they did."""
    trainer = rltrain.make_trainer(overrides, run_dir=folder, callbacks=callbacks)
    broken, done = 0, False
    while not done:
        try:
            done = trainer.iterate()["done"]
        except (KeyboardInterrupt, ZeroDivisionError):
            broken += 1
    trainer.close()
    return trainer, broken


@pytest.mark.sampled(2)
@pytest.mark.parametrize("begins", slow_except([60], [0, 60, 120]))
@pytest.mark.parametrize(
    "error", slow_except([KeyboardInterrupt], [KeyboardInterrupt, ZeroDivisionError])
)
@pytest.mark.parametrize("hook", HOOKS)
def test_what_an_exception_broke_off_is_made_at_the_next_iteration(tmp_path, hook, error, begins):
    """Defect: that test, row or checkpoint was lost, with the metrics of the row."""
    counts = Counts()
    trainer, broken = driven(tmp_path, [counts, breaking(hook, error, begins)])
    assert broken == 1
    tests = {row["env_steps"] for row in rows(trainer, "test/return_mean")}
    steps = set(checkpoint.list_steps(trainer.checkpoints))
    logged = {row["env_steps"]: row["custom/n"] for row in rows(trainer, "custom/n")}
    for at in (0, 30, 60, 90, trainer.clock.env_steps):
        for made in (tests, steps if at else tests, set(logged) if at else tests):
            assert any(at <= step < at + 16 for step in made), at
    first = 0.0
    for mean in logged.values():  # of the counts from ``first`` on
        first += 2 * (mean - first) + 1
    assert first == counts.n
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["final_test"]["env_steps"] == trainer.clock.env_steps
    assert (record["status"], "error" in record) == ("finished", False)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
@pytest.mark.parametrize("begins", [0, 30, 120])
def test_a_test_whose_weights_were_not_kept_has_one_row(tmp_path, begins, error):
    """Defect: the row of a test was written before the weights were kept, then again."""
    callbacks = [breaking("on_save", error, begins)]
    trainer = rltrain.make_trainer(INTERVALS, run_dir=tmp_path, callbacks=callbacks)
    with pytest.raises(error):
        trainer.train()
    trainer.train()
    trainer.close()
    tests = rows(trainer, "test/return_mean")
    assert [row["env_steps"] // 30 for row in tests] == [0, 1, 2, 3, 4]
    trained = [row for row in tests if row["updates"]]
    best = max(trained, key=lambda row: (row["test/return_mean"], row["env_steps"]))
    assert checkpoint.pointed(trainer.checkpoints, "best") == best["env_steps"]
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["final_test"]["env_steps"] == trainer.clock.env_steps


@pytest.mark.sampled(1)
@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
@pytest.mark.parametrize("hook", ["on_train_start", "on_train_end"])
def test_a_hook_of_the_beginning_or_the_end_that_raised_is_called_again(tmp_path, hook, error):
    """Defect: it was never finished, and the test of env step 0 was that of the first iteration."""
    trainer, broken = driven(tmp_path, [breaking(hook, error, 0, times=2)])
    assert broken == 2
    assert rows(trainer, "test/return_mean")[0]["env_steps"] == 0
    assert json.loads((tmp_path / "run.json").read_text())["status"] == "finished"
    assert checkpoint.pointed(trainer.checkpoints, "latest") == trainer.clock.env_steps


def test_a_record_that_broke_off_is_completed(tmp_path):
    """Defect: the run had no config.json, so that it could not be resumed."""
    trainer = rltrain.make_trainer(INTERVALS, run_dir=tmp_path)
    with (
        patch.object(run_folder, "config_text", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        trainer.iterate()
    trainer.iterate()
    trainer.close()
    assert json.loads((tmp_path / "config.json").read_text())["total_env_steps"] == 120


@pytest.mark.sampled(1)
@pytest.mark.parametrize("part", ["learner", "buffer", "rollout", "callbacks"])
def test_a_restore_that_broke_off_leaves_no_trainer_that_goes_on(tmp_path, part):
    """Defect: it trained the weights of one checkpoint with the replay of another."""
    trainer = rltrain.make_trainer(INTERVALS, run_dir=tmp_path)
    trainer.iterate()
    trainer.save()
    broken = patch.object(getattr(trainer, part), "load_state_dict", side_effect=KeyboardInterrupt)
    with broken, pytest.raises(KeyboardInterrupt):
        trainer.restore(tmp_path)
    with pytest.raises(UsageError, match="This trainer is closed"):
        trainer.train()


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_later_checkpoints_whose_deletion_broke_off_are_deleted(tmp_path, error):
    """Defect: they stayed, and a resume went on from them, not from what had been trained since."""
    driven(tmp_path, [])
    trainer = rltrain.make_trainer(INTERVALS, run_dir=tmp_path)
    old = min(set(checkpoint.list_steps(trainer.checkpoints)) - {0})
    trainer.restore(trainer.checkpoints / str(old))
    with patch.object(run_checkpoints, "remove", side_effect=error), pytest.raises(error):
        trainer.iterate()
    trainer.run(old + 1)
    assert checkpoint.list_steps(trainer.checkpoints)[0] == old
    trainer.close()


@pytest.mark.slow
def test_a_test_beside_training_that_was_broken_off_is_made_again(tmp_path):
    """The row of env step 120 waits for the test of 100."""
    breaks = breaking("on_test_end", KeyboardInterrupt, 110)
    trainer, broken = driven(tmp_path, [breaks], [*BESIDE, "log.interval=20"])
    assert broken == 1
    tests = [row["env_steps"] for row in rows(trainer, "test/return_mean")]
    assert any(110 < step < 160 for step in tests)


def test_a_snapshot_that_was_broken_off_is_due_again(tmp_path):
    exported = []

    def export(pool, replace):
        exported.append(pool)
        if len(exported) == 1:
            raise KeyboardInterrupt

    run = SimpleNamespace(clock=Clock(env_steps=8), run_dir=tmp_path, disk=Disk(), export=export)
    snapshots = SaveSnapshots(interval=100, pool_size=2)
    with pytest.raises(KeyboardInterrupt):
        snapshots.on_iteration(run)
    assert snapshots.newest == 0
    for _ in range(2):
        snapshots.on_iteration(run)
    assert (len(exported), snapshots.newest) == (2, 8)
