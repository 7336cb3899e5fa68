"""Callbacks look at a run from outside: ``hook(trainer, value) -> value``.

To add one of your own: subclass ``Callback``, define the hooks you need, and name it in
``callbacks`` as a ``_target_``. Test, Save and Log are callbacks too. docs/callbacks.md has a table
of the hooks, ``rltrain/examples/`` two callbacks to start from.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rltrain.common import checkpoint
from rltrain.logger import curve
from rltrain.logger.loggers import Loggers
from rltrain.types import (
    Batch,
    Steps,
    StepView,
    Trajectory,
    UpdateResult,
)

if TYPE_CHECKING:
    from rltrain.trainer import Trainer


class Callback:
    """Every hook gives its value on, changed or not; whoever has state says so in
    ``state_dict``.
    """

    def on_train_start(self, trainer: Trainer, value: Any = None) -> Any:
        return value

    def on_episode_start(self, trainer: Trainer, value: StepView) -> StepView:
        """An episode's first observation, in training and in tests (``value.test``)."""
        return value

    def on_step(self, trainer: Trainer, value: StepView) -> StepView:
        """An observation, the action chosen at it, and what came of it."""
        return value

    def on_episode_end(self, trainer: Trainer, value: StepView) -> StepView:
        """An episode's final observation; ``value.episode`` has its return, length and info."""
        return value

    def on_trajectory(self, trainer: Trainer, value: Trajectory) -> Trajectory:
        """What one collect added to one episode, before it is stored; training only."""
        return value

    def on_collect(self, trainer: Trainer, value: Steps) -> Steps:
        """Between acting and storing."""
        return value

    def on_batch(self, trainer: Trainer, value: Batch) -> Batch:
        """Between sampling and learning."""
        return value

    def on_update(self, trainer: Trainer, value: UpdateResult) -> UpdateResult:
        """After a gradient step: priorities [B] and metrics, tensors on the device."""
        return value

    def on_iteration(self, trainer: Trainer, value: Any = None) -> Any:
        return value

    def on_log(self, trainer: Trainer, value: dict[str, float]) -> dict[str, float]:
        """A line of training metrics, every ``log.interval`` env steps, before it is written."""
        return value

    def on_test_start(self, trainer: Trainer, value: Any = None) -> Any:
        return value

    def on_test_end(self, trainer: Trainer, value: dict[str, float]) -> dict[str, float]:
        """The metrics of a test."""
        return value

    def on_save(self, trainer: Trainer, value: dict[str, Any]) -> dict[str, Any]:
        """The parts of a checkpoint, before they are written."""
        return value

    def on_exception(self, trainer: Trainer, value: BaseException) -> BaseException:
        return value

    def on_train_end(self, trainer: Trainer, value: Any = None) -> Any:
        return value

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state_dict`` said."""


TEST_HOOKS = ("on_episode_start", "on_step", "on_episode_end")
STEP_HOOKS = (*TEST_HOOKS, "on_trajectory")
"""Hooks that are told of single slots, only if anybody defines them."""


class Callbacks(Callback):
    """Several callbacks in order, each handing its value to the next; only hooks that are defined
    are called.
    """

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        self.callbacks = list(callbacks)
        self.hooks = {
            name: [getattr(c, name) for c in self.callbacks if defines(c, name)]
            for name in vars(Callback)
            if name.startswith("on_")
        }
        self.watch_training = any(self.hooks[name] for name in STEP_HOOKS)
        self.watch_tests = any(self.hooks[name] for name in TEST_HOOKS)

    def each(self, hook: str, trainer: Trainer, value: Any) -> Any:
        for call in self.hooks[hook]:
            value = call(trainer, value)
        return value

    def on_train_start(self, trainer: Trainer, value: Any = None) -> Any:
        return self.each("on_train_start", trainer, value)

    def on_episode_start(self, trainer: Trainer, value: StepView) -> StepView:
        return self.each("on_episode_start", trainer, value)

    def on_step(self, trainer: Trainer, value: StepView) -> StepView:
        return self.each("on_step", trainer, value)

    def on_episode_end(self, trainer: Trainer, value: StepView) -> StepView:
        return self.each("on_episode_end", trainer, value)

    def on_trajectory(self, trainer: Trainer, value: Trajectory) -> Trajectory:
        return self.each("on_trajectory", trainer, value)

    def on_collect(self, trainer: Trainer, value: Steps) -> Steps:
        return self.each("on_collect", trainer, value)

    def on_batch(self, trainer: Trainer, value: Batch) -> Batch:
        return self.each("on_batch", trainer, value)

    def on_update(self, trainer: Trainer, value: UpdateResult) -> UpdateResult:
        return self.each("on_update", trainer, value)

    def on_iteration(self, trainer: Trainer, value: Any = None) -> Any:
        return self.each("on_iteration", trainer, value)

    def on_log(self, trainer: Trainer, value: dict[str, float]) -> dict[str, float]:
        return self.each("on_log", trainer, value)

    def on_test_start(self, trainer: Trainer, value: Any = None) -> Any:
        return self.each("on_test_start", trainer, value)

    def on_test_end(self, trainer: Trainer, value: dict[str, float]) -> dict[str, float]:
        return self.each("on_test_end", trainer, value)

    def on_save(self, trainer: Trainer, value: dict[str, Any]) -> dict[str, Any]:
        return self.each("on_save", trainer, value)

    def on_exception(self, trainer: Trainer, value: BaseException) -> BaseException:
        return self.each("on_exception", trainer, value)

    def on_train_end(self, trainer: Trainer, value: Any = None) -> Any:
        return self.each("on_train_end", trainer, value)

    def state_dict(self) -> dict[str, Any]:
        return {name: c.state_dict() for name, c in self.named()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Callbacks that were not there when the state was saved start afresh."""
        for name, c in self.named():
            if name in state:
                c.load_state_dict(state[name])

    def named(self) -> list[tuple[str, Callback]]:
        """Every callback by its class and how many of that class came before."""
        names = [f"{type(c).__module__}.{type(c).__qualname__}" for c in self.callbacks]
        return [(f"{n}.{names[:i].count(n)}", self.callbacks[i]) for i, n in enumerate(names)]


