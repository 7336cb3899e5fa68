"""Callbacks of a user's own: what they forget is named."""

import json
import logging
from collections.abc import Mapping
from functools import partial, partialmethod
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from rltrain.buffer.lazy_batch import BatchMemory, array_form
from rltrain.callback import Callback, Callbacks, SaveSnapshots
from rltrain.callback.hooks import STEP_HOOKS, TEST_HOOKS, VALUES, Due
from rltrain.common.checkpoint.fit import UNFIT
from rltrain.common.metrics import read_row
from rltrain.errors import UsageError

UNUSED = ("obs", "avail_actions", "state", "last_action", "last", "action", "terminated")
UNUSED = (*UNUSED, "weight", "index")
HOOKS = [name for name in vars(Callback) if name.startswith("on_") and name != "on_exception"]


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_that_returns_nothing_for_a_value_is_named(hook):
    callbacks = Callbacks([WAYS["alias"](hook, lambda trainer, value: None)])
    getattr(callbacks, hook)(SimpleNamespace(), None)
    with pytest.raises(UsageError, match=rf"\.Own\.{hook} returned nothing.*return value"):
        getattr(callbacks, hook)(SimpleNamespace(), {"value": 1.0})


def of_class(attribute):
    """A callback whose class has the attribute of ``attribute(function)`` as a hook."""
    return lambda hook, call: type("Own", (Callback,), {hook: attribute(call)})()


def assigned(hook, call):
    own = type("Own", (Callback,), {})()
    setattr(own, hook, call)
    return own


def in_init(hook, call):
    return type("Own", (Callback,), {"__init__": lambda self: setattr(self, hook, call)})()


WAYS = {
    "alias": of_class(lambda call: lambda self, trainer, value: call(trainer, value)),
    "inherited": lambda hook, call: type("Own", (type(WAYS["alias"](hook, call)),), {})(),
    "staticmethod": of_class(staticmethod),
    "classmethod": of_class(lambda call: classmethod(lambda cls, t, value: call(t, value))),
    "partialmethod": of_class(lambda call: partialmethod(lambda self, f, t, v: f(t, v), call)),
    "callable": of_class(lambda call: type("Called", (), {"__call__": staticmethod(call)})()),
    "property": of_class(lambda call: property(lambda self: call)),
    "assigned": assigned,
    "assigned partial": lambda hook, call: assigned(hook, partial(call)),
    "in __init__": in_init,
    "of a plain Callback": lambda hook, call: (c := Callback(), setattr(c, hook, call))[0],
}
"""How a hook can be defined: from its name and a function of (trainer, value)."""


def failing(trainer, value):
    raise ZeroDivisionError("on purpose")


DOES = {
    "passes on": (lambda t, value: {**value, "x": 1.0}, None),
    "raises": (failing, "on purpose"),
    "returns nothing": (lambda t, value: None, r"Own\.{hook}.* returned nothing.*return value"),
    "returns a tensor": (
        lambda t, value: {**value, "x": torch.ones(1)},
        r"Own\.{hook}.* returned x=tensor.*expected numbers by name",
    ),
    "replaces the clock": (
        lambda t, value: {**value, "seconds": 1.0},
        r"Own\.{hook}.* returned seconds=1\.0.*custom/seconds",
    ),
}


@pytest.mark.parametrize("does", DOES)
@pytest.mark.parametrize("way", WAYS)
def test_a_hook_is_called_and_checked_however_it_is_defined(way, does):
    """Defects: metrics of hooks without the hook's name were not checked, exceptions in those
    without an object became AttributeErrors, and those assigned to an object were not called.
    """
    call, said = DOES[does]
    where = "callback.hooks.Callback" if way == "of a plain Callback" else "test_hooks.Own"
    metrics = "on_log", "on_test_end"
    for hook in (*metrics, "on_save", "on_collect"):
        own = WAYS[way](hook, call)
        callbacks = Callbacks([own])
        run = partial(saved, callbacks) if hook == "on_save" else getattr(callbacks, hook)
        if said is None or (
            hook not in metrics and does in ("returns a tensor", "replaces the clock")
        ):
            assert run(None, {"a": 0.0}) == call(None, {"a": 0.0})
            continue
        said_here = said.replace("Own", where.replace(".", r"\.")).replace("{hook}", hook)
        with pytest.raises((UsageError, ZeroDivisionError), match=said_here) as raised:
            run(None, {"a": 0.0})
        (note,) = raised.value.__notes__ if does == "raises" else [f"{where}.{hook}"]
        assert f"{where}.{hook}" in note


