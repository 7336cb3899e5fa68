"""A unit that cannot move: whom it shoots at, and how fast its turret follows. The spine crawler
stands at (14, 20), has phase 0, so it scans in loops 0, 8, 16 …, and is stepped loop by loop."""

import math

import numpy as np
import pytest

from rltrain.battles.engine.fighting.turret import off_target, turn_turrets
from rltrain.battles.engine.world import NO_ONE, M, U
from tests.battles.conftest import ATTACK, SOUTH, STOP, place, steps

SPINE = 2
REACH = 7 + 0.875 + 0.625  # between centers


@pytest.fixture
def siege(battle):
    """Two stalkers south-west and south-east of a spine crawler, the first one nearer."""
    b = battle("2s_vs_1sc", step_mul=1)
    place(b, {0: (12.0, 15.0), 1: (17.0, 15.0), SPINE: (14.0, 20.0)})
    b.world.unit[0, U.COOLDOWN, SPINE] = 100  # it only chooses
    return b


def target_after(b, loops: int, **chosen: int) -> int:
    steps(b, loops, **chosen)
    return int(b.world.mark[0, M.TARGET, SPINE])


def test_spine_crawler_targets_the_nearest_unit_if_none_attacks_it(siege) -> None:
    assert target_after(siege, 1) == 0


def test_spine_crawler_prefers_attackers_to_nearer_units(siege) -> None:
    assert target_after(siege, 1, a1=ATTACK) == 1


def test_spine_crawler_drops_its_target_for_an_attacker_and_targets_it_at_the_next_scan(siege):
    assert target_after(siege, 1) == 0
    assert target_after(siege, 7, a1=ATTACK) == NO_ONE
    assert target_after(siege, 1, a1=ATTACK) == 1


@pytest.mark.parametrize("attackers", [{"a0": ATTACK, "a1": ATTACK}, {}], ids=["both", "none"])
def test_spine_crawler_keeps_a_target_that_attacks_it_or_if_none_does(siege, attackers) -> None:
    target_after(siege, 1, a1=ATTACK)
    assert target_after(siege, 9, **attackers) == 1


def test_spine_crawler_drops_a_target_out_of_reach(siege) -> None:
    target_after(siege, 1)
    siege.world.unit[0, U.HEALTH, 1] = 0
    siege.world.unit[0, [U.X, U.Y], 0] = 14.0, 20.0 - REACH - 0.01
    assert target_after(siege, 1) == NO_ONE


def test_dropping_a_target_ends_the_windup_without_a_cooldown(siege) -> None:
    unit = siege.world.unit[0]
    unit[U.COOLDOWN, SPINE] = 0
    while unit[U.WINDUP, SPINE] == 0:
        target_after(siege, 1, a0=ATTACK)
    target_after(siege, 1, a1=ATTACK)
    assert unit[U.WINDUP, SPINE] == 0
    assert unit[U.COOLDOWN, SPINE] <= 0
    assert unit[U.SHIELD, :2].tolist() == [80, 80]


@pytest.mark.parametrize(("start", "end"), [(0.0, 0.5), (3.0, -3.0), (-3.0, 3.0), (1.0, -1.0)])
def test_turret_turns_360_degrees_a_second_the_shorter_way(battle, start: float, end: float):
    b = battle("2s_vs_1sc")
    place(b, {0: (14 + 6 * math.cos(end), 20 + 6 * math.sin(end)), SPINE: (14.0, 20.0)})
    unit, mark, param = b.world.unit[0], b.world.mark[0], b.scene.param[0]
    unit[U.FACING, SPINE], mark[M.TARGET, SPINE] = start, 0
    gap = off_target(unit, SPINE, np.int32(0))
    assert abs(gap) <= math.pi
    turn_turrets(unit, mark, param)
    left = abs(off_target(unit, SPINE, np.int32(0)))
    assert left == pytest.approx(max(abs(gap) - 2 * math.pi / 16, 0), abs=1e-4)


def test_turret_does_not_wind_up_before_it_points_at_its_target(battle) -> None:
    b = place(battle("2s_vs_1sc", step_mul=1), {0: (14.0, 15.0), SPINE: (14.0, 20.0)})
    unit = b.world.unit[0]
    unit[U.FACING, SPINE] = math.pi / 2  # half a turn away: eight loops
    loops = 0
    while unit[U.WINDUP, SPINE] == 0:
        b.step(np.array([[STOP, 0]]))
        loops += 1
    assert loops == 8


def test_turret_initially_faces_down_the_map(battle) -> None:
    b = battle("2s_vs_1sc")
    assert b.world.unit[0, U.FACING, SPINE] == pytest.approx(-math.pi / 2)
    assert target_after(b, 1, a0=SOUTH, a1=SOUTH) == NO_ONE