def defines(callback: Callback, hook: str) -> bool:
    return getattr(type(callback), hook) is not getattr(Callback, hook)


class Due:
    """A remembered threshold: what belongs to a multiple happens at the first look at or after
    it.
    """

    def __init__(self, interval: int, at: int = 0) -> None:
        self.interval, self.at = interval, at

    def __call__(self, now: int) -> bool:
        if now < self.at:
            return False
        self.at = (now // self.interval + 1) * self.interval
        return True


class ObsStatistics(Callback):
    """Every collected observation counts once in the network's running mean and variance; nothing
    else moves them: neither tests nor what is sampled again.
    """

    def __init__(self, *, update: Callable[[np.ndarray], None]) -> None:
        self.update = update

    def on_collect(self, trainer: Trainer, value: Steps) -> Steps:
        self.update(value.obs)
        return value


class Test(Callback):
    """Tests at step 0, at every multiple of ``interval`` env steps, and at the end; keeps the best
    weights.
    """

    def __init__(self, *, interval: int, loggers: Loggers) -> None:
        self.due, self.loggers = Due(interval), loggers
        self.tested_at = -1
        self.best: list[float] = []

    def on_train_start(self, trainer: Trainer, value: Any = None) -> Any:
        return self.on_iteration(trainer, value)

    def on_iteration(self, trainer: Trainer, value: Any = None) -> Any:
        before = self.due.at
        if self.due(trainer.clock.env_steps) and not trainer.test():
            self.due.at = before  # interrupted: the resumed run begins with this test
        return value

    def on_train_end(self, trainer: Trainer, value: Any = None) -> Any:
        if self.tested_at != trainer.clock.env_steps and not trainer.interrupted:
            trainer.test()
        return value

    def on_test_end(self, trainer: Trainer, value: dict[str, float]) -> dict[str, float]:
        self.tested_at = trainer.clock.env_steps
        self.loggers.write(trainer.clock, trainer.seconds, value)
        judged = ("test/win_rate", "test/return_mean")
        score = [value.get(name, 0.0) for name in judged]
        if score > self.best and any(name in value for name in judged):
            self.best = score
            checkpoints = trainer.run_dir / "checkpoints"
            if not (checkpoints / str(self.tested_at)).exists():
                trainer.save("weights")
            checkpoint.name_pointer(checkpoints, "best", self.tested_at)
        return value

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.due.at, "tested_at": self.tested_at, "best": self.best}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.due.at, self.tested_at = state["at"], state["tested_at"]
        self.best = list(state["best"])


