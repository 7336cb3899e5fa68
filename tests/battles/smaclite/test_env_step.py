"""``rules=smaclite``: numbers that follow from its tables, its own habits, and the interface that
stays SMAC's."""

import itertools
import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from rltrain.battles.data.maps import map_names
from rltrain.battles.data.terrain import pathable_cells
from rltrain.battles.data.units import WEAPONS, damage_per_hit
from rltrain.battles.engine.battles import Battles
from rltrain.battles.engine.world import M, P, U
from rltrain.battles.options import Options
from rltrain.battles.render.events import events_between, snapshot
from rltrain.battles.smaclite.combat import GONE, act, mend
from rltrain.battles.smaclite.maps import LITE_UNITS, find_map_under
from rltrain.battles.smaclite.walls import wall_edges
from rltrain.env.smac import SmacVectorEnv, StarCraft2Env, parallel_env
from tests.battles.conftest import ATTACK, EAST, NORTH, actions, place, random_legal, seeds, steps
from tests.battles.engine.fighting.test_weapons import TO_KILL
from tests.battles.smaclite.policies import as_created
from tests.battles.specs import env_spec

POSSIBLE = [name for name in map_names() if name not in ("6h_vs_8z", "so_many_baneling")]
TICKS = {
    "marine": 10, "marauder": 18, "colossus": 18, "stalker": 22, "spine_crawler": 22,
    "zealot": 14, "zergling": 8,
}  # fmt: skip
SAME = {(a, b): n for _, a, b, n in TO_KILL if "hydralisk" not in (a, b)}
LITE_TO_KILL = {**SAME, ("baneling", "zealot"): 2, ("baneling", "baneling"): 1}
"""Attacks from full health to death: banelings do more damage."""


@pytest.fixture
def lite(battle) -> Callable[..., Battles]:
    """One battle by the rules of SMAClite after its reset."""
    return partial(battle, rules="smaclite")


def stand(battles: Battles, points: dict[int, tuple[float, float]]) -> None:
    """``place`` for the living."""
    place(battles, points)
    battles.world.mark[0, GONE, list(points)] = 0


def test_only_what_explodes_is_drawn_as_a_blast(lite) -> None:
    b = lite("bane_vs_bane")
    types = b.map_data.unit_types
    bane, ling = (
        next(i for i, unit in enumerate(types) if i >= b.map_data.n_agents and unit is kind)
        for kind in (b.map_data.units["baneling"], b.map_data.units["zergling"])
    )
    stand(b, {0: (10.0, 16.0), bane: (10.6, 16.0), ling: (20.0, 16.0)})
    before = snapshot(b, 0)
    b.world.unit[0, U.HEALTH, ling] = 0  # shot a tick ago
    b.step(actions(b))
    events = events_between(before, snapshot(b, 0), b.table("param", 0), 8)
    assert ("blast", bane) in [(h.kind, h.unit) for h in events]
    assert [h.kind for h in events if h.unit == ling] == ["death"]


@pytest.mark.parametrize(("pair", "expected"), LITE_TO_KILL.items())
def test_attacks_to_kill(lite, pair: tuple[str, str], expected: int) -> None:
    """One attacker and one target in the tables of a map, whatever their types."""
    b = lite("2m_vs_1z")
    one, other = (LITE_UNITS[name] for name in pair)
    stand(b, {0: (14.0, 14.0), 2: (14.5, 14.0)})
    unit, mark, param, damage = (
        b.world.unit[0], b.world.mark[0], b.scene.param[0], b.scene.damage[0].copy(),
    )  # fmt: skip
    param[P.WEAPON, 0] = WEAPONS.index(one.weapon)
    param[P.ARMOR, 2], damage[0, 2] = other.armor, damage_per_hit(one, other)
    unit[[U.HEALTH, U.SHIELD], 2], mark[M.TARGET, 0] = (other.health, other.shield), 2
    attacks = 0
    while unit[U.HEALTH, 2] > 0:
        unit[U.HEALTH, 0] = 1
        act(unit, mark, param, damage, b.scene.affects[0], np.int32(0))
        attacks += 1
    assert attacks == expected


