"""What a rewrite of SMAC easily gets wrong in battle: reach, special weapons, who goes where."""

import numpy as np
import pytest

from rltrain.battles.data.maps import find_map
from rltrain.battles.data.terrain import PATHABLE, pathable_cells
from rltrain.battles.data.units import UNITS, damage_per_hit
from rltrain.battles.engine.world import M, U
from tests.battles.conftest import ATTACK, EAST, NORTH, actions, place, steps, strike

DISC = 0.375 - 1 / 32  # of a marine, for collisions and walls


@pytest.mark.parametrize(("distance", "stands"), [(5.74, 1), (5.76, 0)])
def test_marine_shoots_from_5_75_its_range_and_both_radii(battle, distance, stands) -> None:
    b = place(battle(step_mul=1), {0: (14.0, 16.0), 3: (14.0 + distance, 16.0)})
    b.step(actions(b, a0=ATTACK))
    assert b.world.mark[0, M.STANDS, 0] == stands
    assert (b.world.unit[0, U.X, 0] > 14) != bool(stands)


@pytest.mark.parametrize(
    ("map_name", "agent", "foe", "walk"),
    [("corridor", 0, 6, 1.125), ("bane_vs_bane", 4, 24, 1.477)],
)
def test_attack_from_six_cells_away_is_a_pursuit(battle, map_name, agent, foe, walk) -> None:
    b = place(battle(map_name), {agent: (13.0, 20.0), foe: (19.0, 20.0)})
    assert b.avail[0, agent, ATTACK] == 1
    b.world.unit[0, U.HEALTH, [agent, foe]] = 1e6
    b.step(actions(b, **{f"a{agent}": ATTACK}))
    gone = b.world.unit[0, [U.X, U.Y], agent] - (13, 20)
    assert np.hypot(*gone) == pytest.approx(walk, abs=0.02)
    assert gone[0] > 1


@pytest.mark.parametrize(("distance", "stands"), [(1.09, 1), (1.11, 0)])
def test_zealots_fight_edge_to_edge_at_centers_1_1_apart(battle, distance, stands) -> None:
    b = place(battle("2s3z", step_mul=1), {2: (14.0, 16.0), 7: (14.0 + distance, 16.0)})
    b.step(actions(b, a2=ATTACK + 2))
    assert b.world.mark[0, M.STANDS, 2] == stands
    zealot = UNITS["zealot"]
    assert (zealot.radius, zealot.separation_radius) == (0.5, 0.375)


@pytest.mark.parametrize(("shield", "left"), [(50, (34, 100)), (5, (0, 91)), (0, (0, 86))])
def test_both_hits_of_a_zealot_lose_armor_behind_the_shield(battle, shield, left) -> None:
    b = place(battle("2s3z"), {2: (14.0, 16.0), 7: (15.0, 16.0)})
    b.world.unit[0, U.SHIELD, 7] = shield
    strike(b, 2, 7)
    assert b.world.unit[0, [U.SHIELD, U.HEALTH], 7].tolist() == list(left)


def test_order_to_move_goes_two_cells_and_its_mask_looks_at_one(battle) -> None:
    b = place(battle(step_mul=40), {0: (5.0, 16.0), 1: (28.9, 16.0), 3: (29.0, 8.0)})
    assert b.avail[0, :2, EAST].tolist() == [1, 1]  # 30.9 would be in the wall
    b.step(actions(b, a0=EAST, a1=EAST))
    assert b.world.unit[0, U.X, :2] == pytest.approx([7.0, 30 - DISC], abs=1e-3)


def test_move_is_available_with_an_ally_in_the_way(battle) -> None:
    b = place(battle(), {0: (5.0, 16.0), 1: (5.8, 16.0), 3: (29.0, 8.0)})
    assert b.avail[0, 0, EAST] == 1
    b.step(actions(b, a0=EAST))
    assert b.world.unit[0, U.X, 0] > 5.8  # it has walked around the other one
    assert b.world.unit[0, U.X, 1] == pytest.approx(5.8, abs=0.25)  # and pushed it a little


