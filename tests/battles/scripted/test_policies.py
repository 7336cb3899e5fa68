"""Players written by hand: what they choose in battles set up by hand."""

import numpy as np
import pytest

from rltrain.battles.engine.world import M, U
from rltrain.battles.scripted.policies import DECISIONS, BattleDecisions, find_policy, heuristic
from tests.battles.conftest import ATTACK, EAST, NORTH, SOUTH, STOP, WEST, place

MARINE_MAP = "8m"  # agents 0 … 7, enemies 8 … 15
TEAM = 8


def choose(b, name: str) -> list[int]:
    return BattleDecisions(b, find_policy(name))()[0].tolist()


@pytest.mark.parametrize("name", DECISIONS)
@pytest.mark.parametrize(
    "map_name",
    [
        "MMM2",
        *(pytest.param(m, marks=pytest.mark.slow) for m in ("2c_vs_64zg", "1c3s5z", "corridor")),
    ],
)
def test_actions_are_always_available(make, name: str, map_name: str) -> None:
    env = make(map_name, 3)
    decide = env.scripted(name)
    for _ in range(60):
        action = decide()
        assert (action.shape, action.dtype) == ((3, env.spec.n_agents), np.int64)
        env.step(action)  # raises where one is not; begins the next battle where one ended


def test_unknown_scripted_policy_lists_the_known_ones(make) -> None:
    with pytest.raises(ValueError, match=r"unknown scripted policy 'closet'.*closest"):
        make().scripted("closet")


def test_stop_chooses_stop_and_dead_agents_no_op(battle) -> None:
    b = place(battle(MARINE_MAP), {0: (10.0, 16.0), 8: (14.0, 16.0)})
    assert choose(b, "stop") == [STOP] + [0] * 7


def test_closest_attacks_the_nearest_in_reach_and_the_first_of_equals(battle) -> None:
    b = battle(MARINE_MAP)
    place(b, {0: (10.0, 16.0), 8: (14.0, 16.0), 9: (12.0, 16.0), 10: (10.0, 14.0)})
    assert choose(b, "closest")[0] == ATTACK + 9 - TEAM


def test_focus_attacks_the_weakest_in_reach_and_the_first_of_equals(battle) -> None:
    b = battle(MARINE_MAP)
    points = {8: (12.0, 16.0), 9: (13.0, 16.0), 10: (14.0, 16.0), 11: (20.0, 16.0)}
    place(b, {0: (10.0, 16.0), **points})
    b.world.unit[0, U.HEALTH, [8, 9, 10, 11]] = 40, 30, 30, 1
    assert choose(b, "focus")[0] == ATTACK + 9 - TEAM


@pytest.mark.parametrize(
    ("foe", "move"),
    [((20.0, 18.0), EAST), ((3.0, 18.0), WEST), ((12.0, 24.0), NORTH), ((12.0, 8.0), SOUTH)],
)
@pytest.mark.parametrize("name", ["closest", "focus", "heuristic"])
def test_walks_along_the_longer_axis_if_out_of_reach(battle, name, foe, move) -> None:
    b = place(battle(MARINE_MAP), {0: (11.0, 16.0), 8: foe})
    assert choose(b, name)[0] == move


def test_walks_along_the_shorter_axis_if_the_longer_one_is_blocked(battle) -> None:
    b = battle("corridor")
    place(b, {0: (9.0, 12.5), 6: (10.4, 20.0)})  # the wall is north, the choke east
    assert choose(b, "closest")[0] == EAST


def test_marauders_do_not_target_the_medivac(battle) -> None:
    b = battle("MMM")  # agents: marauders 0 and 1, marines 2 … 8, the medivac 9
    place(b, {0: (10.0, 16.0), 2: (10.0, 17.5), 10: (15.0, 16.0), 19: (12.0, 16.5)})
    action = choose(b, "closest")
    assert action[0] == ATTACK + 0  # the marine behind it
    assert action[2] == ATTACK + 9  # marines hit air


