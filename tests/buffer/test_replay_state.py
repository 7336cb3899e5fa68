"""Saved states of ReplayBuffer, and sizes that are refused."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from rltrain.buffer.fields import n_bytes, step_fields
from rltrain.buffer.place import Place
from rltrain.common.seeding import generator
from tests.buffer.replays import CLOCK, filled, make, with_hidden
from tests.buffer.streams import SPEC, Stream, add, saved


@pytest.mark.parametrize("sampler", ["uniform", "proportional"])
@pytest.mark.parametrize("n_steps", [0, 5, 20, 70, 400])
def test_a_loaded_buffer_continues_exactly(sampler: str, n_steps: int) -> None:
    given = {"sampler": sampler, "capacity": 100, "n_step": 2}
    one, other, stream = make(**given), make(**given, rng=generator(1)), Stream(n_steps)
    for _ in range(n_steps // 5):
        one.add(stream.steps(5))
        if one.ready(4):
            one.update_priority(one.sample(4, CLOCK).index, torch.rand(4) * 3)
    other.add(Stream(99).steps(33))  # must leave no trace
    other.load_state_dict(saved(one))
    for _ in range(30):
        add(stream.steps(7, crash=0.1), one, other)
        a, b = one.sample(5, CLOCK), other.sample(5, CLOCK)
        for name in ("obs", "last_action", "action", "reward", "mask", "weight", "index"):
            assert torch.equal(getattr(a, name), getattr(b, name))
        for buffer, batch in ((one, a), (other, b)):
            buffer.update_priority(batch.index, batch.reward[0, :, 0])
    assert one.n_steps == other.n_steps


def test_stored_recurrent_states_are_loaded() -> None:
    given = {"hidden_dim": 6, "first_hidden": "stored"}
    one, other = make(**given), make(**given)
    one.add(with_hidden(Stream(0).steps(60)))
    other.load_state_dict(saved(one))
    a, b = one.sample(5, CLOCK).hidden, other.sample(5, CLOCK).hidden
    assert a is not None
    assert b is not None
    assert torch.equal(a, b)


REFUSED = [
    ({"n_envs": 2, "capacity": 200}, r"3 environments, this run has 2: set hardware\.n_envs=3"),
    ({"capacity": 400}, r"has 100 steps per environment, this one 134: use the buffer\.capacity"),
    ({"n_step": 3}, r"has 1 transitions in a window, this one 3: use the algo\.loss\.n_step"),
    ({"sampler": "proportional"}, r"use the buffer\.sampler and buffer\.agents"),
    ({"precision": "float16"}, r"'obs' of a step should be float16.*float32"),
    ({"spec": replace(SPEC, obs_shape=(5,))}, r"'obs' of a step should be float32 \(2, 5\)"),
]


@pytest.mark.parametrize(("given", "said"), REFUSED, ids=lambda x: x if isinstance(x, str) else "")
def test_a_state_that_does_not_fit_is_refused(given: dict[str, Any], said: str) -> None:
    one = make()
    filled(one, Stream(0), 60)
    with pytest.raises(ValueError, match=said):
        make(**given).load_state_dict(saved(one))


@pytest.mark.parametrize("action", [SPEC.n_actions, 255])
def test_actions_that_are_not_there_are_refused(action: int) -> None:
    """Defect: the run continued until a batch had one of them."""
    one = make()
    filled(one, Stream(0), 60)
    state = saved(one)
    state["steps.action"] = state["steps.action"].copy()
    state["steps.action"][-1, 0] = action
    with pytest.raises(ValueError, match=r"the buffer's action has .* from 0 to "):
        make().load_state_dict(state)


# refusals


def test_more_than_memory_is_refused_with_a_capacity_that_fits() -> None:
    max_bytes = 1_000_000
    with pytest.raises(ValueError, match=r"needs 7\.00 GB for buffer\.capacity=100000000") as e:
        make(capacity=100_000_000, max_bytes=max_bytes)
    assert f"({n_bytes(step_fields(SPEC, 'float32'))} bytes each), but may use 1.00 MB" in str(
        e.value
    )
    fits = int(str(e.value).partition("set buffer.capacity=")[2].partition(" ")[0])
    assert make(capacity=fits, max_bytes=max_bytes).store.bytes_in_use == 0
    assert fits * n_bytes(step_fields(SPEC, "float32")) > 0.9 * max_bytes


def test_the_bytes_that_a_refusal_names_are_enough() -> None:
    with pytest.raises(ValueError, match=r": set buffer\.max_bytes=\d+ or more\.$") as e:
        make(capacity=1000, max_bytes=1000)
    enough = int(str(e.value).partition("set buffer.max_bytes=")[2].partition(" ")[0])
    make(capacity=1000, max_bytes=enough)


def test_the_free_memory_is_the_limit_where_none_is_set() -> None:
    with pytest.raises(ValueError, match=r"needs .* TB for buffer\.capacity"):
        make(capacity=10**11)


def test_a_replay_larger_than_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rltrain.buffer.place.available_memory", lambda: 1000)
    Place(max_bytes=None).require_free(1000, 100)
    with pytest.raises(ValueError, match=r"buffer\.capacity=30 or less, or buffer\.max_bytes=600"):
        Place(max_bytes=None).require_free(2000, 100)


def test_a_capacity_too_small_for_a_window_is_refused_with_one_that_is_enough() -> None:
    given = {"sequence_length": 30, "burn_in": 10}
    with pytest.raises(ValueError, match=r"one window of 40 transitions .*capacity=129 or more"):
        make(capacity=100, **given)
    buffer, stream = make(capacity=129, **given), Stream(0)
    for _ in range(3):
        buffer.add(stream.steps(60))
    assert buffer.ready(1)


def test_independent_agents_need_a_reward_each_or_one() -> None:
    with pytest.raises(ValueError, match=r"agents=independent needs one reward, or one per agent"):
        make(spec=replace(SPEC, n_rewards=3), agents="independent")