def saved(callbacks, trainer, parts):
    with callbacks.saving(trainer, parts) as found:
        return found


@pytest.mark.parametrize("way", WAYS)
def test_every_hook_counts_as_defined_however_it_is(way):
    """Compiled loops run where no callback needs every batch, update or step."""
    for hook in HOOKS:
        callbacks = Callbacks([WAYS[way](hook, lambda trainer, value: value)])
        assert callbacks.changes_batches == (hook == "on_batch")
        assert callbacks.changes_updates == (hook == "on_update")
        assert callbacks.watch_training == (hook in STEP_HOOKS)
        assert callbacks.watch_tests == (hook in TEST_HOOKS)


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_that_is_assigned_during_a_run_is_called_from_then_on(hook):
    own, value = Callback(), {"a": 0.0}
    callbacks = Callbacks([own])
    run = (
        partial(saved, callbacks) if hook == "on_save" else lambda *x: getattr(callbacks, hook)(*x)
    )
    calls = []
    for name in ("first", "second"):
        assert run(None, value) == value
        setattr(own, hook, lambda trainer, value, name=name: calls.append(name) or value)
    assert run(None, value) == value
    assert calls == ["first", "second"]
    assert callbacks.changes_batches == (hook == "on_batch")
    assert callbacks.watch_training == (hook in STEP_HOOKS)