@pytest.mark.parametrize(("name", "ticks"), TICKS.items())
def test_effective_period(name: str, ticks: int) -> None:
    assert math.ceil(LITE_UNITS[name].period * 16) == ticks


def test_marine_fires_every_tenth_tick_and_loses_the_shot_at_a_dead_target(lite) -> None:
    b = lite("3m", step_mul=1)
    stand(b, {0: (14.0, 16.0), 3: (17.0, 16.0), 4: (30.0, 9.0)})
    b.world.unit[0, U.HEALTH, [0, 3]] = 1e4
    fired = []
    for tick in range(40):
        loaded = b.world.unit[0, U.COOLDOWN, 0] < 1
        b.step(actions(b, a0=ATTACK))
        if loaded:
            fired.append(tick)
    assert fired == [0, 10, 20, 30]
    b = lite("3m")
    stand(b, {0: (14.0, 16.0), 1: (14.0, 17.0), 3: (17.0, 16.0), 4: (30.0, 9.0)})
    b.world.unit[0, U.HEALTH, 3], b.world.unit[0, U.COOLDOWN, 1] = 6, 4
    b.step(actions(b, a0=ATTACK, a1=ATTACK))
    assert b.world.unit[0, U.COOLDOWN, 1] > 5  # fired at tick 4, when the target was dead


def test_step_of_walking_and_braking_at_a_wall(lite) -> None:
    b = lite("3m")
    stand(b, {0: (10.0, 16.0), 3: (30.0, 9.0)})
    b.step(actions(b, a0=EAST))
    assert b.world.unit[0, U.X, 0] == pytest.approx(10 + 8 * 3.15 / 16, abs=1e-5)
    b.world.unit[0, U.Y, 0] = 21.5
    b.refresh()
    b.orders = lambda: np.array([[NORTH, 0, 0]])
    gaps = []
    for _ in range(4):
        b.step(actions(b, a0=NORTH))
        gaps.append(24 - 0.375 - float(b.world.unit[0, U.Y, 0]))
    assert all(0 < later < sooner for sooner, later in itertools.pairwise(gaps))
    assert gaps[0] > 1  # slower than 1.575 long before contact


def test_zergling_does_not_walk_around_the_cliff(lite) -> None:
    b = lite("2c_vs_64zg")
    stand(b, {0: (15.0, 16.0), 2: (16.0, 9.0)})
    steps(b, 40)
    assert b.world.unit[0, U.Y, 2] == pytest.approx(12 - 0.375, abs=1e-3)
    assert b.world.unit[0, U.SHIELD, 0] == 150


def test_healer_revives_only_units_that_died_in_this_tick(lite) -> None:
    b = lite("MMM")
    unit, mark, param = b.world.unit[0], b.world.mark[0], b.scene.param[0]
    unit[U.HEALTH, 2], mark[M.TARGET, 9] = 0, 2
    mend(unit, mark, param, np.int32(9), np.int32(2))
    assert (unit[U.HEALTH, 2], unit[U.ENERGY, 9]) == (0.5625, 49)
    unit[U.HEALTH, 2], mark[GONE, 2] = 0, 1
    mend(unit, mark, param, np.int32(9), np.int32(2))
    assert unit[U.HEALTH, 2] == 0


def test_rectangles_of_blocked_cells() -> None:
    edges = wall_edges(pathable_cells("lite_field"))
    assert edges[:, :4].tolist() == [
        [0, 0, 32, 0], [32, 0, 32, 8], [32, 8, 0, 8], [0, 8, 0, 0],
        [0, 24, 32, 24], [32, 24, 32, 32], [32, 32, 0, 32], [0, 32, 0, 24],
    ]  # fmt: skip
    assert edges[0, 4:].tolist() == [0, -1, 0, 1]


