"""Wrong steps are refused by every buffer, with the field's name and before anything changes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from rltrain.buffer.fields import step_fields
from rltrain.buffer.step_check import StepCheck
from rltrain.errors import EnvError, UsageError
from rltrain.types import Clock, EnvSpec, Steps
from tests.buffer import test_episode, test_on_policy, test_replay
from tests.buffer.streams import SPEC, Stream, saved
from tests.helpers import require_same
from tests.marks import each_once

IMAGES = EnvSpec(n_agents=1, n_actions=300, obs_shape=(2, 3, 3), obs_dtype="uint8", max_steps=12)
STORED = {"hidden_dim": 6, "first_hidden": "stored", "sequence_length": 3}
TYPES = ["float64", "float32", "float16", "int64", "int32", "int16", "uint64", "uint8", "bool"]
TYPES += ["complex64", "object", "U3", "datetime64[s]"]
FIELDS = step_fields(SPEC, "float32")
ACCEPTED = {"avail_actions": {"uint8", "bool"}}
"""Types that a field may have besides its own."""

BUFFERS: dict[str, Callable[[EnvSpec], Any]] = {
    "episode": lambda spec: test_episode.make(spec=spec),
    "replay": lambda spec: test_replay.make(spec=spec, n_step=2, sampler="proportional"),
    "replay with hidden states": lambda spec: test_replay.make(spec=spec, **STORED),
    "on_policy": lambda spec: test_on_policy.make(spec=spec),
}


def wrong_shape(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    """The array with an axis more, fewer, longer or shorter."""
    kind = int(rng.integers(4))
    axis = int(rng.choice(np.flatnonzero(array.shape)))
    if kind == 0:
        return np.expand_dims(array, axis)
    if kind == 1:
        return np.take(array, 0, axis)
    if kind == 2:
        return np.concatenate([array, np.take(array, [0], axis)], axis)
    return np.delete(array, 0, axis)


def wrong_type(rng: np.random.Generator, name: str, array: np.ndarray) -> np.ndarray:
    accepted = ACCEPTED.get(name, {array.dtype.name})
    chosen = rng.choice([t for t in TYPES if t not in accepted])
    if chosen == "datetime64[s]":
        return np.zeros(array.shape, chosen)
    return array.astype(chosen)


def wrong_action(rng: np.random.Generator, steps: Steps, n_actions: int) -> np.ndarray:
    action = steps.action.copy()
    t, e = rng.choice(np.argwhere(~steps.last))
    action[t, e, rng.integers(action.shape[2])] = rng.choice(
        [-1, n_actions, n_actions + 255, 10**12, -(2**63)]
    )
    return action


def no_array(rng: np.random.Generator, array: np.ndarray) -> Any:
    return [None, 3.0, array.tolist(), "steps", torch.zeros(array.shape)][int(rng.integers(5))]


def corrupted(rng: np.random.Generator, steps: Steps, spec: EnvSpec) -> tuple[str, Steps]:
    """Steps of which one field is wrong, and its name."""
    names = ["obs", "avail_actions", "state", "last", "action", "reward", "terminated", "lost"]
    names += ["hidden"] if steps.hidden is not None else []
    name = str(rng.choice(names))
    array = getattr(steps, name)
    kind = rng.choice(["shape", "type", "range", "array"], p=[0.4, 0.3, 0.2, 0.1])
    if kind == "range":
        return "action", replace(steps, action=wrong_action(rng, steps, spec.n_actions))
    wrong: Any = no_array(rng, array)
    if kind == "shape":
        while (wrong := wrong_shape(rng, array)).shape == array.shape:
            pass
    elif kind == "type":
        wrong = wrong_type(rng, name, array)
    return name, replace(steps, **{name: wrong})


def with_hidden(buffer: Any, steps: Steps, rng: np.random.Generator) -> Steps:
    if not buffer.keeps_hidden:
        return steps
    return replace(steps, hidden=rng.random((*steps.action.shape, 6), np.float32))


@pytest.mark.parametrize("n", [20, pytest.param(1000, marks=pytest.mark.slow)])
@each_once(kind=BUFFERS, spec=[SPEC, IMAGES])
def test_any_wrong_field_is_named_and_nothing_is_stored(kind: str, spec: EnvSpec, n: int) -> None:
    rng = np.random.default_rng(len(kind))
    buffer, stream = BUFFERS[kind](spec), Stream(0, spec=spec)
    buffer.add(with_hidden(buffer, stream.steps(30), rng))
    before = saved(buffer)
    for _ in range(n):
        steps = with_hidden(buffer, stream.steps(int(rng.integers(2, 40)), crash=0.2), rng)
        name, wrong = corrupted(rng, steps, spec)
        with pytest.raises(ValueError, match=rf"^Steps\.{name} should be .*, got "):
            buffer.add(wrong)
        require_same(before, saved(buffer))
    buffer.add(with_hidden(buffer, stream.steps(30), rng))
    buffer.sample(1, Clock())


def test_a_field_of_another_length_is_named_and_not_the_others() -> None:
    check, steps = StepCheck(SPEC, 3, FIELDS), Stream(0).steps(8)
    said = r"^Steps\.last .* shape \(8, 3\), got bool .* \(7, 3\)\.$"
    with pytest.raises(ValueError, match=said):
        check(replace(steps, last=steps.last[:-1]))


def test_the_range_is_checked_when_shapes_and_types_are_known() -> None:
    check, stream = StepCheck(SPEC, 3, FIELDS), Stream(0)
    steps = stream.steps(8)
    check(steps)
    action = steps.action.copy()
    t, e = np.argwhere(~steps.last)[0]
    action[t, e, 1] = 3
    with pytest.raises(ValueError, match=rf"0 to 2, got 3 at time step {t} of environment {e}, a"):
        check(replace(steps, action=action))


def test_actions_of_final_steps_mean_nothing() -> None:
    steps = Stream(0).steps(40)
    assert steps.last.any()
    for kind in BUFFERS:
        buffer, rng = BUFFERS[kind](SPEC), np.random.default_rng(0)
        action = np.where(steps.last[:, :, None], 10**9, steps.action)
        buffer.add(with_hidden(buffer, replace(steps, action=action), rng))
        batch = buffer.sample(3, Clock())
        assert int(batch.action.max()) < SPEC.n_actions


def test_steps_without_a_time_step_are_refused() -> None:
    steps = Stream(0).steps(0)
    with pytest.raises(ValueError, match=r"at least one time step, got none"):
        StepCheck(SPEC, 3, FIELDS)(steps)


def test_masks_may_be_bytes_or_booleans() -> None:
    steps = Stream(0).steps(4)
    StepCheck(SPEC, 3, FIELDS)(replace(steps, avail_actions=steps.avail_actions.astype(bool)))


@pytest.mark.parametrize("name", ["obs", "state"])
@pytest.mark.parametrize("value", [-65_600.0, 1e9])
def test_float16_refuses_numbers_that_it_would_make_infinite(name: str, value: float) -> None:
    buffer, stream = test_episode.make(precision="float16"), Stream(0)
    steps = stream.steps(4)
    getattr(steps, name).flat[5] = 65_504
    buffer.add(steps)
    before, in_use = saved(buffer), buffer.store.bytes_in_use
    getattr(steps, name).flat[5] = value
    with pytest.raises(UsageError, match=rf"precision=float16 .* but {name} has one"):
        buffer.add(steps)
    require_same(before, saved(buffer))
    assert buffer.store.bytes_in_use == in_use


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    ("name", "index", "match"),
    [
        ("obs", (3, 2, 1, 0), r"^Environment 2, agent 1 has -?(nan|inf) as obs \(time step 3"),
        ("state", (3, 2, 0), r"^Environment 2 has -?(nan|inf) as state \(time step 3 "),
        ("reward", None, r"^Environment \d(, agent 0)? has -?(nan|inf) as reward \(time step \d+ "),
    ],
)
def test_numbers_that_are_not_finite_are_named_and_nothing_is_stored(name, index, match, bad):
    for kind in ("episode", "replay"):
        buffer, stream = BUFFERS[kind](SPEC), Stream(0)
        buffer.add(stream.steps(8))
        before, steps = saved(buffer), stream.steps(8)
        t, e = np.argwhere(~steps.last)[-1]
        getattr(steps, name)[index or (t, e, 0)] = bad
        with pytest.raises(EnvError, match=match):
            buffer.add(steps)
        require_same(before, saved(buffer))


def test_large_numbers_are_finite() -> None:
    steps = Stream(0).steps(4)
    steps.obs.flat[0] = 3e38
    StepCheck(SPEC, 3, FIELDS)(steps)


@pytest.mark.parametrize("masks", [True, False])
def test_an_agent_without_an_available_action_is_named(masks: bool) -> None:
    """Also where the environment does not declare that it has masks."""
    check, steps = StepCheck(replace(SPEC, masks_actions=masks), 3, FIELDS), Stream(0).steps(40)
    steps.avail_actions[:] = 1
    t, e = np.argwhere(steps.last)[0]
    steps.avail_actions[t, e] = 0
    check(steps)
    t, e = np.argwhere(~steps.last)[0]
    steps.avail_actions[t, e, 1] = 0
    said = rf"^Environment {e} gave agent 1 no available action \(time"
    with pytest.raises(EnvError, match=said):
        check(steps)