@pytest.mark.parametrize("name", ["closest", "focus"])
def test_healers_heal_the_unit_in_reach_with_the_smallest_health_share(battle, name) -> None:
    b = place(battle("MMM"), {0: (11.0, 16.0), 2: (14.0, 16.0), 3: (25.0, 16.0), 9: (10.0, 16.0)})
    b.world.unit[0, U.HEALTH, [0, 2, 3]] = 60, 30, 1  # of 125, 45, 45
    assert choose(b, name)[9] == ATTACK + 0


def test_healers_walk_to_injured_units_otherwise_with_the_team(battle) -> None:
    b = place(battle("MMM"), {0: (11.0, 16.0), 3: (25.0, 16.0), 9: (13.0, 16.0)})
    b.world.unit[0, U.HEALTH, 3] = 1
    assert choose(b, "closest")[9] == EAST
    b.world.unit[0, U.HEALTH, 3] = 45
    assert choose(b, "closest")[9] == STOP  # two cells from its marauder
    assert choose(b, "heuristic")[9] == STOP  # no unit is injured


def test_heuristic_keeps_its_target_until_it_is_dead(battle) -> None:
    """As does one that is restored from the state dict."""
    b = place(battle(MARINE_MAP), {0: (10.0, 16.0), 8: (14.0, 16.0), 9: (15.0, 16.0)})
    decide, other = BattleDecisions(b, heuristic), BattleDecisions(b, heuristic)
    assert decide()[0, 0] == ATTACK + 0
    b.world.clock[0] = 1
    place(b, {0: (10.0, 16.0), 8: (15.0, 16.0), 9: (12.0, 16.0)})
    other.load_state_dict(decide.state_dict())
    assert other()[0, 0] == decide()[0, 0] == ATTACK + 0
    b.world.unit[0, U.HEALTH, 8] = 0
    b.refresh()
    assert decide()[0, 0] == ATTACK + 1


def test_memory_is_cleared_when_a_battle_begins(battle) -> None:
    b = battle(MARINE_MAP)
    decide = BattleDecisions(b, heuristic)
    decide()
    b.reset({0: 1})
    place(b, {0: (10.0, 16.0), 15: (14.0, 16.0), 14: (15.0, 16.0)})
    assert decide()[0, 0] == ATTACK + 15 - TEAM


def test_kite_shoots_when_ready_and_runs_while_it_is_not(battle) -> None:
    b = place(battle("3s_vs_3z"), {0: (16.0, 16.0), 3: (19.0, 16.0)})
    assert choose(b, "kite")[0] == ATTACK
    b.world.unit[0, U.COOLDOWN, 0] = 10
    assert choose(b, "kite")[0] == WEST


def test_spread_moves_away_from_neighbors_and_then_stops(battle) -> None:
    b = place(battle("so_many_baneling"), {0: (7.0, 7.0), 1: (7.0, 8.5), 7: (28.0, 28.0)})
    assert choose(b, "spread")[:2] == [SOUTH, NORTH]
    place(b, {0: (5.0, 4.0), 1: (5.0, 9.5), 7: (28.0, 28.0)})
    assert choose(b, "spread")[:2] == [STOP, STOP]


def test_alternate_holds_fire_of_the_unit_that_an_enemy_aims_at(battle) -> None:
    b = place(battle("2s_vs_1sc"), {0: (12.0, 15.0), 1: (15.0, 15.0), 2: (13.92, 20.04)})
    b.world.mark[0, M.TARGET, 2], b.world.unit[0, U.COOLDOWN, 2] = 0, 9
    assert choose(b, "alternate") == [ATTACK, ATTACK]
    b.world.unit[0, U.WINDUP, 2] = 3
    assert choose(b, "alternate") == [STOP, ATTACK]
    b.world.unit[0, U.HEALTH, 1] = 10  # too weak to take the fire
    assert choose(b, "alternate") == [ATTACK, ATTACK]
