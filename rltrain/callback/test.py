"""Periodic tests that keep the best weights."""

from __future__ import annotations

from rltrain.callback.hooks import Callback, Due
from rltrain.callback.training import Training
from rltrain.common import checkpoint
from rltrain.common.metrics import beats, test_score
from rltrain.logger.loggers import Loggers
from rltrain.types import StateDict


class Test(Callback):
    """Tests at step 0, at every multiple of ``interval`` env steps, and at the end; keeps the best
    weights, the latest of equal ones, and untrained ones only until trained ones are tested.

    A test that runs during training finishes before the next row of metrics, so that rows are
    ordered by env steps and a run does not depend on the duration of tests.
    """

    state_names = ("due", "tested_at", "best", "best_at", "best_untrained")

    def __init__(self, *, interval: int, loggers: Loggers) -> None:
        self.due, self.loggers = Due(interval), loggers
        self.tested_at = self.began_at = -1
        self.best: list[float] = []
        self.best_at: int | None = None  # env step
        self.best_untrained = True

    def on_train_start(self, trainer: Training, value: None = None) -> None:
        with trainer.disk.attempt("checkpoints/best"):
            self.name_best(trainer)
        self.on_iteration(trainer)

    def on_iteration(self, trainer: Training, value: None = None) -> None:
        env_steps = trainer.clock.env_steps
        if trainer.tests.pending is not None:
            if env_steps < self.due.after(self.began_at):
                return
            trainer.tests.finish()
        if self.due.reached(env_steps):
            self.began_at = env_steps
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
            trainer.test()

    def on_test_end(self, trainer: Training, value: dict[str, float]) -> dict[str, float]:
        """Keep the weights, with ``best`` referring to them, unless better ones are kept; then
        write the row, which completes the test: one interrupted by an exception has no row and is
        repeated.
        """
        clock, counts, untrained = trainer.tests.clock, trainer.tests.counts, trainer.untrained
        folder, at = trainer.run_dir / "checkpoints", clock.env_steps
        before = [] if checkpoint.pointed(folder, "best") is None else self.best
        if counts and beats(value, before, untrained=untrained, best_untrained=self.best_untrained):
            with trainer.disk.attempt("the weights of a test"):
                trainer.save("weights")
                checkpoint.name_pointer(folder, "best", at)
                self.best, self.best_at, self.best_untrained = test_score(value), at, untrained
        self.loggers.write(clock, trainer.seconds, value)
        if counts:
            self.tested_at = at
            if self.tested_at == self.began_at:
                self.due(self.began_at)  # not earlier: an interrupted test is repeated
        return value

    def name_best(self, trainer: Training) -> None:
        """Let ``best`` refer to the weights that it did when the state was saved, rather than to
        those of a lost end of the run; where they are gone, to those of its last test.
        """
        folder = trainer.run_dir / "checkpoints"
        if checkpoint.pointed(folder, "best") == self.best_at:
            return
        tests = [] if self.best_at is None else [self.best_at, self.tested_at]
        there = (at for at in tests if checkpoint.read_kind(folder / str(at)) != "broken")
        if (at := next(there, None)) is None:
            (folder / "best").unlink(missing_ok=True)
            return
        checkpoint.name_pointer(folder, "best", at)
        if at != self.best_at:
            self.best, self.best_at = test_score(trainer.latest), at
            self.best_untrained = trainer.untrained

    def load_state_dict(self, state: StateDict) -> None:
        if not all(type(score) in (int, float) for score in state["best"]):
            raise ValueError(f"the best test is {state['best']!a:.80}: expected numbers")
        self.best_at = state["best_at"]  # of either type
        super().load_state_dict(state)
        self.began_at = -1  # a test by hand is not one that began before
