"""Base class of callbacks, whose hooks are ``hook(trainer, value) -> value``.

To add your own: subclass ``Callback``, define the hooks you need, and name it in
``callbacks`` as a ``_target_``. Test, Save and Log are callbacks too. docs/callbacks.md has a table
of the hooks, ``rltrain/examples/`` two callbacks to start from.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakSet

from rltrain.callback.training import Training
from rltrain.common.metrics import CLOCK, plain_metrics
from rltrain.common.number_types import saved_number
from rltrain.common.stateful import Stateful, class_name, named
from rltrain.errors import UsageError, did_you_mean, reason
from rltrain.types import Batch, StateDict, Steps, StepView, Trajectory, UpdateResult

log = logging.getLogger("rltrain")


class Callback(Stateful):
    """Hooks that a run calls, of the class or assigned to an object, at any time. Each that gets a
    value returns it, changed or not; a callback with state returns it from ``state_dict``.
    """

    only_counts = False  # ``on_batch`` and ``on_update`` change neither their value nor the trainer
    starts_first = False  # its ``on_train_start`` is called before those of others
    state_names: tuple[str, ...] = ()  # attributes of ``state_dict``: plain values, stateful parts

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        for callbacks in list(IN_USE) if name.startswith("on_") else ():
            if any(each is self for each in callbacks.callbacks):
                callbacks.find_hooks()

    def state_dict(self) -> StateDict:
        """State that changes while training; saved in checkpoints."""
        own = ((name, getattr(self, name)) for name in self.state_names)
        return {k: v.state_dict() if hasattr(v, "state_dict") else deepcopy(v) for k, v in own}

    def load_state_dict(self, state: StateDict) -> None:
        """Restore what ``state_dict`` returned; ValueError for another type of rltrain's values."""
        for name in self.state_names:
            own, kind = getattr(self, name), type(state[name])
            if hasattr(own, "load_state_dict"):
                own.load_state_dict(state[name])
            elif kind is not type(own) and is_own(self):
                raise ValueError(f"{name} is {state[name]!a:.80}: expected {type(own).__name__}")
            else:
                setattr(self, name, deepcopy(state[name]))

    def on_train_start(self, trainer: Training, value: None = None) -> None:
        """Before the first iteration."""

    def on_episode_start(self, trainer: Training, value: StepView) -> StepView:
        """An episode's first observation, in training and in tests (``value.test``)."""
        return value

    def on_step(self, trainer: Training, value: StepView) -> StepView:
        """An observation, the action chosen at it, and its outcome."""
        return value

    def on_episode_end(self, trainer: Training, value: StepView) -> StepView:
        """An episode's final observation; ``value.episode`` has its return, length and info."""
        return value

    def on_trajectory(self, trainer: Training, value: Trajectory) -> Trajectory:
        """The collected steps of one episode, before they are stored; training only."""
        return value

    def on_collect(self, trainer: Training, value: Steps) -> Steps:
        """Between acting and storing."""
        return value

    def on_batch(self, trainer: Training, value: Batch) -> Batch:
        """Between sampling and learning."""
        return value

    def on_update(self, trainer: Training, value: UpdateResult) -> UpdateResult:
        """After a gradient step: priorities [B] and metrics, tensors on the device."""
        return value

    def on_iteration(self, trainer: Training, value: None = None) -> None:
        """After collecting, storing and learning."""

    def on_log(self, trainer: Training, value: dict[str, float]) -> dict[str, float]:
        """A line of training metrics, every ``log.interval`` env steps, before it is written."""
        return value

    def on_test_start(self, trainer: Training, value: None = None) -> None:
        """Before the first episode of a test."""

    def on_test_end(self, trainer: Training, value: dict[str, float]) -> dict[str, float]:
        """The metrics of a test."""
        return value

    def on_save(self, trainer: Training, value: StateDict) -> StateDict:
        """The parts of a checkpoint, before they are written."""
        return value

    def on_exception(self, trainer: Training, value: BaseException) -> BaseException:
        """The exception of ``train`` or ``iterate``, which is raised whatever hooks return."""
        return value

    def on_train_end(self, trainer: Training, value: None = None) -> None:
        """After the last iteration."""


