"""Callbacks of a user's own: what they forget is named."""

import json
import logging
from collections.abc import Mapping
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from rltrain.buffer.packed_batch import BatchMemory, form_of
from rltrain.callback import Callback, Callbacks
from rltrain.callback.hooks import VALUES
from rltrain.errors import UsageError

UNUSED = ("obs", "avail_actions", "state", "last_action", "last", "action", "terminated")
UNUSED = (*UNUSED, "weight", "index")
HOOKS = [name for name in vars(Callback) if name.startswith("on_") and name != "on_exception"]


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_that_returns_nothing_for_a_value_is_named(hook):
    own = type("Own", (Callback,), {hook: lambda self, trainer, value: None})
    getattr(own, hook).__name__ = hook
    callbacks = Callbacks([own()])
    getattr(callbacks, hook)(SimpleNamespace(), None)
    with pytest.raises(UsageError, match=rf"\.Own\.{hook} returned nothing.*return value"):
        getattr(callbacks, hook)(SimpleNamespace(), {"value": 1.0})


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


def test_an_exception_is_not_replaced_by_another():
    own = type("Own", (Callback,), {"on_exception": lambda self, trainer, value: None})
    Callbacks([own()]).on_exception(SimpleNamespace(), KeyError("x"))


def test_a_method_that_is_named_almost_like_a_hook_is_warned_of(caplog):
    with caplog.at_level(logging.WARNING, "rltrain"):
        Callbacks([type("Own", (Callback,), {"on_episode_ende": 0, "on_mouse_pressed": 0})()])
    (message,) = (record.getMessage() for record in caplog.records)
    assert message.endswith(
        "Own.on_episode_ende is not a hook, so not called. Did you mean 'on_episode_end'?"
    )


@pytest.mark.parametrize("x", [np.float32(1.5), np.int64(3), np.float64(0.25), 2, 1.5, True])
def test_numbers_of_numpy_become_those_of_python(x):
    """Defect: no row with one of them was written."""

    class Adds(Callback):
        def on_log(self, trainer, value):
            return {**value, "custom/x": x}

    row = Callbacks([Adds()]).on_log(None, {"learn/loss": 0.5})
    assert row == {"learn/loss": 0.5, "custom/x": x}
    assert json.loads(json.dumps(row)) == row


@pytest.mark.parametrize("row", [{3: 1.0}, {None: 1.0}, {"a": "1"}, {"a": None}, {"a": [1.0]}])
def test_metrics_that_are_not_numbers_by_name_are_refused(row):
    class Adds(Callback):
        def on_log(self, trainer, value):
            return row

    with pytest.raises(UsageError, match="expected numbers by name"):
        Callbacks([Adds()]).on_log(None, {})


@pytest.mark.parametrize("hook", ["on_log", "on_test_end"])
@pytest.mark.parametrize("name", ["env_steps", "episodes", "updates", "seconds"])
def test_metrics_do_not_replace_the_clock_of_their_row(hook, name):
    """Defect: a row had the callback's number in place of its env steps."""
    own = type("Own", (Callback,), {hook: lambda self, trainer, value: {**value, name: 1.0}})
    getattr(own, hook).__name__ = hook
    with pytest.raises(UsageError, match=rf"{hook} returned {name}=1\.0.*custom/{name}"):
        getattr(Callbacks([own()]), hook)(None, {"learn/loss": 0.5})


def test_a_batch_that_a_callback_may_have_changed_in_place_is_taken_from_its_fields():
    """Defect: on a GPU changes of fields that are stored in another type were lost."""
    arrays = {"reward": np.ones((1, 2, 1), np.float16), "mask": np.ones((1, 2), np.bool_)}
    batch = BatchMemory(form_of(arrays), torch.device("cpu")).fill(arrays)
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
