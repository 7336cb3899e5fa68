"""States of buffers with what no run stores are refused, whichever array holds it."""

import copy

import numpy as np
import pytest

from rltrain.common import checkpoint
from rltrain.common.checkpoint.fit import UNFIT
from tests.buffer import episodes, replays, test_on_policy
from tests.buffer.streams import SPEC, Stream, saved

NAN, INF, FAR = float("nan"), float("inf"), 99_999
STEPS = [
    *((f"steps.{name}", bad) for name in ("obs", "state", "reward") for bad in (NAN, INF, -INF)),
    ("steps.action", SPEC.n_actions),
    ("steps.avail_actions", False),
    ("n_envs", 2),
]
CASES = {
    "replay": [
        *STEPS,
        *((key, bad) for key in ("begin", "end", "open", "stop") for bad in (-1, FAR)),
        *(("priority", bad) for bad in (NAN, INF, -1.0, 5.0)),
        *(("largest", bad) for bad in (NAN, INF, 0.0)),
        ("steps.last", True),
    ],
    "episodes": [
        *STEPS,
        *((key, bad) for key in ("before", "env", "length") for bad in (-1, FAR)),
        *(("begin", bad) for bad in (-1, 10**17)),
        *(("open_length", bad) for bad in (-1, FAR)),
        *(("oldest", bad) for bad in (-1, 10**17, 1.5)),
        *(("priority", bad) for bad in (NAN, INF, -1.0, 0.0)),
        *(("largest", bad) for bad in (NAN, INF, 0.0)),
        ("steps.last", True),
    ],
    "on_policy": [
        *STEPS,
        ("steps.action", -1),
        *(("last_action", bad) for bad in (-2, SPEC.n_actions)),
        *(("first", bad) for bad in (-1, FAR)),
        *(("order", bad) for bad in (-1, FAR)),
        ("td_target", NAN),
    ],
}
MAKE = {
    "replay": lambda: replays.make(sampler="proportional", capacity=90),
    "episodes": lambda: episodes.make(sampler="proportional"),
    "on_policy": test_on_policy.make,
}


def is_refused(kind, state):
    """Whether a new buffer refuses this state, as a restore expects it."""
    try:
        MAKE[kind]().load_state_dict(state)
    except UNFIT:
        return True
    return False


def replaced(value, bad):
    """A number replaced, or the last one of an array."""
    if not isinstance(value, np.ndarray):
        return bad
    out = value.copy()
    out[... if value.dtype.kind == "b" else -1] = bad
    return out


@pytest.mark.parametrize("kind", CASES)
def test_what_no_run_stores_is_refused(kind):
    buffer = MAKE[kind]()
    for _ in range(3):
        buffer.add(Stream(0, shortest=1).steps(40))
    buffer.sample(4, replays.CLOCK)
    whole = saved(buffer)
    MAKE[kind]().load_state_dict(copy.deepcopy(whole))
    for key, bad in CASES[kind]:
        state = {**whole, key: replaced(whole[key], bad)}
        if key == "steps.avail_actions":
            state["steps.last"] = np.zeros_like(whole["steps.last"])
        assert is_refused(kind, state), (key, bad)
    arrays = [key for key, value in whole.items() if isinstance(value, np.ndarray)]
    for key in arrays:
        shorter = [] if key == "order" else [whole[key][:-1]]  # some are drawn already
        for wrong in (*shorter, whole[key][None], whole[key].astype(complex), None):
            assert is_refused(kind, {**whole, key: wrong}), (key, wrong)


def test_steps_on_disk_that_no_run_stores_are_refused(tmp_path):
    """The checksums of a stranger are right."""
    place = {"storage": "disk", "own_folder": tmp_path / "steps", "saves_steps": True}
    buffer = replays.make(**place)
    buffer.add(Stream(0).steps(40))
    row = buffer.store.rows(0, np.array([39]))
    for name, bad in (("obs", NAN), ("reward", INF), ("action", SPEC.n_actions)):
        good = buffer.store.arrays[name][row].copy()
        buffer.store.arrays[name][row] = bad
        buffer.store.arrays["last"][row] = False
        buffer.store._summed[:] = False
        checkpoint.write(tmp_path, 1, {"replay": buffer.state_dict()})
        buffer.saved(True)
        other = replays.make(**place)
        with pytest.raises(ValueError, match=f"the buffer's {name} has"):
            other.load_state_dict(checkpoint.read(tmp_path / "1", "replay"))
        buffer.store.arrays[name][row] = good
