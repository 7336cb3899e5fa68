"""Special weapons, shields and layers, each in a battle with few placed units."""

import numpy as np
import pytest

from rltrain.battles.data.units import UNITS, damage_per_hit
from rltrain.battles.engine.fighting.weapons import explode_killed, land_hits
from rltrain.battles.engine.world import NO_ONE, M, Order, Outcome, U
from tests.battles.conftest import (
    ATTACK,
    SOUTH,
    STOP,
    actions,
    place,
    random_legal,
    steps,
    strike,
    tables,
)

# Attacks from full health to death, without recovery: map where both are foes, attacker, target.
TO_KILL = [
    ("3m", "marine", "marine", 8), ("MMM", "marine", "marauder", 25),
    ("MMM", "marine", "medivac", 30), ("2m_vs_1z", "marine", "zealot", 29),
    ("MMM", "marauder", "marine", 5), ("MMM", "marauder", "marauder", 7),
    ("2s3z", "stalker", "stalker", 10), ("2s3z", "stalker", "zealot", 13),
    ("1c3s5z", "stalker", "colossus", 21), ("2s_vs_1sc", "stalker", "spine_crawler", 19),
    ("2s3z", "zealot", "zealot", 11), ("2s3z", "zealot", "stalker", 11),
    ("corridor", "zealot", "zergling", 3), ("so_many_baneling", "zealot", "baneling", 2),
    ("6h_vs_8z", "zealot", "hydralisk", 5), ("2m_vs_1z", "zealot", "marine", 3),
    ("1c3s5z", "zealot", "colossus", 24), ("corridor", "zergling", "zealot", 35),
    ("bane_vs_bane", "zergling", "zergling", 7), ("2c_vs_64zg", "zergling", "colossus", 80),
    ("6h_vs_8z", "hydralisk", "zealot", 14), ("2c_vs_64zg", "colossus", "zergling", 2),
    ("1c3s5z", "colossus", "zealot", 6), ("1c3s5z", "colossus", "stalker", 9),
    ("2s_vs_1sc", "spine_crawler", "stalker", 6), ("so_many_baneling", "baneling", "zealot", 5),
    ("bane_vs_bane", "baneling", "zergling", 1), ("bane_vs_bane", "baneling", "baneling", 2),
]  # fmt: skip


@pytest.mark.parametrize(("map_name", "attacker", "target", "expected"), TO_KILL)
def test_attacks_to_kill(battle, map_name, attacker, target, expected) -> None:
    b = battle(map_name)
    agents, types = b.map_data.n_agents, b.map_data.ally_types + b.map_data.enemy_types
    pairs = [
        (i, j)
        for i, one in enumerate(types)
        for j, other in enumerate(types)
        if (one, other) == (attacker, target) and (i < agents) != (j < agents)
    ]
    i, j = pairs[0]
    place(b, {i: (14.0, 14.0), j: (14.5, 14.0)})
    unit, mark, *_ = tables(b)
    attacks = 0
    while unit[U.HEALTH, j] > 0:
        unit[U.HEALTH, i], mark[0] = UNITS[attacker].health, Order.IDLE
        strike(b, i, j)
        attacks += 1
    assert attacks == expected


def test_second_hit_of_a_zealot_comes_five_loops_later_and_dies_with_it(battle) -> None:
    b = battle("2m_vs_1z", step_mul=1)
    place(b, {0: (14.0, 16.0), 2: (14.97, 16.0)})  # 0.975 apart: edge to edge 0.1
    health = [45.0]
    for _ in range(7):
        b.step(actions(b))
        health.append(float(b.world.unit[0, U.HEALTH, 0]))
    assert health[1:] == [37] * 5 + [29] * 2
    b = place(battle("2m_vs_1z", step_mul=1), {0: (14.0, 16.0), 1: (20.0, 16.0), 2: (14.97, 16.0)})
    b.step(actions(b))
    b.world.unit[0, U.HEALTH, 2] = 0
    for _ in range(6):
        land_hits(*tables(b), 2, 0)
    assert b.world.unit[0, U.HEALTH, 0] == 37


def test_missile_takes_its_time_outlives_its_shooter_and_misses_the_dead(battle) -> None:
    b = place(battle("2s3z", step_mul=1), {0: (12.0, 16.0), 1: (5.0, 16.0), 7: (18.0, 16.0)})
    steps(b, 4, a0=ATTACK + 2)  # 2.7 loops of windup
    assert b.world.mark[0, M.PENDING_ON, 0] == 7
    shot = b.state_dict()
    b.world.unit[0, U.HEALTH, 0] = 0
    steps(b, 6)  # 6 cells at 18.75 a second
    assert b.world.unit[0, U.SHIELD, 7] == 50 - 13
    b.load_state_dict(shot)
    b.world.unit[0, U.HEALTH, 7], b.world.unit[0, U.HEALTH, 8] = 0, 100
    steps(b, 6)
    assert (b.world.mark[0, M.PENDING_ON, 0], b.world.unit[0, U.HEALTH, 7]) == (NO_ONE, 0)


def test_battle_continues_exactly_with_missiles_in_flight(battle) -> None:
    b, rng = battle("3s5z"), np.random.default_rng(0)
    while not (b.world.mark[0, M.PENDING_ON] != NO_ONE).any():
        b.step(random_legal(b.avail, rng))
    state, other = b.state_dict(), battle("3s5z", 9)
    other.load_state_dict(state)
    for _ in range(5):
        action = random_legal(b.avail, rng)
        b.step(action)
        other.step(action)
        assert b.state.tobytes() == other.state.tobytes()


