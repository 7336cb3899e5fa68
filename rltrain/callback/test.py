"""Periodic tests; the weights of the best one are kept."""

from __future__ import annotations

from contextlib import suppress

from rltrain.callback.hooks import Callback, Due
from rltrain.callback.training import Training
from rltrain.common import checkpoint
from rltrain.common.metrics import beats, test_score
from rltrain.common.stateful import all_or_nothing
from rltrain.errors import Interrupted
from rltrain.logger.loggers import Loggers
from rltrain.types import StateDict


class Test(Callback):
    """Tests at step 0, at every multiple of ``interval`` env steps, and at the end; keeps the best
    weights, of equal ones the latest, and untrained ones only until others are tested.

    The result of a test that is played during training is there before the next row of metrics, so
    that rows are in the order of their env steps and a run does not depend on how long tests take.
    """

    def __init__(self, *, interval: int, loggers: Loggers) -> None:
        self.due, self.loggers = Due(interval), loggers
        self.tested_at = self.began_at = -1
        self.due_before = self.due.at  # … the test that began at ``began_at``
        self.best: list[float] = []
        self.best_untrained = True

    def on_train_start(self, trainer: Training, value: None = None) -> None:
        self.on_iteration(trainer)

    def on_iteration(self, trainer: Training, value: None = None) -> None:
        if self.began_at > self.tested_at and trainer.tests.pending is None:
            self.due.at = self.due_before  # that test was dropped
        env_steps, before = trainer.clock.env_steps, self.due.at
        if self.due.reached(env_steps):
            with suppress(Interrupted), all_or_nothing(self, self.due):
                self.due(env_steps)
                self.began_at, self.due_before = env_steps, before
                trainer.tests.begin()

    def on_log(self, trainer: Training, value: dict[str, float]) -> dict[str, float]:
        trainer.tests.finish_earlier()
        return value

    def on_train_end(self, trainer: Training, value: None = None) -> None:
        if trainer.interrupted:
            trainer.tests.finish_earlier()
            trainer.tests.drop()
        else:
            trainer.tests.finish()
        if self.tested_at != trainer.clock.env_steps and not trainer.interrupted:
            with all_or_nothing(self):
                trainer.test()

    def on_test_end(self, trainer: Training, value: dict[str, float]) -> dict[str, float]:
        clock = trainer.tests.clock
        self.loggers.write(clock, trainer.seconds, value)
        if not trainer.tests.counts:
            return value
        self.tested_at = clock.env_steps
        none = checkpoint.pointed(trainer.run_dir / "checkpoints", "best") is None
        before, untrained = [] if none else self.best, trainer.untrained
        if beats(value, before, untrained=untrained, best_untrained=self.best_untrained):
            kept = trainer.disk.attempt("the weights of a test", lambda: self.keep(trainer))
            if kept:
                self.best, self.best_untrained = test_score(value), untrained
        return value

    def keep(self, trainer: Training) -> None:
        """Let ``best`` name the weights that were just tested."""
        trainer.save("weights")
        checkpoint.name_pointer(trainer.run_dir / "checkpoints", "best", self.tested_at)

    def state_dict(self) -> StateDict:
        return {
            "due": self.due.state_dict()
            | ({"at": self.due_before} if self.began_at > self.tested_at else {}),
            "tested_at": self.tested_at,
            "best": self.best,
            "best_untrained": self.best_untrained,
        }

    def load_state_dict(self, state: StateDict) -> None:
        self.due.load_state_dict(state["due"])
        self.tested_at = int(state["tested_at"])
        self.began_at = self.tested_at
        self.best, self.best_untrained = list(state["best"]), state["best_untrained"]
