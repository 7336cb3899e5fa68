"""Tests of a trainer: episodes in environments of their own, or a function of the user's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, Protocol

from rltrain.callback import Callbacks
from rltrain.callback.training import Training
from rltrain.common.metrics import summarize, test_metrics
from rltrain.common.progress import Progress
from rltrain.common.seeding import TEST_STREAM, seed_key
from rltrain.errors import Interrupted, UsageError
from rltrain.interfaces import Watch
from rltrain.kernels.digests import leave_replaced
from rltrain.step_hooks import TestStepHooks
from rltrain.types import Clock, Episode, StateDict

if TYPE_CHECKING:
    from rltrain.hardware.process.tests import ProcessTests
    from rltrain.video.recorder import Recording

TestFunction = Callable[[Any, int], Mapping[str, float]]
"""A test function: maps the trainer and a number of episodes to metrics."""


class Tested(Training, Protocol):
    """The members of a trainer that a test uses."""

    callbacks: Callbacks
    progress: Progress
    test_function: TestFunction | None
    test_episodes: int
    test_seed: int
    resample_tests: bool


@dataclass(frozen=True)
class Pending:
    """A test that other processes play."""

    clock: Clock  # when it began
    weights: StateDict  # states of the networks by "online" and "target"
    apart: ProcessTests


@dataclass(eq=False)
class PeriodicTests:
    """The tests of a trainer, one at a time.

    With worker processes a test that was started is played while training continues. Its result
    belongs to the env step at which it began: while the callbacks see it, ``clock`` and ``weights``
    are those of the networks that were tested.
    """

    trainer: Tested
    pending: Pending | None = None
    reported: Pending | None = None  # while the callbacks see its result
    recorder: Recording | None = None  # records the current test
    counts: bool = True  # whether the current test has as many episodes as the schedule's

    @property
    def clock(self) -> Clock:
        """Clock of the test whose result is reported; otherwise that of training."""
        return self.trainer.clock if self.reported is None else self.reported.clock

    @property
    def weights(self) -> StateDict | None:
        """States of the networks of the test that is reported; None: they are the current ones."""
        return None if self.reported is None else self.reported.weights

    def run(self, n: int | None = None) -> dict[str, float]:
        """A whole test, of ``n`` episodes or as many as the schedule's have; nothing if the run is
        interrupted meanwhile.

        Raises:
            UsageError: ``n`` is not a number of episodes.
        """
        trainer = self.trainer
        n = trainer.test_episodes if n is None else n
        require_episodes(n)
        self.finish()
        self.counts = n == trainer.test_episodes
        with suppress(Interrupted), trainer.progress.during("testing", n):
            trainer.callbacks.on_test_start(trainer)
            try:
                if trainer.test_function is None:
                    result = summarize(self.play(n))
                else:
                    result = test_metrics(trainer.test_function(trainer, n))
                return self._report(result)
            finally:
                self.recorder, self.counts = None, True
        return {}

    @property
    def seed(self) -> int:
        """Of the test episodes at the current env step."""
        trainer = self.trainer
        if not trainer.resample_tests:
            return trainer.test_seed
        return seed_key(trainer.test_seed, TEST_STREAM, trainer.clock.env_steps)

    def begin(self) -> None:
        """Begin a test, and finish it unless it is played apart."""
        trainer, apart = self.trainer, self.trainer.test_rollout.apart
        if apart is None or trainer.callbacks.watch_tests:
            self.run()
            return
        self.finish()
        trainer.callbacks.on_test_start(trainer)
        apart.begin_episodes(trainer.test_episodes, self.seed, trainer.clock)
        learner = trainer.learner.state_dict()
        weights = {name: learner[name] for name in ("online", "target")}
        self.pending = Pending(trainer.clock, weights, apart)

    def finish(self) -> None:
        """Wait for the pending test, if there is one, and report its result."""
        if self.pending is None:
            return
        self.reported, self.pending = self.pending, None
        try:
            self._report(summarize(self.reported.apart.finish_episodes()))
        finally:
            self.reported = None

    def finish_earlier(self) -> None:
        """The same, unless the test began at the current env step."""
        if self.pending is not None and self.pending.clock != self.trainer.clock:
            self.finish()

    def drop(self) -> None:
        """Forget the pending test, which the resumed run begins again."""
        if self.pending is not None:
            self.pending = None
            self.trainer.test_rollout.abandon(0)

    def play(self, n: int) -> list[Episode]:
        """Exactly ``n`` test episodes in the environments of tests, after the pending test.

        Raises:
            UsageError: ``n`` is not a number of episodes.
        """
        require_episodes(n)
        self.finish()
        leave_replaced()
        trainer = self.trainer
        watches: list[Watch] = [] if self.recorder is None else [self.recorder]
        if trainer.callbacks.watch_tests:
            watches.append(TestStepHooks(trainer, trainer.callbacks, n))
        return trainer.test_rollout.run_episodes(
            n,
            self.seed,
            trainer.clock,
            watches,
            stop=lambda: trainer.interrupted,
            report=lambda done: trainer.progress.report(done, n),
        )

    def _report(self, result: dict[str, float]) -> dict[str, float]:
        result = self.trainer.callbacks.on_test_end(self.trainer, result)
        self.trainer.latest.update(result)
        return result


def require_episodes(n: int) -> None:
    """Refuse what is not a number of episodes.

    Raises:
        UsageError: what was expected.
    """
    if isinstance(n, bool) or not isinstance(n, Integral) or n < 1:
        raise UsageError(f"{n!r} test episodes: expected a whole number of at least 1.")
