"""Views of spaces: where images have their channels, what is scaled, what is refused."""

import itertools
import json
import re
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rltrain.common.env_values import warn_of_rounding
from rltrain.common.spec_record import channel_side, channel_text
from rltrain.env.env_options import EnvOptions
from rltrain.env.gymnasium import GymnasiumEnv, adapted
from rltrain.env.spaces import from_record, recorded_view, to_record, viewed
from rltrain.errors import EnvError
from tests.env.scripted import Scripted, fails
from tests.env.team.scripted import Scripted as Team

Box, Discrete, MultiDiscrete = spaces.Box, spaces.Discrete, spaces.MultiDiscrete

PUBLIC = {  # of environments that others have published
    "last": [
        (4, 4, 16), (7, 7, 20), (8, 8, 111), (7, 7, 3), (19, 19, 17), (6, 7, 2), (3, 3, 2),
        (84, 84, 1), (84, 84, 3), (84, 84, 4), (210, 160, 3), (96, 96, 3), (64, 64, 3), (10, 10, 4),
        (10, 10, 7), (5, 4, 26), (457, 120, 3), (21, 79, 4), (13, 13, 34), (45, 45, 5),
    ],
    "first": [
        (20, 4, 4), (16, 4, 4), (4, 84, 84), (1, 84, 84), (3, 210, 160), (12, 8, 8), (111, 8, 8),
        (4, 10, 10), (6, 20, 20), (3, 64, 64), (1, 28, 28), (5, 13, 9), (4, 21, 79),
    ],
}  # fmt: skip


@pytest.mark.parametrize("side", PUBLIC)
def test_channels_of_public_shapes(side: str) -> None:
    assert {s: channel_side(s)[0] for s in PUBLIC[side]} == dict.fromkeys(PUBLIC[side], side)


def test_channels_of_every_shape_with_two_equal_sides() -> None:
    for n, c in itertools.product(range(1, 40), range(1, 130)):
        if n != c:
            assert channel_side((n, n, c)) == ("last", True)
            assert channel_side((c, n, n)) == ("first", True)


def test_usual_numbers_of_channels_decide_between_unequal_sides() -> None:
    sides = [n for n in range(5, 60, 3) if n not in (1, 3, 4)]
    for (h, w), c in itertools.product(itertools.permutations(sides, 2), (1, 3, 4)):
        assert channel_side((h, w, c)) == ("last", True)
        assert channel_side((c, h, w)) == ("first", True)


@pytest.mark.parametrize("shape", [(6, 7, 20), (20, 6, 7), (5, 5, 5), (4, 9, 3)])
def test_a_guess_is_said_with_the_key_to_type(shape: tuple[int, ...]) -> None:
    spec = GymnasiumEnv(Scripted(Box(0, 1, shape))).spec.record
    other = {"first": "last", "last": "first"}[channel_side(shape)[0]]
    assert f"else type env.channels={other}" in channel_text(spec)
    chosen = GymnasiumEnv(Scripted(Box(0, 1, shape)), EnvOptions(channels=other)).spec.record
    assert channel_text(chosen) == f"channels {other}"


def test_channels_can_be_set() -> None:
    image = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    space = spaces.Dict({"a": Box(0, 255, (4, 5, 3), np.uint8)})
    first = viewed(space["a"], "test", "first")
    assert first.shape == (4, 5, 3)
    np.testing.assert_array_equal(first.convert(image), image)
    assert viewed(space["a"], "test", "last").shape == (3, 4, 5)
    assert to_record(space, "first")["dict"][0][1]["channels"] == "first"


def some_space(rng: np.random.Generator, depth: int = 2) -> spaces.Space[Any]:
    """A space drawn at random."""
    shape = tuple(int(n) for n in rng.integers(1, 6, rng.integers(0, 4)))
    match rng.integers(0, 6 if depth else 4):
        case 0:
            dtype = rng.choice(["float32", "float64", "uint8", "int32", "int64", "bool"])
            high = 1 if dtype == "bool" else int(rng.choice([1, 4, 17, 100, 255]))
            return Box(0, high, shape, np.dtype(dtype).type)
        case 1:
            return Discrete(int(rng.integers(1, 9)), start=int(rng.integers(-3, 4)))
        case 2:
            return spaces.MultiBinary(shape or (3,))
        case 3:
            nvec = rng.integers(1, 5, rng.integers(1, 4))
            return MultiDiscrete(nvec, start=rng.integers(-2, 3, nvec.shape))
        case 4:
            return spaces.Tuple([some_space(rng, depth - 1) for _ in range(rng.integers(1, 4))])
    keys = rng.permutation(list("zyxw"))[: rng.integers(1, 4)]
    return spaces.Dict([(str(key), some_space(rng, depth - 1)) for key in keys])


