"""Periodic rows of metrics, and the learning curve that is drawn from them."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rltrain.callback.hooks import Callback, Due
from rltrain.callback.training import Training
from rltrain.common.stateful import all_or_nothing
from rltrain.logger import curve
from rltrain.logger.loggers import Loggers
from rltrain.types import Steps

log = logging.getLogger("rltrain")


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


@dataclass(kw_only=True, eq=False)
class DrawCurve(Callback):
    """Redraws the learning curve in the run folder after tests, at most once per ``every`` seconds,
    and at the end.
    """

    title: str
    every: float = 60.0
    drawn_at: float = field(default_factory=time.monotonic)

    def on_test_end(self, trainer: Training, value: dict[str, float]) -> dict[str, float]:
        if time.monotonic() - self.drawn_at >= self.every:
            self.draw(trainer)
        return value

    def on_train_end(self, trainer: Training, value: None = None) -> None:
        self.draw(trainer)

    def draw(self, trainer: Training) -> None:
        try:
            with trainer.disk.attempt("the curve"):
                curve.draw(trainer.run_dir, self.title)
        except Exception as error:  # in matplotlib; does not end the run
            log.warning("could not draw the curve (%s); the run continues", error, exc_info=True)
        self.drawn_at = time.monotonic()
