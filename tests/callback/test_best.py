"""The best test: the latest of equals, and an untrained one only while there is no other."""

import json
import math
import shutil

import pytest

from rltrain import callback
from rltrain.common import checkpoint, metrics
from rltrain.common.failures import Disk
from rltrain.logger.loggers import Loggers
from rltrain.types import Clock


class Trainer:
    """As much of a trainer as the tests of a run look at."""

    seconds = 0.0

    def __init__(self, folder):
        self.run_dir, self.clock, self.untrained = folder, Clock(), True
        self.disk, self.tests = Disk(), self  # tests report at once: their clock is the trainer's
        self.counts = True

    def save(self, kind):
        checkpoint.write(self.run_dir / "checkpoints", self.clock.env_steps, {}, kind)


def best_of(folder, results, untrained=1):
    """The env step that ``best`` names after tests at 0, 10, 20 …, the first ones untrained."""
    trainer, tests = Trainer(folder), callback.Test(interval=10, loggers=Loggers([]))
    folder.mkdir(exist_ok=True)
    for i, result in enumerate(results):
        trainer.clock, trainer.untrained = Clock(env_steps=10 * i), i < untrained
        mean, win = result if isinstance(result, tuple) else (result, None)
        wins = {} if win is None else {"test/win_rate": win}
        tests.on_test_end(trainer, {"test/return_mean": mean, **wins})
        state = json.loads(json.dumps(tests.state_dict()))  # as after a resume
        tests = callback.Test(interval=10, loggers=Loggers([]))
        tests.load_state_dict(state)
    return checkpoint.pointed(folder / "checkpoints", "best")


@pytest.mark.parametrize(
    ("results", "untrained", "best"),
    [
        ([1.0, 3.0, 2.0], 1, 10),
        ([1.0, 3.0, 3.0], 1, 20),
        ([8.0, 8.0, 8.0], 1, 20),
        ([8.0, 7.0, 6.0], 1, 10),
        ([8.0], 1, 0),
        ([math.nan, 1.0], 1, 10),
        ([0.0, math.nan, 1.0, math.nan], 1, 20),
        ([(9.0, 0.1), (9.0, 0.5), (8.0, 0.6), (7.0, 0.6)], 1, 20),
        ([5.0, 5.0, 4.0], 3, 10),  # none is of trained weights: the latest of equal ones
        ([8.0, 7.0, 6.0], 0, 0),  # a pretrained network
    ],
)
def test_the_best_test(tmp_path, results, untrained, best):
    assert best_of(tmp_path, results, untrained) == best


@pytest.mark.parametrize("kept", [True, False])
def test_a_resumed_run_names_the_best_of_its_own_tests(tmp_path, kept):
    """Defect: ``best`` stayed at the weights of a lost end, and those that it had named went."""
    best_of(tmp_path, [1.0, 3.0])
    trainer, tests = Trainer(tmp_path), callback.Test(interval=10, loggers=Loggers([]))
    trainer.clock, trainer.untrained = Clock(env_steps=20), False
    tests.best, tests.best_at = metrics.test_score({"test/return_mean": 3.0}), 10
    state = tests.state_dict()
    tests.on_test_end(trainer, {"test/return_mean": 9.0})
    assert checkpoint.pointed(tmp_path / "checkpoints", "best") == 20
    if not kept:
        shutil.rmtree(tmp_path / "checkpoints" / "10")
    tests.load_state_dict(state)
    tests.name_best(trainer)
    assert checkpoint.pointed(tmp_path / "checkpoints", "best") == (10 if kept else None)


@pytest.mark.parametrize("lost", [True, False])
@pytest.mark.parametrize("after", [1.0, 2.0, 9.0])
def test_after_a_rewind_the_best_is_not_worse_than_the_test_it_began_with(tmp_path, lost, after):
    """Defect: with the weights of the best test gone, any test was the best, and those of a better
    one in the checkpoint were not named.
    """
    trainer, tests = Trainer(tmp_path), callback.Test(interval=10, loggers=Loggers([]))
    trainer.untrained = False

    def test(at, value):
        trainer.clock, trainer.latest = Clock(env_steps=at), {"test/return_mean": value}
        tests.on_test_end(trainer, trainer.latest)

    test(10, 3.0)
    test(20, 2.0)
    trainer.save("full")
    state, latest = tests.state_dict(), trainer.latest
    test(30, 5.0)
    checkpoints = tmp_path / "checkpoints"
    if lost:
        shutil.rmtree(checkpoints / "10")
    checkpoint.drop_later(checkpoints, 20)
    tests.load_state_dict(state)
    trainer.latest, trainer.clock = latest, Clock(env_steps=20)
    tests.name_best(trainer)
    assert checkpoint.pointed(checkpoints, "best") == (20 if lost else 10)
    test(30, after)
    kept = {1.0: 20, 2.0: 30, 9.0: 30} if lost else {1.0: 10, 2.0: 10, 9.0: 30}
    assert checkpoint.pointed(checkpoints, "best") == kept[after]