class Save(Callback):
    """Checkpoints at every multiple of ``interval`` env steps, at the end and on an
    interruption.
    """

    def __init__(self, *, interval: int, keep_last: int, replay_buffer: bool) -> None:
        self.due, self.keep_last = Due(interval, interval), keep_last
        self.replay_buffer = replay_buffer
        self.saved_at = -1

    def on_iteration(self, trainer: Trainer, value: Any = None) -> Any:
        if self.due(trainer.clock.env_steps):
            self.save(trainer)
        return value

    def on_train_end(self, trainer: Trainer, value: Any = None) -> Any:
        self.save(trainer)
        return value

    def save(self, trainer: Trainer) -> None:
        """Write a full checkpoint, point to it, and keep only as many as were asked for."""
        if self.saved_at == trainer.clock.env_steps:
            return
        before, self.saved_at = self.saved_at, trainer.clock.env_steps
        checkpoints = trainer.run_dir / "checkpoints"
        trainer.save("full", with_replay=self.replay_buffer)
        checkpoint.name_pointer(checkpoints, "latest", self.saved_at)
        if (checkpoints / str(before)).exists():
            checkpoint.drop_part(checkpoints / str(before), "replay")
        checkpoint.prune(checkpoints, self.keep_last)

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.due.at, "saved_at": self.saved_at}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.due.at, self.saved_at = state["at"], state["saved_at"]


class Log(Callback):
    """Means of everything since the last line, every ``interval`` env steps, with speeds."""

    def __init__(self, *, interval: int, loggers: Loggers, exploration: Any) -> None:
        self.due, self.loggers, self.exploration = Due(interval, interval), loggers, exploration
        self.mark = (0, 0, time.monotonic())

    def on_train_start(self, trainer: Trainer, value: Any = None) -> Any:
        self.mark = (trainer.clock.env_steps, trainer.clock.updates, time.monotonic())
        return value

    def on_iteration(self, trainer: Trainer, value: Any = None) -> Any:
        if self.due(trainer.clock.env_steps):
            self.write(trainer)
        return value

    def on_train_end(self, trainer: Trainer, value: Any = None) -> Any:
        if trainer.clock.env_steps > self.mark[0]:
            self.write(trainer)
        return value

    def write(self, trainer: Trainer) -> None:
        clock, now = trainer.clock, time.monotonic()
        env_steps, updates, then = self.mark
        passed = max(now - then, 1e-9)
        row = trainer.metrics.take()
        row |= {f"train/{k}": v for k, v in self.exploration.metrics(clock).items()}
        row["time/env_steps_per_s"] = (clock.env_steps - env_steps) / passed
        row["time/updates_per_s"] = (clock.updates - updates) / passed
        self.mark = (clock.env_steps, clock.updates, now)
        row = trainer.callbacks.on_log(trainer, row)
        trainer.latest.update(row)
        self.loggers.write(clock, trainer.seconds, row)

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.due.at, "loggers": self.loggers.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.due.at = state["at"]
        self.loggers.load_state_dict(state["loggers"])


class Stop(Callback):
    """Ends the run when a metric has reached a value, or after so many hours."""

    def __init__(self, *, metric: str | None, value: float | None, hours: float | None) -> None:
        self.metric, self.value, self.hours = metric, value, hours

    def on_iteration(self, trainer: Trainer, value: Any = None) -> Any:
        if self.metric is not None and self.value is not None:
            reached = trainer.latest.get(self.metric)
            if reached is not None and reached >= self.value:
                trainer.stop(f"{self.metric} reached {reached:g}")
        if self.hours is not None and trainer.seconds >= 3600 * self.hours:
            trainer.stop(f"{self.hours:g} hours are over")
        return value


class DrawCurve(Callback):
    """Redraws the curve after a test, at most once in ``every`` seconds, and at the end."""

    def __init__(self, *, title: str, every: float = 60.0) -> None:
        self.title, self.every = title, every
        self.drawn_at = time.monotonic()

    def on_test_end(self, trainer: Trainer, value: dict[str, float]) -> dict[str, float]:
        if time.monotonic() - self.drawn_at >= self.every:
            self.draw(trainer)
        return value

    def on_train_end(self, trainer: Trainer, value: Any = None) -> Any:
        self.draw(trainer)
        return value

    def draw(self, trainer: Trainer) -> None:
        curve.draw(trainer.run_dir, self.title)
        self.drawn_at = time.monotonic()
