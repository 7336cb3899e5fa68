"""Periodic rows of metrics."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from rltrain.callback.hooks import Callback, Due
from rltrain.callback.training import Training
from rltrain.common.stateful import all_or_nothing
from rltrain.logger.loggers import Loggers
from rltrain.types import Steps


class Log(Callback):
    """Writes means of all metrics since the last row, every ``interval`` env steps, with speeds
    and, from the first one on, the number of lost episodes that environments restarted.
    """

    state_names = ("due", "written_at", "loggers", "env_restarts")

    def __init__(self, *, interval: int, loggers: Loggers, exploration: Any) -> None:
        self.due, self.loggers, self.exploration = Due(interval, interval), loggers, exploration
        self.mark = (0, 0, time.monotonic())
        self.written_at = 0  # env steps
        self.env_restarts = 0

    def on_train_start(self, trainer: Training, value: None = None) -> None:
        self.loggers.start()
        self.mark = (trainer.clock.env_steps, trainer.clock.updates, time.monotonic())
        self.on_iteration(trainer)

    def on_iteration(self, trainer: Training, value: None = None) -> None:
        """Skip interrupted iterations: the resumed run begins with the test and the row."""
        env_steps = trainer.clock.env_steps
        if self.due.reached(env_steps) and not trainer.interrupted:
            with all_or_nothing(self.due):
                self.due(env_steps)
                self.write(trainer)

    def on_collect(self, trainer: Training, value: Steps) -> Steps:
        self.env_restarts += int(np.count_nonzero(value.lost))
        return value

    def on_train_end(self, trainer: Training, value: None = None) -> None:
        """Write the remaining metrics; after an interruption, the resumed run writes them."""
        if trainer.clock.env_steps > self.written_at and not trainer.interrupted:
            self.write(trainer)

    def write(self, trainer: Training) -> None:
        with all_or_nothing(self, trainer.metrics, trainer.stopwatch):
            clock, now = trainer.clock, time.monotonic()
            env_steps, updates, then = self.mark
            passed = max(now - then, 1e-9)
            row = trainer.metrics.take()
            row |= {f"train/{k}": v for k, v in self.exploration.metrics(clock).items()}
            if clock.env_steps > env_steps:
                row["time/env_steps_per_s"] = (clock.env_steps - env_steps) / passed
                row["time/updates_per_s"] = (clock.updates - updates) / passed
            shares = trainer.stopwatch.take(trainer.rollout.seconds)
            row |= {f"time/{name}": share for name, share in shares.items()}
            if self.env_restarts:
                row["time/env_restarts"] = float(self.env_restarts)
            self.mark = (clock.env_steps, clock.updates, now)
            self.written_at = clock.env_steps
            self.loggers.write(clock, trainer.seconds, trainer.log(row))