def test_every_shot_draws_minus_one_to_plus_two_loops(battle) -> None:
    b, drawn = battle(step_mul=1), []
    for seed in range(300):
        b.reset({0: seed})
        place(b, {0: (14.0, 16.0), 3: (19.0, 16.0)})
        steps(b, 2, a0=ATTACK)
        drawn.append(float(b.world.unit[0, U.COOLDOWN, 0]))
    rest = 0.8608 * 16 - 2  # the loop of the windup and that of the shot are over
    assert rest - 1 <= min(drawn) < rest - 0.9
    assert rest + 1.9 < max(drawn) <= rest + 2


def test_blast_of_a_baneling_is_around_itself_and_not_around_its_target(battle) -> None:
    b = battle("so_many_baneling")
    reach = 2.2 + 0.5  # to the edge of a zealot
    crowd = {1: (11.01 - reach, 8.0), 2: (11.01 + reach, 8.0), 7: (11.0, 8.0), 8: (11.0, 7.0)}
    place(b, {0: (11.9, 8.0), **crowd})
    strike(b, 7, 0)
    assert b.world.unit[0, U.SHIELD, :3].tolist() == [15, 15, 50]
    assert b.world.unit[0, U.HEALTH, 7:9].tolist() == [0, 30]


def test_baneling_does_80_to_structures_only() -> None:
    damage = {name: damage_per_hit(UNITS["baneling"], unit) for name, unit in UNITS.items()}
    light = ("marine", "zealot", "zergling", "hydralisk")
    assert all(damage.pop(name) == 35 for name in light)
    assert damage.pop("spine_crawler") == 80
    assert set(damage.values()) == {20}


def test_colossus_shoots_from_seven_and_not_from_eight(battle) -> None:
    b = place(battle("1c3s5z", step_mul=1), {1: (10.0, 16.0), 9: (19.0, 16.0)})
    b.world.unit[0, U.HEALTH, 1] = 1e6
    loops = 0
    while not b.world.mark[0, M.STANDS, 9]:
        before = b.world.unit[0, U.X, 9] - 10
        b.step(actions(b))
        loops += 1
        assert loops < 20
    assert b.world.unit[0, U.X, 9] - 10 == before <= 7 + 1 + 0.625
    assert before > 7 + 1 + 0.625 - 2.25 / 16


def test_colossus_walks_over_zerglings_and_they_hit_it(battle) -> None:
    b = place(battle("2c_vs_64zg"), {0: (12.0, 16.0), 2: (13.0, 16.0), 3: (13.8, 16.0)})
    b.step(actions(b, a0=EAST))
    assert b.world.unit[0, [U.X, U.Y], 0] == pytest.approx([13.125, 16.0], abs=1e-4)
    b.step(actions(b))
    assert b.world.unit[0, U.SHIELD, 0] < 150


@pytest.mark.parametrize(
    ("map_name", "point"),
    [
        ("3m", (9, 16)), ("3s_vs_5z", (9, 16)), ("bane_vs_bane", (16, 8)),
        ("6h_vs_8z", (14.5998, 9.49)), ("corridor", (4.47, 4.3298)),
        ("so_many_baneling", (4.47, 4.3298)), ("2s_vs_1sc", None), ("2c_vs_64zg", None),
    ],
)  # fmt: skip
def test_enemies_are_sent_to_the_point_of_the_maps_script(map_name, point) -> None:
    assert find_map(map_name).attack_point == point


def test_medivacs_moves_are_masked_by_the_ground_that_it_ignores(battle) -> None:
    b = place(battle("MMM", step_mul=32), {2: (10.0, 23.9), 9: (16.0, 23.9), 10: (29.0, 8.0)})
    north = {"a2": NORTH, "a9": NORTH}
    assert b.avail[0, [2, 9], NORTH].tolist() == [1, 1]
    b.step(actions(b, **north))
    assert b.world.unit[0, U.Y, 2] == pytest.approx(25 - DISC, abs=1e-3)
    assert b.world.unit[0, U.Y, 9] > 25
    assert b.avail[0, 9, NORTH] == 0


@pytest.mark.parametrize("terrain", [name for name in PATHABLE if not name.startswith("lite_")])
def test_two_cells_along_the_edge_of_the_map_are_blocked(terrain: str) -> None:
    cells = pathable_cells(terrain)
    assert cells[2:30, 2:30].sum() == cells.sum()
