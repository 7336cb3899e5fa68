"""Targets on an attack-move, the places that blocked melee units take, and the spine crawler,
which cannot move: whom it shoots at, and how fast its turret follows.
"""

import math

import numpy as np
import pytest

from rltrain.battles.engine.fighting.weapons import off_target, turn_turrets
from rltrain.battles.engine.world import NO_ONE, M, Order, U
from tests.battles.conftest import ATTACK, SOUTH, STOP, actions, place, steps


def run(b, loops: int) -> int:
    """The target of the first enemy after so many loops."""
    steps(b, loops)
    return int(b.world.mark[0, M.TARGET, b.map_data.n_agents])


@pytest.fixture
def duel(battle):
    """A marine that fights one of two in its weapon range; ``attacks`` are their targets."""

    def build(attacks):
        b = battle(step_mul=1)
        place(b, {0: (14.0, 16.0), 1: (14.0, 22.0), 3: (18.5, 16.0), 4: (19.0, 22.0)})
        b.world.unit[0, U.HEALTH, [0, 1, 3, 4]] = 1e6
        assert run(b, 1) == 0
        b.world.unit[0, [U.X, U.Y], 1] = 17.0, 17.0
        b.refresh()

        def after(loops: int) -> int:
            for _ in range(loops):
                chosen = {f"a{i}": ATTACK + k for i, k in enumerate(attacks) if k is not None}
                b.step(actions(b, **chosen))
            return int(b.world.mark[0, M.TARGET, 3])

        return after

    return build


@pytest.mark.parametrize(
    ("attacks", "expected"),
    [
        ((None, None), 0),  # the present target, though another one is nearer
        ((0, None), 0),  # it attacks
        ((0, 0), 0),  # both do: no change among attackers
        ((None, 0), 1),  # only the other one attacks
        ((None, 1), 0),  # the other one attacks someone else
    ],
)
def test_foes_that_attack_a_unit_come_before_its_target(duel, attacks, expected) -> None:
    assert duel(attacks)(24) == expected


def test_a_target_that_stops_attacking_is_dropped_within_eight_loops(duel) -> None:
    """In 1,000 recorded battles no mover was hit in its second step while another one attacked."""
    assert duel((None, 0))(8) == 1


@pytest.mark.parametrize(("first", "expected"), [(2, [2, 2, 9]), (9, [9, 9, 9])])
def test_a_healer_is_as_much_a_threat_as_an_attacker(battle, first, expected) -> None:
    """The maps' ``Medivac_RL`` has ``AlwaysThreatens``: among threats the present target stays, and
    one that is not a threat gives way."""
    b, second = battle("MMM", step_mul=1), 11 - first  # marine 2, medivac 9
    enemy = b.map_data.n_agents + b.map_data.enemy_types.index("marine")
    place(b, {first: (14.0, 16.0), second: (4.0, 4.0), enemy: (18.5, 16.0)})
    b.world.unit[0, U.HEALTH, [2, 9, enemy]] = 1e6
    targets = []
    for attacks in (False, True, False):
        for _ in range(24):
            b.step(actions(b, **({"a2": ATTACK + enemy - 10} if attacks else {})))
        targets.append(int(b.world.mark[0, M.TARGET, enemy]))
        b.world.unit[0, [U.X, U.Y], second] = 17.0, 17.0
        b.refresh()
    assert targets == expected


def test_target_out_of_weapon_range_gives_way_to_a_nearer_one_at_the_next_scan(battle) -> None:
    b = battle("2s3z", step_mul=1)
    place(b, {2: (14.0, 16.0), 3: (14.0, 22.0), 7: (18.0, 16.0)})  # a zealot walks to a zealot
    mark = b.world.mark[0]
    b.step(actions(b))
    assert mark[M.TARGET, 7] == 2
    b.world.unit[0, [U.X, U.Y], 3] = 17.0, 18.0
    steps(b, 3)
    assert mark[M.TARGET, 7] == 2  # between two scans
    b.step(actions(b))
    assert mark[M.TARGET, 7] == 3


def test_target_that_leaves_scan_range_is_dropped_and_the_unit_walks_on(battle) -> None:
    b = place(battle("2s3z", step_mul=1), {2: (14.0, 20.0), 7: (18.0, 16.0)})
    b.step(actions(b))
    assert b.world.mark[0, M.TARGET, 7] == 2
    b.world.unit[0, [U.X, U.Y], 2] = 28.0, 24.0
    steps(b, 5)
    assert b.world.mark[0, M.TARGET, 7] == NO_ONE
    assert b.world.unit[0, U.VX, 7] < 0  # toward the agents' start


def test_enemies_walk_side_by_side_and_not_toward_one_point(battle) -> None:
    b = battle("10m_vs_11m")
    b.world.unit[0, U.HEALTH, :9], b.world.unit[0, U.X, 9] = 0, 3.0
    before = np.ptp(b.world.unit[0, U.Y, 10:])
    steps(b, 6)
    assert np.ptp(b.world.unit[0, U.Y, 10:]) == pytest.approx(before, abs=0.05)


@pytest.mark.parametrize("order", [Order.ATTACK, Order.ATTACK_MOVE])
def test_blocked_melee_unit_goes_to_its_own_target_whoever_commands_it(battle, order) -> None:
    """A target that is surrounded, and a second enemy beside it with all its places free."""
    b = battle("corridor", step_mul=1)
    ring = [(20 + 0.95 * np.cos(a), 18 + 0.95 * np.sin(a)) for a in np.arange(7) * 2 * np.pi / 7]
    place(b, {0: (20.0, 18.0), 1: (22.5, 18.0), **{6 + k: p for k, p in enumerate(ring)},
              13: (18.2, 18.0)})  # fmt: skip
    b.world.unit[0, U.HEALTH, [0, 1, *range(6, 14)]] = 1e6
    for _ in range(12):
        b.world.mark[0, M.ORDER, 13], b.world.mark[0, M.TARGET, 13] = order, 0
        b.step(actions(b))
        assert b.world.mark[0, M.TARGET, 13] == 0


def test_an_ordered_attack_is_never_given_up_for_a_nearer_enemy(battle) -> None:
    b = place(battle("2s3z", step_mul=1), {2: (14.0, 16.0), 7: (18.0, 16.0), 8: (15.5, 16.0)})
    b.world.unit[0, U.HEALTH, [2, 7, 8]] = 1e6
    for _ in range(16):
        b.step(actions(b, a2=ATTACK + 2))
        assert b.world.mark[0, M.TARGET, 2] == 7


SPINE = 2
REACH = 7 + 0.875 + 0.625  # between centers


@pytest.fixture
def siege(battle):
    """Two stalkers south-west and south-east of a spine crawler, the first one nearer. It has phase
    0, so it scans in loops 0, 8, 16 …, and is stepped loop by loop.
    """
    b = battle("2s_vs_1sc", step_mul=1)
    place(b, {0: (12.0, 15.0), 1: (17.0, 15.0), SPINE: (14.0, 20.0)})
    b.world.unit[0, U.COOLDOWN, SPINE] = 100  # it only chooses
    return b


def target_after(b, loops: int, **chosen: int) -> int:
    steps(b, loops, **chosen)
    return int(b.world.mark[0, M.TARGET, SPINE])


@pytest.mark.parametrize(("attacker", "target"), [({}, 0), ({"a1": ATTACK}, 1)])
def test_spine_crawler_targets_attackers_and_else_the_nearest(siege, attacker, target) -> None:
    assert target_after(siege, 1, **attacker) == target


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