@pytest.mark.parametrize("given", ["text", [1], 3, object()], ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("value", VALUES, ids=lambda kind: kind.__name__)
def test_a_hook_that_returns_a_value_of_another_type_is_named(value, given):
    """Defect: an AttributeError in a callback of rltrain, or in the trainer, was reported."""

    class Own(Callback):
        def on_collect(self, trainer, value):
            return given

    passed = {} if value is Mapping else Mock(spec=value)
    said = rf"\.Own\.on_collect returned {type(given).__name__}: .* {value.__name__}, changed"
    with pytest.raises(UsageError, match=said):
        Callbacks([Own()]).on_collect(SimpleNamespace(), passed)


@pytest.mark.parametrize("given", ["text", {}, 0, object()], ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_that_returns_a_value_which_nobody_passed_is_named(hook, given):
    """Defect: the next one, of rltrain, was said to have returned nothing, or all was silent."""
    own, last = of_class(lambda call: call)(hook, lambda self, t, v: given), Callback()
    setattr(last, hook, lambda trainer, value: None)
    with pytest.raises(UsageError, match=rf"\.Own\.{hook} returned {type(given).__name__}: .*None"):
        getattr(Callbacks([own, last]), hook)(SimpleNamespace(), None)


def test_an_exception_is_not_replaced_by_another():
    own = type("Own", (Callback,), {"on_exception": lambda self, trainer, value: None})
    Callbacks([own()]).on_exception(SimpleNamespace(), KeyError("x"))


@pytest.mark.parametrize("way", WAYS)
def test_what_is_named_almost_like_a_hook_is_warned_of(caplog, way):
    with caplog.at_level(logging.WARNING, "rltrain"):
        Callbacks([WAYS[way](name, print) for name in ("on_episode_ende", "on_mouse_pressed")])
    (message,) = (record.getMessage() for record in caplog.records)
    assert message.endswith(
        ".on_episode_ende is not a hook, so not called. Did you mean 'on_episode_end'?"
    )


@pytest.mark.parametrize("x", [np.float32(1.5), np.int64(3), np.float64(0.25), 2, True, np.True_])
def test_numbers_of_numpy_become_those_of_python(x):
    """Defects: no row with one of NumPy's was written, and what read a row left true out."""
    own = assigned("on_log", lambda trainer, value: {**value, "custom/x": x})
    row = Callbacks([own]).on_log(None, {"learn/loss": 0.5})
    assert row == {"learn/loss": 0.5, "custom/x": x}
    assert read_row({"env_steps": 1, **json.loads(json.dumps(row))}) == {"env_steps": 1, **row}


@pytest.mark.parametrize("row", [{3: 1.0}, {None: 1.0}, {"a": "1"}, {"a": None}, {"a": [1.0]}])
def test_metrics_that_are_not_numbers_by_name_are_refused(row):
    with pytest.raises(UsageError, match="expected numbers by name"):
        Callbacks([assigned("on_log", lambda trainer, value: row)]).on_log(None, {})


@pytest.mark.parametrize("hook", ["on_log", "on_test_end"])
@pytest.mark.parametrize("name", ["env_steps", "episodes", "updates", "seconds"])
def test_metrics_do_not_replace_the_clock_of_their_row(hook, name):
    """Defect: a row had the callback's number in place of its env steps."""
    own = WAYS["alias"](hook, lambda trainer, value: {**value, name: 1.0})
    with pytest.raises(UsageError, match=rf"{hook} returned {name}=1\.0.*custom/{name}"):
        getattr(Callbacks([own]), hook)(None, {"learn/loss": 0.5})


def test_a_batch_that_a_callback_may_have_changed_in_place_is_taken_from_its_fields():
    """Defect: on a GPU changes of fields that are stored in another type were lost."""
    arrays = {"reward": np.ones((1, 2, 1), np.float16), "mask": np.ones((1, 2), np.bool_)}
    batch = BatchMemory(array_form(arrays), torch.device("cpu")).fill(arrays)
    batch = batch.batch(lambda name, x: x.float(), {"whole": True})
    vars(batch).update(dict.fromkeys(UNUSED, torch.zeros(1)))

    def doubled(self, trainer, value):
        value.reward.mul_(2)
        return value

    changing = type("Changing", (Callback,), {"on_batch": doubled})()
    counting = type("Counting", (Callback,), {"only_counts": True, "on_batch": Callback.on_batch})()
    assert Callbacks([counting]).on_batch(None, batch) is batch
    changed = Callbacks([counting, changing]).on_batch(None, batch)
    assert changed.layout is None
    assert changed.reward.unique().tolist() == [2.0]


def test_named_attributes_are_the_state_of_a_callback():
    """Whatever kind of value each has now and had when it was saved; neither shares it with the
    other.
    """

    class Counting(Callback):
        state_names = ("count", "best", "wins", "due")

        def __init__(self):
            self.count, self.best, self.wins, self.due = 0, None, {}, Due(10)

    before, after = Counting(), Counting()
    before.count, before.best, before.wins["3m"] = 3, 0.5, [1, 2]
    before.due(25)
    state = before.state_dict()
    before.wins["3m"].append(3)
    after.load_state_dict(state)
    assert (after.count, after.best, after.wins, after.due.at) == (3, 0.5, {"3m": [1, 2]}, 30)
    before.load_state_dict(Counting().state_dict())
    assert (before.count, before.best, before.wins, before.due.at) == (0, None, {}, 0)


@pytest.mark.parametrize("results", [7, {"1": 7}, {"1": {"0": [1, 2]}}, {"1": {"0": [0, -1, 2]}}])
def test_results_of_snapshots_that_no_run_has_are_refused(results):
    """Defect: a traceback at the end of the first battle."""
    callback = SaveSnapshots(interval=10, pool_size=2)
    callback.load_state_dict({**callback.state_dict(), "results": {"1": {"0": [1, 2, 3]}}})
    with pytest.raises(UNFIT):
        callback.load_state_dict({**callback.state_dict(), "results": results})