def test_shields_recover_ten_seconds_after_the_last_hit(battle) -> None:
    b = place(battle("2s3z"), {0: (5.0, 10.0), 7: (28.0, 22.0)})
    b.world.unit[0, U.SHIELD, 0], b.world.unit[0, U.SHIELD_WAIT, 0] = 0, 160
    steps(b, 20)
    assert b.world.unit[0, U.SHIELD, 0] == 0
    b.step(actions(b))
    assert b.world.unit[0, U.SHIELD, 0] == 1
    b.world.unit[0, U.SHIELD, 0] = 79.99
    b.step(actions(b))
    assert b.world.unit[0, U.SHIELD, 0] == 80


def test_zerg_regenerate_and_armor_counts_for_the_rest_behind_a_shield(battle) -> None:
    b = place(battle("6h_vs_8z"), {0: (9.0, 9.0), 6: (20.0, 18.0)})
    b.world.unit[0, U.HEALTH, 0], b.world.unit[0, U.SHIELD, 6] = 70, 5
    strike(b, 0, 6, loops=20)
    assert b.world.unit[0, U.HEALTH, 6] == 100 - (12 - 5 - 1)
    b.step(actions(b))
    assert b.world.unit[0, U.HEALTH, 0] == pytest.approx(70 + 0.2734 / 2, abs=1e-4)


def test_colossus_hits_enemies_on_a_line_across_its_shot_twice(battle) -> None:
    b = battle("2c_vs_64zg")
    points = {0: (12.0, 16.0), 1: (17.0, 17.0), 2: (17.0, 16.0), 3: (17.0, 17.7), 4: (17.0, 18.0)}
    place(b, {**points, 5: (17.6, 16.0)})
    strike(b, 0, 2)
    assert b.world.unit[0, U.HEALTH, 2:6].tolist() == [5, 5, 35, 35]
    assert b.world.unit[0, U.SHIELD, 1] == 150


def test_colossus_steps_over_the_cliff_but_not_off_the_map(battle) -> None:
    b = place(battle("2c_vs_64zg"), {0: (16.0, 14.0), 2: (3.0, 19.0)})
    b.world.unit[0, U.HEALTH, :3] = 1e6
    for _ in range(3):
        assert b.avail[0, 0, SOUTH] == 1
        b.step(actions(b, a0=SOUTH))
    assert b.world.unit[0, U.Y, 0] < 11
    for _ in range(12):
        b.step(actions(b, a0=SOUTH if b.avail[0, 0, SOUTH] else STOP))
    assert 5.75 <= b.world.unit[0, U.Y, 0] < 7


def test_baneling_explodes_when_killed_too_but_only_once(battle) -> None:
    b = battle("so_many_baneling")
    near = 2.2 + 0.5
    place(
        b, {0: (11.0, 8.0), 1: (11.0 - near, 8.0), 2: (11.0, 4.0), 7: (11.0, 8.0), 8: (11.5, 8.0)}
    )
    b.world.unit[0, U.X, 0] = 11.0 + near + 0.01
    unit, mark, param, damage = tables(b)
    unit[U.HEALTH, 7] = 0
    mark[M.BURST, 7] = 0
    for _ in range(2):
        explode_killed(unit, mark, param, damage, b.scene.affects[0], 7, 0)
    assert (unit[U.SHIELD, :3].tolist(), unit[U.HEALTH, 8]) == ([50, 15, 50], 30)


def test_baneling_dies_of_its_own_attack(battle) -> None:
    b = place(battle("so_many_baneling"), {0: (11.0, 8.0), 7: (13.0, 8.0)})
    b.step(actions(b))
    assert (b.world.unit[0, U.HEALTH, 7], b.world.unit[0, U.SHIELD, 0]) == (0, 15)
    assert b.world.outcome[0] == Outcome.WIN
    assert damage_per_hit(UNITS["baneling"], UNITS["stalker"]) == 20


def test_chain_of_killed_banelings_ends(battle) -> None:
    b = battle("bane_vs_bane")
    enemies = [24 + 20 + k for k in range(4)]
    place(b, dict.fromkeys([*range(4), *enemies], (16.0, 16.0)))
    unit, mark, param, damage = tables(b)
    unit[U.HEALTH, [0, *range(1, 4), *enemies]] = [0] + [15] * 7
    mark[M.BURST, [*range(4), *enemies]] = 0
    explode_killed(unit, mark, param, damage, b.scene.affects[0], 24, 0)
    assert (unit[U.HEALTH] == 0).all()


def test_marauder_ordered_to_attack_a_medivac_stops(battle) -> None:
    b = place(battle("MMM"), {0: (10.0, 16.0), 19: (14.0, 16.0), 10: (28.0, 8.0)})
    assert b.avail[0, 0, ATTACK + 9] == 1
    b.step(actions(b, a0=ATTACK + 9))
    assert b.world.mark[0, M.TARGET, 0] == NO_ONE
    assert (b.world.unit[0, U.HEALTH, 19], b.world.unit[0, U.X, 0]) == (150, 10)


def test_blocked_zergling_walks_around_its_allies(battle) -> None:
    b = battle("corridor")
    place(b, {0: (20.0, 19.0), 6: (20.9, 19.0), 7: (20.9, 19.8), 8: (20.9, 18.2), 9: (22.0, 19.05)})
    b.world.unit[0, U.HEALTH] = np.where(b.world.unit[0, U.HEALTH] > 0, 1e6, 0)
    steps(b, 8)
    unit = b.world.unit[0]
    assert np.hypot(unit[U.X, 9] - unit[U.X, 0], unit[U.Y, 9] - unit[U.Y, 0]) <= 1.0
    assert b.world.mark[0, M.STANDS, 9] == 1