def defined(space: spaces.Space[Any], obs: Any) -> list[float]:
    """What the networks see of an observation, by loops."""
    match space:
        case spaces.Box():
            image = space.dtype == np.uint8 and (
                len(space.shape) == 3 or (len(space.shape) == 2 and space.high.max() in (1, 255))
            )
            scale = space.high.max() if image else 1
            return [float(x) / scale for x in np.asarray(obs).reshape(-1)]
        case spaces.Discrete():
            return [float(i + space.start == obs) for i in range(space.n)]
        case spaces.MultiBinary():
            return [float(x) for x in np.asarray(obs).reshape(-1)]
        case spaces.MultiDiscrete():
            each = zip(space.nvec, space.start, obs, strict=True)
            return [float(i + start == x) for n, start, x in each for i in range(n)]
        case spaces.Tuple():
            return [x for one, seen in zip(space, obs, strict=True) for x in defined(one, seen)]
    return [x for key in sorted(space.spaces) for x in defined(space[key], obs[key])]


def test_networks_see_what_the_definition_says() -> None:
    for seed in range(200):
        space = some_space(np.random.default_rng(seed))
        space.seed(seed)
        obs = space.sample()
        view = viewed(space, "test", "first")
        found = view.convert(obs).astype(np.float32).reshape(-1) * np.float32(view.scale)
        np.testing.assert_allclose(found, np.array(defined(space, obs), np.float32), rtol=1e-6)
        saved = recorded_view(json.loads(json.dumps(to_record(space, "first"))))
        np.testing.assert_array_equal(saved.convert(obs), view.convert(obs))


U8 = np.uint8
OUTSIDE: list[tuple[spaces.Space[Any], Any]] = [
    *((Discrete(5), x) for x in (-1, 5, 2.5, np.nan, "1", None, [1, 2], np.array([[1, 2]]))),
    *((Discrete(3, start=2), x) for x in (1, 5, 0)),
    *((MultiDiscrete([3, 4]), x) for x in ([3, 0], [-1, 0], [0, 4], [0.5, 0], [1], [1, np.nan])),
    (MultiDiscrete([2, 2], start=[1, 0]), [0, 0]),
    (MultiDiscrete([2, 2], start=[1, 0]), [3, 0]),
    *((spaces.MultiBinary(2), x) for x in ([7, 0], [-1, 0], [0.5, 0], [1], [np.nan, 0])),
    *((Box(0, 255, (1,), U8), [x]) for x in (300, -1, 256, 0.7, np.nan, np.inf, "7", 1j)),
    *((Box(0, 255, (2, 2, 3), U8), np.full((2, 2, 3), x)) for x in (300, -1, 0.5, np.nan)),
    *((Box(-5, 5, (1,), np.int8), [x]) for x in (128, -129, 0.5, np.nan)),
    *((Box(-5, 5, (1,), np.int64), [x]) for x in (0.5, np.nan, 1e300, 6, -6, np.int64(6))),
    *((Box(0, 5, (2,), np.int64), x) for x in ([100, 1], np.array([1, -1]))),
    *((Box(0, 5, (2,), U8), x) for x in ([6, 0], np.array([0, 200], U8))),
    (Box(1, 5, (2,), U8), np.array([0, 5], U8)),
    (Box(np.array([0, 3]), np.array([2, 5]), dtype=np.int32), np.array([3, 3], np.int32)),
    (Box(0, 9, (2, 2, 3), U8), np.full((2, 2, 3), 10, U8)),
    (
        spaces.Dict({"a": Box(0, 5, (2,), np.int8), "b": Discrete(2)}),
        {"a": np.array([7, -3], np.int8), "b": 1},
    ),
    (spaces.Tuple([Box(0, 5, (1,), np.int16)]), (np.array([6], np.int16),)),
    *((Box(0, 1, (1,), np.bool_), [x]) for x in (7, -1, 0.5, np.nan)),
    *((Box(-1, 1, (1,)), [x]) for x in (np.nan, np.inf, "a", None)),
    (Box(-1, 1, (2,)), [[1, 2], [3, 4]]),
    (Box(-1, 1, (3,)), [[1, 2, 3]]),
    (Discrete(3), np.array([2])),
    (spaces.Tuple([Discrete(3), Discrete(3)]), (-1, 0)),
    (spaces.Tuple([Discrete(3), Discrete(3)]), (0,)),
    (spaces.Tuple([Discrete(3), Discrete(3)]), 1),
    (spaces.Dict({"a": Discrete(3), "b": Box(0, 9, (1,), U8)}), {"a": 3, "b": [0]}),
    (spaces.Dict({"a": Discrete(3), "b": Box(0, 9, (1,), U8)}), {"a": 0, "b": [256]}),
    (spaces.Dict({"a": Discrete(3), "b": Box(0, 9, (1,), U8)}), {"a": 0}),
    (spaces.Dict({"a": Discrete(3), "b": Box(0, 9, (1,), U8)}), {"a": 0, "b": [np.nan]}),
]


