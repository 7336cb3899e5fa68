"""Tests of a trainer: episodes in environments of their own, or a function of the user's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from rltrain.callback import Callbacks
from rltrain.callback.training import Training
from rltrain.common.metrics import summarize, test_metrics
from rltrain.common.progress import Progress
from rltrain.errors import Interrupted
from rltrain.interfaces import VectorEnv, Watch
from rltrain.step_hooks import TestStepHooks
from rltrain.types import Episode

TestFunction = Callable[[Any, int], Mapping[str, float]]
"""A test function: maps the trainer and a number of episodes to metrics."""


class Tested(Training, Protocol):
    """The members of a trainer that a test uses."""

    callbacks: Callbacks
    progress: Progress
    test_function: TestFunction | None
    test_seed: int

    def play(self, n: int) -> list[Episode]: ...


def test(trainer: Tested, n: int) -> dict[str, float]:
    """``Trainer.test`` of ``n`` episodes."""
    with trainer.progress.during("testing", n):
        trainer.callbacks.on_test_start(trainer)
        trainer.test_rollout.sync(trainer.learner)
        try:
            if trainer.test_function is None:
                result = summarize(trainer.play(n))
            else:
                result = test_metrics(trainer.test_function(trainer, n))
        except Interrupted:
            return {}
        result = trainer.callbacks.on_test_end(trainer, result)
    trainer.latest.update(result)
    return result


def play(trainer: Tested, n: int) -> list[Episode]:
    """Exactly ``n`` test episodes in the environments of tests."""
    watches: list[Watch] = [] if trainer.recorder is None else [trainer.recorder]
    if trainer.callbacks.watch_tests:
        watches.append(TestStepHooks(trainer, trainer.callbacks, n))
    return trainer.test_rollout.run_episodes(
        n,
        trainer.test_seed,
        trainer.clock,
        Watches(watches) if watches else None,
        stop=lambda: trainer.interrupted,
        report=lambda done: trainer.progress.report(done, n),
    )


class Watches(Watch):
    """Several watches as one."""

    def __init__(self, watches: Sequence[Watch]) -> None:
        self.watches = watches

    def __call__(
        self, env: VectorEnv, numbers: Sequence[int], finished: Mapping[int, Episode]
    ) -> None:
        for watch in self.watches:
            watch(env, numbers, finished)

    def stepped(self, action: np.ndarray, reward: np.ndarray, terminated: np.ndarray) -> None:
        for watch in self.watches:
            watch.stepped(action, reward, terminated)
