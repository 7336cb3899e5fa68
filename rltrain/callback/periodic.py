"""Callbacks that act periodically: test, save, log, draw; and the one that ends a run early."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from rltrain.callback.hooks import Callback
from rltrain.callback.training import Training
from rltrain.common import checkpoint
from rltrain.errors import EnvError, StorageError
from rltrain.logger import curve
from rltrain.logger.loggers import Loggers
from rltrain.types import Steps


class Due:
    """A threshold: True for the first count at or after each multiple of ``interval``."""

    def __init__(self, interval: int, at: int = 0) -> None:
        self.interval, self.at = interval, at

    def __call__(self, now: int) -> bool:
        if now < self.at:
            return False
        self.at = (now // self.interval + 1) * self.interval
        return True


class Test(Callback):
    """Tests at step 0, at every multiple of ``interval`` env steps, and at the end; keeps the best
    weights, of equal ones the latest, and untrained ones only until others are tested.
    """

    def __init__(self, *, interval: int, loggers: Loggers) -> None:
        self.due, self.loggers = Due(interval), loggers
        self.tested_at = -1
        self.best: list[float] = []
        self.best_untrained = True

    def on_train_start(self, trainer: Training, value: Any = None) -> Any:
        return self.on_iteration(trainer, value)

    def on_iteration(self, trainer: Training, value: Any = None) -> Any:
        before = self.due.at
        if self.due(trainer.clock.env_steps) and not trainer.test():
            self.due.at = before  # interrupted: the resumed run begins with this test
        return value

    def on_train_end(self, trainer: Training, value: Any = None) -> Any:
        if self.tested_at != trainer.clock.env_steps and not trainer.interrupted:
            trainer.test()
        return value

    def on_test_end(self, trainer: Training, value: dict[str, float]) -> dict[str, float]:
        self.tested_at = trainer.clock.env_steps
        self.loggers.write(trainer.clock, trainer.seconds, value)
        compared = ("test/win_rate", "test/return_mean")
        score = [value.get(name, 0.0) for name in compared]
        score = [-math.inf if math.isnan(x) else x for x in score]
        first_trained = self.best_untrained and not trainer.untrained
        better = score >= self.best or first_trained
        if better and any(name in value for name in compared):
            kept = trainer.disk.attempt("the weights of a test", lambda: self.keep(trainer))
            if kept:
                self.best, self.best_untrained = score, trainer.untrained
        return value

    def keep(self, trainer: Training) -> None:
        """Let ``best`` name the weights that were just tested."""
        checkpoints = trainer.run_dir / "checkpoints"
        if not (checkpoints / str(self.tested_at)).exists():
            trainer.save("weights")
        checkpoint.name_pointer(checkpoints, "best", self.tested_at)

    def state_dict(self) -> dict[str, Any]:
        return {
            "at": self.due.at,
            "tested_at": self.tested_at,
            "best": self.best,
            "best_untrained": self.best_untrained,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.due.at, self.tested_at = state["at"], state["tested_at"]
        self.best, self.best_untrained = list(state["best"]), state["best_untrained"]


def require_folder(trainer: Training) -> None:
    """Refuse to go on where nothing can be kept.

    Raises:
        StorageError: the run folder is gone.
    """
    if not trainer.run_dir.is_dir():
        raise StorageError(
            f"The run folder {trainer.run_dir} was deleted or moved while the run was going on."
        )


class Save(Callback):
    """Checkpoints at every multiple of ``interval`` env steps, at the end and on an
    interruption.
    """

    def __init__(self, *, interval: int, replay_buffer: bool) -> None:
        self.due, self.replay_buffer = Due(interval, interval), replay_buffer
        self.saved_at = -1

    def on_iteration(self, trainer: Training, value: Any = None) -> Any:
        if self.due(trainer.clock.env_steps) and not trainer.diverging:
            self.save(trainer)
            require_folder(trainer)
        return value

    def on_train_end(self, trainer: Training, value: Any = None) -> Any:
        if not self.save(trainer):
            require_folder(trainer)
            raise StorageError(
                "The last checkpoint could not be written. Make room in the run folder, then "
                "resume the run."
            )
        return value

    def on_exception(self, trainer: Training, value: BaseException) -> BaseException:
        """Save a run whose environment is broken; its open episodes are dropped."""
        if isinstance(value, EnvError) and trainer.clock.env_steps > 0 and not trainer.diverging:
            for rollout in (trainer.rollout, trainer.test_rollout):
                rollout.abandon(trainer.clock.episodes)
            self.saved_at = -1  # saving may be what failed
            self.save(trainer)
        return value

    def save(self, trainer: Training) -> bool:
        """Write a full checkpoint, unless there is one of this env step; returns whether there
        is one.
        """
        before, now = self.saved_at, trainer.clock.env_steps
        if before == now:
            return True
        self.saved_at = now  # as it is to be saved
        saved = trainer.disk.attempt(
            "a checkpoint", lambda: trainer.save("full", with_replay=self.replay_buffer)
        )
        self.saved_at = now if saved else before
        return saved

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.due.at, "saved_at": self.saved_at}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.due.at, self.saved_at = state["at"], state["saved_at"]


class Log(Callback):
    """Means of all metrics since the last line, every ``interval`` env steps, with speeds and, from
    the first one on, the number of environments that lost their episode and began another.
    """

    def __init__(self, *, interval: int, loggers: Loggers, exploration: Any) -> None:
        self.due, self.loggers, self.exploration = Due(interval, interval), loggers, exploration
        self.mark = (0, 0, time.monotonic())
        self.env_restarts = 0

    def on_train_start(self, trainer: Training, value: Any = None) -> Any:
        self.mark = (trainer.clock.env_steps, trainer.clock.updates, time.monotonic())
        return value

    def on_iteration(self, trainer: Training, value: Any = None) -> Any:
        if self.due(trainer.clock.env_steps):
            self.write(trainer)
        return value

    def on_collect(self, trainer: Training, value: Steps) -> Steps:
        self.env_restarts += int(np.count_nonzero(value.lost))
        return value

    def on_train_end(self, trainer: Training, value: Any = None) -> Any:
        if trainer.clock.env_steps > self.mark[0]:
            self.write(trainer)
        return value

    def write(self, trainer: Training) -> None:
        clock, now = trainer.clock, time.monotonic()
        env_steps, updates, then = self.mark
        passed = max(now - then, 1e-9)
        row = trainer.metrics.take()
        row |= {f"train/{k}": v for k, v in self.exploration.metrics(clock).items()}
        row["time/env_steps_per_s"] = (clock.env_steps - env_steps) / passed
        row["time/updates_per_s"] = (clock.updates - updates) / passed
        shares = trainer.stopwatch.take(trainer.rollout.seconds)
        row |= {f"time/{name}": share for name, share in shares.items()}
        if self.env_restarts:
            row["time/env_restarts"] = float(self.env_restarts)
        self.mark = (clock.env_steps, clock.updates, now)
        self.loggers.write(clock, trainer.seconds, trainer.log(row))

    def state_dict(self) -> dict[str, Any]:
        return {
            "at": self.due.at,
            "loggers": self.loggers.state_dict(),
            "env_restarts": self.env_restarts,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.due.at, self.env_restarts = state["at"], int(state["env_restarts"])
        self.loggers.load_state_dict(state["loggers"])


class Stop(Callback):
    """Ends the run when a metric has risen (``mode`` max) or fallen (min) to a value, or after so
    many hours.
    """

    def __init__(
        self,
        *,
        metric: str | None,
        mode: Literal["max", "min"],
        value: float | None,
        hours: float | None,
    ) -> None:
        self.metric, self.mode, self.value, self.hours = metric, mode, value, hours

    def on_iteration(self, trainer: Training, value: Any = None) -> Any:
        if self.metric is not None and self.value is not None:
            now = trainer.latest.get(self.metric, math.nan)
            if now >= self.value if self.mode == "max" else now <= self.value:
                trainer.stop(f"{self.metric} reached {now:g}")
        if self.hours is not None and trainer.seconds >= 3600 * self.hours:
            trainer.stop(f"{self.hours:g} hours are over")
        return value


class DrawCurve(Callback):
    """Redraws the curve after a test, at most once in ``every`` seconds, and at the end."""

    def __init__(self, *, title: str, every: float = 60.0) -> None:
        self.title, self.every = title, every
        self.drawn_at = time.monotonic()

    def on_test_end(self, trainer: Training, value: dict[str, float]) -> dict[str, float]:
        if time.monotonic() - self.drawn_at >= self.every:
            self.draw(trainer)
        return value

    def on_train_end(self, trainer: Training, value: Any = None) -> Any:
        self.draw(trainer)
        return value

    def draw(self, trainer: Training) -> None:
        trainer.disk.attempt("the curve", lambda: curve.draw(trainer.run_dir, self.title))
        self.drawn_at = time.monotonic()
