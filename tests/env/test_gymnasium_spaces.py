"""What becomes of the spaces of Gymnasium environments: observations, actions, masks."""

import json
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rltrain.env.gymnasium import GymnasiumEnv
from rltrain.env.spaces import from_record, recorded_view, viewed
from rltrain.errors import EnvError
from tests.env.scripted import Scripted, fails, go


def one_hot(n: int, *at: int) -> list[float]:
    return [float(i in at) for i in range(n)]


HWC = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
CHW = HWC.transpose(2, 0, 1)
GRAY, CODES = HWC[..., 0], HWC[..., 0] % 18
BYTES, BITS = np.array([9, 255], np.uint8), np.array([0, 1], np.uint8)
Box, Choice = spaces.Box, spaces.Discrete


class Case(NamedTuple):
    """A space, what the environment shows, and what is stored."""

    space: spaces.Space
    shows: Any
    stored: Any
    dtype: str = "float32"
    scale: float = 1


SPACES = {
    "box": Case(Box(-9, 9, (2,)), [1.5, -2], [1.5, -2]),
    "unbounded box": Case(Box(-np.inf, np.inf, (1,)), [7], [7]),
    "float64 box": Case(Box(0, 9, (1,), np.float64), np.array([0.5]), [0.5]),
    "scalar box": Case(Box(0, 9, ()), np.float32(3), [3]),
    "whole box": Case(Box(0, 9, (2,), np.int64), np.array([3, 4]), [3, 4]),
    "matrix": Case(Box(0, 9, (1, 2)), [[3, 4]], [[3, 4]]),
    "bytes": Case(Box(0, 255, (2,), np.uint8), BYTES, BYTES, "uint8"),
    "bits": Case(Box(0, 1, (2,), np.uint8), BITS, BITS, "uint8"),
    "discrete": Case(Choice(4), 2, one_hot(4, 2)),
    "discrete from 5": Case(Choice(3, start=5), 6, one_hot(3, 1)),
    "multi-binary": Case(spaces.MultiBinary(3), [1, 0, 1], [1, 0, 1]),
    "multi-discrete": Case(spaces.MultiDiscrete([2, 3]), np.array([1, 2]), one_hot(5, 1, 4)),
    "tuple": Case(
        spaces.Tuple((Choice(2), Box(-9, 9, (2,)))), (1, np.array([3, 4], np.float32)), [0, 1, 3, 4]
    ),
    "dict": Case(
        spaces.Dict({"b": Choice(2), "a": Box(-9, 9, (1, 2))}),
        {"a": np.array([[3, 4]], np.float32), "b": 0},
        [3, 4, 1, 0],  # by name
    ),
    "picture in a dict": Case(
        spaces.Dict({"a": Box(0, 255, (1, 2), np.uint8), "b": Choice(2)}),
        {"a": np.array([[51, 255]], np.uint8), "b": 1},
        [np.float32(51) * np.float32(1 / 255), 1, 0, 1],
    ),
    "codes": Case(Box(0, 17, (4, 5), np.uint8), CODES, CODES, "uint8"),
    "image of codes": Case(Box(0, 10, (4, 5, 3), np.uint8), HWC % 11, CHW % 11, "uint8", 1 / 10),
    "gray image": Case(Box(0, 255, (4, 5), np.uint8), GRAY, GRAY[None], "uint8", 1 / 255),
    "image": Case(Box(0, 255, (4, 5, 3), np.uint8), HWC, CHW, "uint8", 1 / 255),
    "image, channels first": Case(Box(0, 255, (3, 4, 5), np.uint8), CHW, CHW, "uint8", 1 / 255),
    "grid of bits": Case(Box(0, 1, (4, 5, 3), np.bool_), HWC % 2 == 1, CHW % 2, "uint8"),
    "real image": Case(Box(0, 1, (4, 5, 3)), HWC.astype(np.float32), CHW),
}


@pytest.mark.parametrize("kind", SPACES)
def test_observations_become_arrays(kind: str) -> None:
    space, shows, stored, dtype, scale = SPACES[kind]
    env, shape = GymnasiumEnv(Scripted(space, [shows])), np.shape(stored)
    spec = env.spec
    assert (spec.obs_shape, spec.obs_dtype, spec.obs_scale) == (shape, dtype, scale)
    assert (spec.n_agents, spec.n_actions, spec.state_dim, spec.n_rewards) == (1, 3, 0, 1)
    first = env.reset(0)
    assert (first.obs.shape, first.obs.dtype) == ((1, *shape), dtype)
    np.testing.assert_array_equal(first.obs[0], stored)
    assert first.state.shape == (0,)


