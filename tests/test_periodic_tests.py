"""Tests of a trainer: when they are made, and what they change."""

import json
from contextlib import closing
from pathlib import Path

import pytest
import torch

import rltrain
from rltrain.callback import Callback, Callbacks
from rltrain.common import checkpoint
from rltrain.errors import EnvError, UsageError
from rltrain.periodic_tests import PeriodicTests
from rltrain.types import Clock, Episode
from tests.helpers import traced, trained, weights

BESIDE = [
    "algo=dqn", "env=cartpole", "tuned=none", "logger=[]", "hardware.n_envs=2", "test.episodes=2",
    "test.n_envs=2", "test.n_workers=1", "test.interval=100", "save.interval=100000",
    "log.interval=100000", "total_env_steps=350", "algo.learning_starts=50",
    "buffer.capacity=2000", "hardware.device=cpu", "save.keep_last=9",
]  # fmt: skip
"""Tests that a worker process plays beside training."""


def test_tests_belong_to_zero_every_multiple_and_the_end(small, tmp_path):
    trainer, trace = traced([*small, "total_env_steps=250", "test.interval=100"], tmp_path)
    trainer.train()
    assert (trace.tests[0], [t // 100 for t in trace.tests[1:3]]) == (0, [1, 2])
    assert trace.tests[-1] == trainer.clock.env_steps
    assert len(set(trace.tests)) == len(trace.tests) == 4


def test_an_interrupted_test_gives_no_result(small, tmp_path):
    trainer, trace = traced(small, tmp_path)
    trainer.stop("SIGTERM", interrupted=True)
    assert trainer.test() == {}
    assert trace.tests == []


def test_a_test_by_hand_after_a_restore_is_not_the_scheduled_one(small, tmp_path):
    """Also where the scheduled one was made at this env step before."""

    class ByHand(Callback):
        at = None

        def on_iteration(self, trainer, value=None):
            if trainer.clock.env_steps == self.at:
                trainer.test()

        def on_test_end(self, trainer, value):
            tests.append(trainer.clock.env_steps)
            return value

    tests, by_hand = [], ByHand()
    words = [*small, "save.interval=1000"]  # the checkpoint keeps its replay
    trainer = rltrain.make_trainer(words, tmp_path, callbacks=[by_hand])
    with closing(trainer):
        trainer.start()
        trainer.run(40)
        saved = trainer.save()
        trainer.run(60)
        scheduled = tests[-1]
        assert len(tests) == 2
        trainer.restore(saved)
        by_hand.at = scheduled
        trainer.run(60)
    assert tests[2:] == [scheduled, scheduled]


def test_a_test_whose_metrics_are_taken_away_was_still_made(small, tmp_path):
    """Defect: it counted as interrupted and was made again in each iteration."""

    class Empties(Callback):
        def on_test_end(self, trainer, value):
            made.append(trainer.clock.env_steps)
            return {}

    made = []
    overrides = [*small, "total_env_steps=66", "test.interval=1000", "test.episodes=1"]
    rltrain.make_trainer(overrides, tmp_path, callbacks=[Empties()]).train()
    assert made == [0, 66]


@pytest.mark.slow
def test_the_number_of_tests_does_not_change_training(small, tmp_path):
    few = trained([*small, "test.interval=100000"], tmp_path / "few")
    many = trained([*small, "test.interval=50", "test.episodes=7"], tmp_path / "many")
    assert torch.equal(weights(few), weights(many))


def test_a_test_and_a_checkpoint_show_in_the_progress(small, own_folder):
    seen = []

    class Look(Callback):
        def on_episode_end(self, trainer, value):
            seen.append(str(trainer.progress.activity)) if value.test else None
            return value

        def on_test_start(self, trainer, value=None):
            seen.append(str(trainer.progress.activity))

        def on_save(self, trainer, value):
            seen.append(str(trainer.progress.activity))
            return value

    trainer = rltrain.make_trainer(small, run_dir=own_folder / "run")
    trainer.callbacks = Callbacks([Look()])
    trainer.test()
    trainer.save()
    assert (seen[0], seen[-2:]) == ("testing 0/4 episodes", ["testing 2/4 episodes", "saving"])
    assert trainer.progress.activity is None
    trainer.close()


@pytest.mark.parametrize("episodes", [0, -1, 2.5, True])
def test_a_test_has_a_whole_number_of_episodes(small, tmp_path, episodes):
    trainer = rltrain.make_trainer(small, run_dir=tmp_path)
    for play in (trainer.test, trainer.play):
        with pytest.raises(UsageError, match="expected a whole number of at least 1"):
            play(episodes)


class SavesWhatWasTested(Callback):
    """Saves in a hook of tests, by hand."""

    def __init__(self) -> None:
        self.saved: list[Path] = []

    def on_test_end(self, trainer, value):
        if trainer.clock.env_steps > 0:
            self.saved.append(trainer.save())
        return value


@pytest.mark.slow
def test_a_run_can_be_saved_while_an_earlier_test_is_reported(tmp_path):
    """Defect: the checkpoint had the weights of the test and no optimizer."""
    saves = SavesWhatWasTested()
    trainer = rltrain.make_trainer(BESIDE, run_dir=tmp_path, callbacks=[saves])
    trainer.train()
    trainer.close()
    assert saves.saved
    for folder in saves.saved:
        state = checkpoint.read(folder, "trainer")
        assert "optimizer" in state["learner"]
        assert state["clock"]["env_steps"] == int(folder.name)
    again = rltrain.make_trainer(BESIDE, run_dir=tmp_path)
    again.restore(saves.saved[-1])
    again.close()


@pytest.mark.slow
def test_a_broken_environment_is_saved_though_a_test_is_pending(tmp_path, monkeypatch):
    """Defect: saving failed with an AssertionError, which took the place of the EnvError."""
    trainer = rltrain.make_trainer(BESIDE, run_dir=tmp_path)
    collect = trainer.rollout.collect

    def broken_later(n_steps, clock):
        if clock.env_steps >= 150:
            raise EnvError("broken")
        return collect(n_steps, clock)

    monkeypatch.setattr(trainer.rollout, "collect", broken_later)
    with pytest.raises(EnvError, match="broken"):
        trainer.train()
    trainer.close()
    assert checkpoint.newest_full(tmp_path / "checkpoints") == trainer.clock.env_steps


class PlaysItself(Callback):
    """Plays episodes while a test is pending."""

    def __init__(self) -> None:
        self.lengths: list[int] = []

    def on_iteration(self, trainer, value=None):
        if trainer.tests.pending is not None:
            self.lengths += [episode.length for episode in trainer.play(4)]


@pytest.mark.slow
def test_episodes_are_played_after_the_pending_test(tmp_path):
    """Defect: they were those of the test, and too few."""
    plays = PlaysItself()
    trainer = rltrain.make_trainer(BESIDE, run_dir=tmp_path)
    trainer.callbacks = Callbacks([*trainer.callbacks.callbacks, plays])
    trainer.train()
    trainer.close()
    assert len(plays.lengths) >= 4
    assert min(plays.lengths) > 0


class Beside:
    """A trainer whose tests are played elsewhere; keeps what a callback sees of their results."""

    test_episodes, test_seed, resample_tests, test_function = 2, 5, False, None
    watch_tests = False

    def __init__(self):
        self.clock, self.latest, self.seen = Clock(env_steps=10), {}, []
        self.test_rollout = self.learner = self.callbacks = self
        self.apart, self.asked, self.tests = self, [], PeriodicTests(self)

    def on_test_start(self, trainer): ...

    def on_test_end(self, trainer, value):
        self.seen.append((self.tests.clock.env_steps, self.tests.weights))
        return value

    def state_dict(self):
        return {"online": self.clock.env_steps, "target": 0, "optimizer": 0}

    def begin_episodes(self, n, seed, clock):
        self.asked.append((n, seed, clock.env_steps))

    def finish_episodes(self):
        return [Episode(1.0, 1), Episode(3.0, 1)]

    def abandon(self, episodes):
        self.asked.append(("abandon", episodes))


def test_a_result_is_reported_at_the_clock_and_with_the_weights_of_its_beginning():
    trainer = Beside()
    trainer.tests.begin()
    trainer.clock = Clock(env_steps=30)
    trainer.tests.finish()
    assert (trainer.asked, trainer.seen) == ([(2, 5, 10)], [(10, {"online": 10, "target": 0})])
    assert (trainer.tests.clock.env_steps, trainer.tests.weights) == (30, None)
    assert trainer.latest["test/return_mean"] == 2


def test_a_test_that_is_dropped_is_abandoned_and_reported_by_nobody():
    trainer = Beside()
    trainer.tests.drop()
    trainer.tests.begin()
    trainer.tests.drop()
    trainer.tests.finish()
    assert (trainer.asked, trainer.seen) == ([(2, 5, 10), ("abandon", 0)], [])


def test_a_test_of_another_number_of_episodes_is_neither_best_nor_final(small, tmp_path):
    """Defect: one episode by hand decided the best weights and the final result."""
    trainer, trace = traced([*small, "test.interval=1000"], tmp_path)
    trainer.iterate()
    best, record = tmp_path / "checkpoints" / "best", tmp_path / "run.json"
    before = best.read_text(), json.loads(record.read_text())["final_test"]
    assert {"test/return_mean", "test/return_std"} <= set(trainer.test(3))
    assert (best.read_text(), json.loads(record.read_text())["final_test"]) == before
    assert trace.tests == [0, trainer.clock.env_steps]
    trainer.run(150)
    trainer.test(3)
    trainer.end()  # makes the last test, which was not made yet
    assert json.loads(record.read_text())["final_test"]["env_steps"] == trainer.clock.env_steps


def test_a_closed_trainer_plays_no_episodes(small, tmp_path):
    trainer = rltrain.make_trainer(small, run_dir=tmp_path)
    trainer.close()
    for play in (trainer.test, trainer.play):
        with pytest.raises(UsageError, match="This trainer is closed"):
            play(2)


def results_of_tests(folder):
    rows = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [row["test/return_mean"] for row in rows if "test/return_mean" in row]


@pytest.mark.parametrize("beside", [[], pytest.param(["test.n_workers=1"], marks=pytest.mark.slow)])
def test_tests_begin_with_the_same_states_unless_resampled(tmp_path, beside):
    """An agent that does not learn gets the same returns in all tests, or other ones in each; a
    resumed run and tests beside training draw the same.
    """
    words = [w for w in BESIDE if not w.startswith(("test.", "total_env_steps="))]
    words += ["algo.learning_starts=1000", "test.episodes=4", "test.n_envs=2", "test.interval=20"]
    found = {}
    for name, more, steps in (
        ("same", ["test.resample=false"], (40,)),
        ("whole", ["test.resample=true"], (40,)),
        ("cut", ["test.resample=true", *beside], (20, 40)),
    ):
        folder = tmp_path / name
        rltrain.train([*words, *more, f"total_env_steps={steps[0]}", f"hydra.run.dir={folder}"])
        if steps[1:]:
            rltrain.resume(folder, *steps[1:])
        found[name] = results_of_tests(folder)
    assert {len(results) for results in found.values()} == {3}
    assert (len(set(found["same"])), len(set(found["whole"]))) == (1, 3)
    assert found["whole"] == found["cut"]