@dataclass
class Due(Stateful):
    """A threshold: True for the first count at or after each multiple of ``interval``, which a
    resumed run may change.
    """

    interval: int
    at: int = 0

    def __call__(self, now: int) -> bool:
        if not self.reached(now):
            return False
        self.at = self.after(now)
        return True

    def reached(self, now: int) -> bool:
        """Whether the next call is True."""
        return now >= self.at

    def after(self, now: int) -> int:
        """The next multiple after this count."""
        return (now // self.interval + 1) * self.interval

    def state_dict(self) -> StateDict:
        return {"at": self.at, "interval": self.interval}

    def load_state_dict(self, state: StateDict) -> None:
        self.at, before = (saved_number(f"due.{name}", state[name]) for name in ("at", "interval"))
        if before != self.interval:
            self.at = self.after(self.at - before)


TEST_HOOKS = ("on_episode_start", "on_step", "on_episode_end")
METRIC_HOOKS = ("on_log", "on_test_end")
VALUES = Steps, Batch, UpdateResult, Trajectory, StepView, Mapping
"""Types of the values that hooks pass on."""
STEP_HOOKS = (*TEST_HOOKS, "on_trajectory")
"""Per-step hooks, called only if a callback defines one."""


class Hook(NamedTuple):
    """A hook that a callback defines; as text ``package.Class.on_log``."""

    name: str
    callback: Callback
    call: Callable[..., object]  # of the trainer and the value, however it was defined

    def __str__(self) -> str:
        text = f"{class_name(self.callback)}.{self.name}"
        if self.name in vars(self.callback):  # whose class may be one of rltrain's
            text += f" = {getattr(self.call, '__qualname__', self.call)}"
        return text

    @property
    def is_own(self) -> bool:
        """Whether it is one of rltrain's."""
        return is_own(self.callback) and self.name not in vars(self.callback)


def is_own(callback: Callback) -> bool:
    """Whether the class of a callback is one of rltrain's."""
    return type(callback).__module__.startswith("rltrain.")


class Callbacks(Callback):
    """Several callbacks in order, each passing its value to the next; only hooks that are defined
    are called.
    """

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        self.callbacks = [require_callback(each) for each in callbacks]
        self.find_hooks()
        IN_USE.add(self)

    def find_hooks(self) -> None:
        """Look which hooks the callbacks define."""
        hooks = {
            name: [Hook(name, c, getattr(c, name)) for c in self.callbacks if defines(c, name)]
            for name in vars(Callback)
            if name.startswith("on_")
        }
        hooks["on_train_start"].sort(key=lambda hook: not hook.callback.starts_first)
        for name, calls in hooks.items():  # each hook of this object calls those of its callbacks
            setattr(self, name, partial(CALLED_BY.get(name, pass_on), calls))
        self.saving = partial(saving, hooks["on_save"])
        self.watch_training = any(hooks[name] for name in STEP_HOOKS)
        changing = [c for c in self.callbacks if not c.only_counts]
        self.changes_batches = any(defines(c, "on_batch") for c in changing)
        self.changes_updates = any(defines(c, "on_update") for c in changing)
        self.watch_tests = any(hooks[name] for name in TEST_HOOKS)

    def state_dict(self) -> StateDict:
        return {name: c.state_dict() for name, c in named(self.callbacks)}

    def load_state_dict(self, state: StateDict) -> None:
        """Callbacks that were not there when the state was saved keep their initial state."""
        for name, c in named(self.callbacks):
            if name in state:
                c.load_state_dict(state[name])


IN_USE = WeakSet[Callbacks]()
"""Those whose hooks may be assigned."""


def require_callback(part: Any) -> Callback:
    """The object itself, with a warning of attributes that are named almost like a hook; ValueError
    if it is not a callback, or its ``state_names`` are a text.
    """
    if isinstance(part, Callback):
        for name in sorted(n for n in dir(part) if n.startswith("on_")):
            meant = "" if hasattr(Callback, name) else did_you_mean(name, vars(Callback))
            if meant:
                log.warning("%s.%s is not a hook, so not called.%s", class_name(part), name, meant)
        if isinstance(names := part.state_names, str):
            raise ValueError(
                f"{class_name(part)}.state_names is {names!r}: expected a tuple, ({names!r},)."
            )
        return part
    is_class = isinstance(part, type)
    found = f"the class {part.__name__}" if is_class else f"an object of {type(part).__name__}"
    fix = f"type {part.__name__}()" if is_class else "make its class a subclass"
    raise ValueError(
        f"callbacks: expected an object of a subclass of rltrain.callback.Callback, got {found}: "
        f"{fix}."
    )


# twin: kernels/learning.py
def pass_on(hooks: Sequence[Hook], trainer: Training, value: object = None) -> Any:
    """Call hooks in order, each with the value that the one before returned.

    Raises:
        UsageError: one that returned nothing, something else or what it was not passed, metrics
            that are not numbers, or names of the clock.
    """
    for hook in hooks:
        given = value
        try:
            value = hook.call(trainer, value)
        except Exception as error:
            if not hook.is_own:
                error.add_note(f"in {hook}")
            raise
        if given is None and value is not None:
            raise UsageError(
                f"{hook} returned {type(value).__name__}: expected None, since no value was passed "
                "to it. Do not return a value from it."
            )
        kind = None if value is given else next((k for k in VALUES if isinstance(given, k)), None)
        if kind is not None and not isinstance(value, kind):
            raise UsageError(
                f"{hook} returned {'nothing' if value is None else type(value).__name__}"
                f": expected its value, of the type {kind.__name__}, changed or not. End it with: "
                "return value"
            )
        if hook.name in METRIC_HOOKS and isinstance(value, Mapping):
            value = plain_metrics(hook, value)
            if taken := next((name for name in CLOCK if name in value), None):
                raise UsageError(
                    f"{hook} returned {taken}={value[taken]}, which would replace that of the "
                    f"clock. Expected another name, such as custom/{taken}."
                )
    return value


# twin: kernels/learning.py
def pass_on_batch(hooks: Sequence[Hook], trainer: Training, value: Batch) -> Any:
    """``pass_on``; what was changed in place is in the batch's fields, not where it is packed."""
    batch = pass_on(hooks, trainer, value)
    changing = any(not hook.callback.only_counts for hook in hooks)
    return replace(batch) if changing and getattr(batch, "layout", None) is not None else batch


def call_all(hooks: Sequence[Hook], trainer: Training, value: object = None) -> Any:
    """Call the hooks of a run's end, each whatever others raise: the last checkpoint is one of
    them. The first exception ends the run, that of ``on_exception`` before all; others are logged.
    """
    errors = [value] if isinstance(value, BaseException) else []
    for hook in hooks:
        try:
            pass_on([hook], trainer, value)
        except (Exception, SystemExit) as error:
            if errors:
                log.error("%s in %s", reason(error), hook, exc_info=True)
            errors.append(error)
    if errors and errors[0] is not value:
        raise errors[0]
    return value


@contextmanager
def saving(hooks: Sequence[Hook], trainer: Training, parts: StateDict) -> Iterator[StateDict]:
    """Context for writing what ``on_save`` makes of parts; what users' hooks raise waits for it."""
    errors: list[BaseException] = []
    for hook in hooks:
        try:
            returned = pass_on([hook], trainer, dict(parts))
            if lost := ", ".join(parts.keys() - returned.keys()):
                raise UsageError(f"{hook} left out {lost}: expected all parts, changed or not.")
            parts = returned
        except (Exception, SystemExit) as error:
            if hook.is_own:
                raise
            if errors:
                log.error("%s in %s", reason(error), hook, exc_info=True)
            errors.append(error)
    yield parts
    if errors:
        raise errors[0]


CALLED_BY = {"on_batch": pass_on_batch, "on_train_end": call_all, "on_exception": call_all}
"""Functions that call hooks otherwise than ``pass_on``."""


def defines(callback: Callback, hook: str) -> bool:
    """Whether a callback's class overrides a hook, or the object itself has one."""
    overrides = getattr(type(callback), hook) is not getattr(Callback, hook)
    return overrides or hook in vars(callback)