def test_spawn_grid_of_3m_and_2s3z() -> None:
    three, mixed = (
        Battles(map_name=name, n_envs=1, options=Options(), rules="smaclite").scene.first_unit[0]
        for name in ("3m", "2s3z")
    )
    np.testing.assert_allclose(three[U.X], [8.625, 8.625, 9.425, 23.375, 22.575, 23.375], atol=1e-6)
    np.testing.assert_allclose(three[U.Y], [15.6, 16.4, 15.6, 16.4, 16.4, 15.6], atol=1e-6)
    np.testing.assert_allclose(mixed[U.X, :5], [7.875, 9.175, 7.75, 8.8, 10.35], atol=1e-6)


def test_units_are_numbered_as_in_smac() -> None:
    here, there = find_map_under("smaclite", "MMM"), find_map_under("sc2", "MMM")
    assert (here.ally_types, here.enemy_types) == (there.ally_types, there.enemy_types)
    listed = as_created("MMM")
    assert listed.ally_types == listed.enemy_types
    assert listed.ally_types == ("medivac", *["marine"] * 7, *["marauder"] * 2)


@pytest.mark.parametrize(
    "option",
    [
        *({name: True} for name in ("conic_fov", "obs_own_pos", "use_unit_ranges")),
        *({name: True} for name in ("fully_observable", "zero_enemy_block", "fixed_max_reward")),
        {"action_mask": False},
        {"prob_obs_enemy": 0.5},
        {"num_fov_actions": 6},
        {"min_attack_range": 1.0},
    ],
    ids=lambda option: next(iter(option)),
)
def test_options_of_smacv2_are_refused(option: dict) -> None:
    ((name, value),) = option.items()
    words = f"{name}={value}: rules=smaclite has SMAC's options only"
    for make in (StarCraft2Env, parallel_env):
        with pytest.raises(ValueError, match=words):
            make(map_name="3m", rules="smaclite", **option)
    with pytest.raises(ValueError, match=words):
        Battles(map_name="3m", n_envs=1, options=Options(**option), rules="smaclite")


@pytest.mark.parametrize("map_name", ["6h_vs_8z", "so_many_baneling"])
def test_impossible_maps_are_refused(map_name: str) -> None:
    with pytest.raises(ValueError, match="cannot be played with rules=smaclite") as error:
        SmacVectorEnv(map_name=map_name, n_envs=1, rules="smaclite")
    assert all(name in str(error.value) for name in POSSIBLE)


@pytest.mark.parametrize("map_name", POSSIBLE)
def test_random_play_on_every_map(map_name: str) -> None:
    env, rng = (
        SmacVectorEnv(map_name=map_name, n_envs=2, rules="smaclite"),
        np.random.default_rng(0),
    )
    env.reset(seeds)
    assert env.spec == env_spec(map_name)
    before = np.full(env.battles.world.unit[:, U.HEALTH].shape, np.inf)
    for _ in range(25):
        env.step(random_legal(env.avail_actions, rng))
        unit = env.battles.world.unit
        assert np.isfinite(env.state).all()
        assert (unit[:, [U.HEALTH, U.SHIELD]] >= 0).all()
        assert not ((before <= 0) & (unit[:, U.HEALTH] > 0)).any()
        before = np.where(env.last[:, None], np.inf, unit[:, U.HEALTH])


def test_single_environment_plays_to_the_end() -> None:
    env = StarCraft2Env(map_name="3m", rules="smaclite", seed=0, heuristic_ai=True)
    env.reset()
    total, terminated = 0.0, False
    while not terminated:
        action = [row.index(1) for row in env.get_avail_actions()]
        reward, terminated, info = env.step(action)
        total += reward
    assert info["battle_won"]
    assert total == pytest.approx(20.0)


def test_parallel_battles_are_the_same_bytes() -> None:
    states = []
    for threads in (1, 2):
        battles = Battles(
            map_name="27m_vs_30m", n_envs=10, options=Options(), rules="smaclite",
            n_threads=threads,
        )  # fmt: skip
        battles.reset({e: e for e in range(10)})
        rng = np.random.default_rng(0)
        for _ in range(12):
            battles.step(random_legal(battles.avail, rng))
        states.append(battles.state.tobytes())
    assert states[0] == states[1]