@pytest.mark.parametrize(("space", "bad"), OUTSIDE, ids=lambda x: str(x)[:30])
def test_what_is_not_of_its_space_ends_the_run(space: spaces.Space[Any], bad: Any) -> None:
    space.seed(0)
    said = r"Scripted at step 1 of the episode with seed 7 returned"
    fails(Scripted(space, [space.sample(), bad]), said)


@pytest.mark.parametrize(
    ("space", "obs"),
    [
        (Box(-1, 1, (2,)), [1.0001, -7]),
        (Box(0, 4, (1,), U8), [4]),
        (Box(0, 9, (2,), np.int64), [3.0, 4.0]),
        (Box(0, 2**62, (1,), np.int64), np.array([2**62])),
        (Box(-128, 127, (1,), np.int8), np.array([-128], np.int8)),
        (Box(np.array([0, 3]), np.array([2, 5]), dtype=np.int32), np.array([2, 5], np.int32)),
        (Box(-1, 1, ()), 0.5),
        (Discrete(3), np.array(2)),
        (Discrete(2), True),
        (Discrete(3), np.float32(1)),
        (spaces.MultiBinary(2), [True, False]),
        (spaces.Dict({"a": Discrete(2)}), {"a": 0, "more": "text"}),
    ],
    ids=str,
)
def test_what_means_the_same_is_taken(space: spaces.Space[Any], obs: Any) -> None:
    GymnasiumEnv(Scripted(space, [obs])).reset(0)


TYPES = ("uint8", "int16", "int32", "int64", "uint64", "float16", "float32", "float64")


@pytest.mark.parametrize("returned", [*TYPES, "torch.float16", "torch.int64", "torch.bfloat16"])
@pytest.mark.parametrize("declared", TYPES)
def test_numbers_of_every_type_and_size_arrive_or_are_named(declared, returned, caplog):
    """Exact, or as near as float32 is; where whole numbers are rounded with one warning."""
    dtype, library = np.dtype(declared), torch if returned.startswith("torch") else np
    high = np.inf if dtype.kind == "f" else np.iinfo(dtype).max
    space = Box(0 if dtype.kind == "u" else -high, high, (2,), dtype)
    made = getattr(library, returned.removeprefix("torch."))
    known = np.iinfo(returned).max if returned in TYPES[:5] else 2**63 - 1
    for number in (n for n in (1, 127, 2**24, 2**24 + 1, 2**31, 2**62 + 1) if n <= known):
        warn_of_rounding.cache_clear(), caplog.clear()
        with np.errstate(over="ignore"):
            obs = torch.tensor([number]).to(made) if library is torch else np.array([number], made)
        value = float(obs[0])
        env = GymnasiumEnv(Scripted(space, [obs.repeat(2)]))
        if returned == "torch.bfloat16" or not np.isfinite(value) or value > high:
            with pytest.raises(EnvError, match=r"Scripted at step 0 .*(expected|BFloat16: return)"):
                env.reset(0)
            continue
        assert env.reset(0).obs == pytest.approx(value, rel=2**-24)
        whole = dtype.kind in "iu" or "int" in returned
        assert caplog.text.count("which float32 rounds") == (whole and value > 2**24)


