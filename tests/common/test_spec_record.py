"""Specs of the same sizes that mean something else."""

import itertools
import json
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from rltrain.common.spec_record import changes, read_spec, require_spec
from rltrain.env.gymnasium import GymnasiumEnv
from rltrain.types import LARGEST_SIZE, EnvSpec
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


NONE = [
    *({name: 0} for name in ("n_agents", "n_actions", "n_rewards", "frame_stack", "max_steps")),
    *({name: -5} for name in ("n_agents", "state_dim", "max_steps")),
    *({name: 10**9} for name in ("n_agents", "n_actions", "n_rewards", "frame_stack", "state_dim")),
    *({"obs_shape": shape} for shape in ([0], [-3, -3], [10**9], [3000, 3000], [10**4000] * 2)),
    {"frame_stack": 2, "obs_shape": [LARGEST_SIZE - 1]},
    {"obs_space": {"dict": [["x", {"box": [10**10], "dtype": "float32"}]]}},
    {"agents": [["a", {"discrete": 2, "start": 0}, {"multi_binary": [10**9]}]]},
    {"layout": {"obs": {"own": {"count": 10**9, "size": 10**9}}}},
    *(
        {"obs_dtype": name}
        for name in ("9" * 5000, "(2,)f4", "f4,f4", "object", "floaty", "", "int8", np.float32)
    ),
    {"obs_space": {"box": [1], "dtype": "9" * 5000}},
    {"action_components": [[2, 0]], "action_dtype": "9" * 5000},
    {
        "agents": [
            [
                "a",
                {"discrete": 2, "start": 0},
                {"multi_discrete": [2], "start": [0], "dtype": "9" * 5000},
            ]
        ]
    },
    *({"obs_scale": scale} for scale in ("1e999999999", float("inf"), None, float("nan"), 0.0)),
    *({"n_actions": n} for n in (2.0, "2", True, np.int64(2))),
    *({"obs_shape": shape} for shape in (3, [], [3.0], [np.int64(3)])),
    {"n_agents": 3, "n_rewards": 2},
    {"obs_bytes": [[0, 9, 1.0]]},
    {"first_action": "a"},
    {"agents": 5},
]
"""Fields that no environment has."""


@pytest.mark.parametrize("wrong", NONE, ids=lambda wrong: str(wrong)[:60])
def test_a_spec_that_no_environment_has_is_refused_at_once(wrong) -> None:
    """Defect: a syntax error, hours of arithmetic, or networks that took all memory."""
    record = EnvSpec(n_agents=1, n_actions=2, obs_shape=(3,)).record
    assert read_spec(record).record == record
    with pytest.raises(ValueError, match=r"is|are") as found:
        read_spec({**record, **wrong})
    assert len(str(found.value)) < 300
    with pytest.raises(ValueError, match=r"^Own\.spec is no valid rltrain\.types\.EnvSpec: "):
        require_spec(EnvSpec(**{**record, **wrong}), "Own.spec")


def test_large_specs_of_environments_are_read() -> None:
    large = EnvSpec(
        n_agents=20, n_actions=100_000, obs_shape=(3, 512, 512), frame_stack=4, state_dim=10**7
    )
    assert read_spec(large.record) == large
