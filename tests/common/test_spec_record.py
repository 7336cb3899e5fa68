"""Specs of the same sizes that mean something else."""

import itertools
import json
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from rltrain.common.spec_record import changes
from rltrain.env.gymnasium import GymnasiumEnv
from rltrain.types import EnvSpec
from tests.env.scripted import Scripted

Box, Discrete, Dict = spaces.Box, spaces.Discrete, spaces.Dict
SEEN: dict[str, spaces.Space[Any]] = {  # all of three numbers
    "Box(3,) float32": Box(-1, 1, (3,)),
    "Box(3,) uint8 high 255": Box(0, 255, (3,), np.uint8),
    "Box(3,) uint8 high 1": Box(0, 1, (3,), np.uint8),
    "Box(3,) int64": Box(0, 9, (3,), np.int64),
    "Box(1, 3) float32": Box(-1, 1, (1, 3)),
    "Discrete(3)": Discrete(3),
    "Discrete(3, start=2)": Discrete(3, start=2),
    "MultiBinary([3])": spaces.MultiBinary(3),
    "MultiDiscrete([3])": spaces.MultiDiscrete([3]),
    "MultiDiscrete([1, 2])": spaces.MultiDiscrete([1, 2]),
    "MultiDiscrete([1, 2], start=[0, 4])": spaces.MultiDiscrete([1, 2], start=[0, 4]),
    "Tuple(Discrete(1), Box(2,) float32)": spaces.Tuple([Discrete(1), Box(-1, 1, (2,))]),
    "Dict(x: Discrete(1), y: Discrete(2))": Dict({"x": Discrete(1), "y": Discrete(2)}),
    "Dict(x: Discrete(2), z: Discrete(1))": Dict({"x": Discrete(2), "z": Discrete(1)}),
}
ACTIONS: dict[str, spaces.Space[Any]] = {  # all of four actions
    "Discrete(4)": Discrete(4),
    "Discrete(4, start=3)": Discrete(4, start=3),
    "MultiDiscrete([4])": spaces.MultiDiscrete([4]),
    "MultiDiscrete([2, 2])": spaces.MultiDiscrete([2, 2]),
    "MultiDiscrete([2, 2], start=[1, 1])": spaces.MultiDiscrete([2, 2], start=[1, 1]),
}


def spec(seen: spaces.Space[Any] = SEEN["Discrete(3)"], act: Any = ACTIONS["Discrete(4)"]) -> Any:
    return GymnasiumEnv(Scripted(seen, actions=act)).spec.record


def test_every_pair_of_spaces_differs_and_both_are_named() -> None:
    for key, table in ("observations", SEEN), ("actions", ACTIONS):
        specs = {
            name: spec(**{"seen" if table is SEEN else "act": space})
            for name, space in table.items()
        }
        for (there, theirs), (here, ours) in itertools.product(specs.items(), repeat=2):
            found = changes(json.loads(json.dumps(theirs)), ours)
            assert found == "" if there == here else f"{key} {there}, here {here}" in found


def test_the_order_of_keys_does_not_matter() -> None:
    one, two = ("x", Discrete(1)), ("y", Discrete(2))
    assert changes(spec(Dict([one, two])), spec(Dict([two, one]))) == ""


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [("obs_scale", 1 / 255, "float32 × 1/255, here float32 × 1"), ("obs_dtype", "uint8", "uint8")],
)
def test_scale_and_type_are_compared_without_a_known_space(field, value, words) -> None:
    ours = EnvSpec(n_agents=1, n_actions=2, obs_shape=(2,)).record
    assert words in changes({**ours, field: value}, ours)


def test_what_one_side_does_not_know_is_not_compared() -> None:
    ours = EnvSpec(n_agents=1, n_actions=4, obs_shape=(3,)).record
    assert changes(spec(), ours) == ""


@pytest.mark.parametrize("place", [0, 30, 59])
def test_of_large_spaces_what_is_near_the_difference_is_shown(place: int) -> None:
    ours = {f"key{i:02}": Discrete(2) for i in range(60)}
    found = changes(spec(Dict(ours | {f"key{place:02}": Discrete(3)})), spec(Dict(ours)))
    assert f"key{place:02}: Discrete(3)" in found.partition(", here ")[0]
    assert f"key{place:02}: Discrete(2)" in found.partition(", here ")[2]
    assert len(found) < 900