def test_masked_entries_of_an_observation_are_not_taken_for_numbers() -> None:
    masked = np.ma.masked_array([1.0, 2.0], [True, False], dtype=np.float32)
    inner = Scripted(Box(-9, 9, (2,)), [np.ma.masked_array([1.0, 2.0]), masked])
    assert GymnasiumEnv(inner).reset(0).obs.tolist() == [[1, 2]]
    fails(inner, "got 1 masked ones: fill them")


def test_bounds_of_whole_numbers_are_in_the_record() -> None:
    each = Box(np.array([0, 3]), np.array([2, 5]), dtype=np.int32)
    for space in (Box(-5, 5, (2,), np.int64), Box(1, 9, (2, 2, 3), U8), each):
        record = json.loads(json.dumps(to_record(space)))
        assert from_record(record) == space
        with pytest.raises(ValueError, match=r"expected whole numbers from .*, got -?\d+ to -?\d+"):
            recorded_view(record).convert(space.high + 1)
    for wide in (Box(0, 255, (2,), U8), Box(-1, 1, (2,))):
        assert "bounds" not in to_record(wide)


def test_records_without_bounds_are_read() -> None:
    seen = recorded_view({"box": [1], "dtype": "int64"}).convert(np.array([7]))
    assert seen.tolist() == [7]


@pytest.mark.parametrize(
    "space",
    [
        Discrete(10**9),
        MultiDiscrete([60_000, 60_000]),
        spaces.Tuple([Discrete(60_000)] * 2),
        spaces.Dict({"a": spaces.Dict({"b": Discrete(100_001)}), "c": Box(0, 1, (2,))}),
    ],
    ids=lambda x: str(x)[:16],
)
def test_too_many_categories_are_refused_with_their_number(space: spaces.Space[Any]) -> None:
    n = {10**9: "1,000,000,000"}.get(getattr(space, "n", 0), r"1[02]0,00[01]")
    said = rf"^test has observations {re.escape(str(space))}: {n} categories, .* at most 100,000"
    with pytest.raises(ValueError, match=said):
        viewed(space, "test")


def test_images_beside_categories_may_be_large() -> None:
    viewed(spaces.Dict({"a": Box(0, 255, (210, 210, 3), U8), "b": Discrete(9)}), "test")


HUGE = np.array([1e300, 1.0])
HUGE_SPACES: list[tuple[spaces.Space[Any], Any]] = [
    (Box(-np.inf, np.inf, (2,), np.float64), HUGE),
    (Box(-np.inf, np.inf, (2,)), HUGE),
    (spaces.Dict({"a": Box(-np.inf, np.inf, (2,), np.float64)}), {"a": HUGE}),
    (spaces.Tuple([Box(-np.inf, np.inf, (2,), np.float64)]), (-HUGE,)),
]


@pytest.mark.parametrize(("space", "huge"), HUGE_SPACES, ids=lambda x: str(x)[:20])
def test_numbers_that_float32_cannot_hold_are_refused_without_a_warning(space, huge, recwarn):
    env = GymnasiumEnv(Scripted(space, [huge]))
    with pytest.raises(EnvError, match=r"expected finite numbers, at most 3e\+38"):
        env.reset(0)
    team = adapted(OneOf(space, huge))
    with pytest.raises(EnvError, match=r"expected finite numbers, at most 3e\+38"):
        team.reset(0)
    assert not recwarn.list


class OneOf(Team):
    """Two agents of one space."""

    def __init__(self, space: spaces.Space[Any], shown: Any) -> None:
        super().__init__()
        self.observation_spaces = dict.fromkeys(self.possible_agents, space)
        self.shown = shown

    def seen(self, agents: Any) -> Any:
        return dict.fromkeys(agents, self.shown)