@pytest.mark.parametrize("kind", SPACES)
def test_a_checkpoint_can_convert_observations_without_the_environment(kind: str) -> None:
    space, shows, stored, *_ = SPACES[kind]
    record = json.loads(json.dumps(GymnasiumEnv(Scripted(space)).spec.obs_space))
    view = recorded_view(record)
    assert view[1:] == viewed(space, kind)[1:]
    np.testing.assert_array_equal(view.convert(shows), stored)


@pytest.mark.parametrize("record", [{}, {"box": [1]}, {"tuple": [{"text": 3}]}])
def test_what_is_no_record_of_a_space_is_refused(record: Any) -> None:
    with pytest.raises(ValueError, match="expected the record of an observation space"):
        from_record(record)


REFUSED = [
    *(
        (Scripted(space), "observations .* without a fixed shape")
        for each in (spaces.Sequence(Choice(2)), spaces.Text(5))
        for space in (each, spaces.Dict({"a": each}))
    ),
    (Scripted(Box(0, 1, (0,))), "observations .* which have no numbers"),
    (Scripted(actions=Box(-1, 1, (2,))), "actions .* values of discrete actions"),
]


@pytest.mark.parametrize(("env", "said"), REFUSED)
def test_spaces_that_are_not_learned_from_are_refused(env: Scripted, said: str) -> None:
    with pytest.raises(ValueError, match=rf"^Scripted has {said}"):
        GymnasiumEnv(env)


def test_actions_count_from_the_first_one_of_their_space() -> None:
    inner = Scripted(actions=spaces.Discrete(2, start=-1))
    env = GymnasiumEnv(inner)
    env.reset(0)
    go(env, 0)
    go(env, 1)
    assert inner.taken == [-1, 0]
    assert all(type(action) is np.int64 for action in inner.taken)


@pytest.mark.parametrize(
    ("given", "first", "second"),
    [
        ({}, [1, 1, 1], [1, 1, 1]),
        ({"masks": [np.array([1, 0, 1], np.int8), [False, True, False]]}, [1, 0, 1], [0, 1, 0]),
        ({"masks": [[1, 0, 0], [0, 0, 0]], "ends": ("terminated",)}, [1, 0, 0], [1, 1, 1]),
    ],
    ids=["none", "two", "an empty one at the end means nothing"],
)
def test_an_action_mask_says_what_is_available(given: Any, first: Any, second: Any) -> None:
    env = GymnasiumEnv(Scripted(**given))
    mask = env.reset(0).avail_actions
    assert (mask.tolist(), mask.dtype) == ([first], np.uint8)
    assert go(env)[0].avail_actions.tolist() == [second]


@pytest.mark.parametrize(
    "mask",
    [
        *([0, 0, 0], [1, 1], [0.5, 0.5, 1], [2, 1, 1], [-1, 1, 1], [np.nan, 1, 1], "abc"),
        *([[1], [1, 0]], np.ma.array([1, 1, 1], mask=[0, 1, 1])),
        torch.ones(3, requires_grad=True),
    ],
    ids=str,
)
def test_a_mask_of_anything_but_zeros_and_ones_is_a_broken_world(mask: Any) -> None:
    """Or one that leaves nothing to choose."""
    inner = Scripted(masks=[[1.0, 0.0, True], mask])
    assert GymnasiumEnv(inner).reset(7).avail_actions.tolist() == [[1, 0, 1]]
    fails(inner, r"step 1 .* seed 7 returned the action_mask .* expected 3 entries of 0")


@pytest.mark.parametrize("obs", [torch.ones(2, requires_grad=True), torch.ones(2, device="meta")])
def test_a_tensor_that_is_no_array_is_refused_with_what_to_do(obs: Any) -> None:
    """Defect: neither the environment nor its method was named, and another seed."""
    said = r"^Scripted at step 1 .* seed 7 returned the observation tensor.* not in its space \("
    fails(Scripted(shows=[np.zeros(2, np.float32), obs]), f"(?s){said}")


@pytest.mark.parametrize("mask", [[1, 0, 1, 1, 1], ([1, 0, 1], [1, 1])])
def test_a_mask_by_component_is_refused_with_what_to_give(mask: Any) -> None:
    env = GymnasiumEnv(Scripted(actions=spaces.MultiDiscrete([2, 3]), masks=[mask]))
    said = r"expected 6 entries .* one for each combination .*np.outer"
    with pytest.raises(EnvError, match=said):
        env.reset(7)
