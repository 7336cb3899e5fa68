"""The best test: the latest of equals, and an untrained one only while there is no other."""

import json
import math

import pytest

from rltrain import callback
from rltrain.common import checkpoint
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
        (self.run_dir / "checkpoints" / str(self.clock.env_steps)).mkdir(parents=True)


def best_of(folder, results, untrained=1):
    """The env step that ``best`` names after tests at 0, 10, 20 …, the first ones untrained."""
    trainer, tests = Trainer(folder), callback.Test(interval=10, loggers=Loggers([]))
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
    ("results", "best"),
    [
        ([1.0, 3.0, 2.0], 10),
        ([1.0, 3.0, 3.0], 20),
        ([8.0, 8.0, 8.0], 20),
        ([8.0, 7.0, 6.0], 10),
        ([8.0], 0),
        ([math.nan, 1.0], 10),
        ([0.0, math.nan, 1.0, math.nan], 20),
        ([(9.0, 0.1), (9.0, 0.5), (8.0, 0.6), (7.0, 0.6)], 20),
    ],
)
def test_the_best_test(tmp_path, results, best):
    assert best_of(tmp_path, results) == best


def test_of_untrained_tests_the_latest_equal_one_is_the_best(tmp_path):
    assert best_of(tmp_path, [5.0, 5.0, 4.0], untrained=3) == 10


def test_a_pretrained_network_may_be_the_best_at_step_0(tmp_path):
    assert best_of(tmp_path, [8.0, 7.0, 6.0], untrained=0) == 0
