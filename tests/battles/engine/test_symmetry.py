"""Equal teams that behave equally win equally often, however units are numbered."""

import numpy as np
import pytest

from rltrain.battles.engine.battles import Battles
from rltrain.battles.engine.world import M, Order, Outcome, P, U
from rltrain.battles.options import Options

EQUAL = ("3m", "8m", "25m", "2s3z", "3s5z", "1c3s5z", "MMM", "bane_vs_bane")
JITTER = 0.25


def counterparts(types: tuple[str, ...], others: tuple[str, ...], reverse: bool) -> list[int]:
    """For every unit of one team a unit of its type of the other one."""
    pools = {name: [j for j, other in enumerate(others) if other == name] for name in set(types)}
    return [pools[name].pop(-1 if reverse else 0) for name in types]


def decided(map_name: str, start: str, n: int) -> np.ndarray:
    """The decided ones of n battles between two teams under the enemies' orders: won or not.

    The enemies stand where the agents do, mirrored; ``jittered`` moves every unit on its own;
    ``renumbered`` reverses the enemies' ids as well. Exactly mirrored battles run nearly alike, so
    that small effects of the order in which units are processed add up: in 8,000 battles 46% on
    bane_vs_bane while overlapping pairs were separated in the order of ids, 50% now.
    """
    battles = Battles(map_name=map_name, n_envs=n, options=Options(), n_threads=2)
    battles.reset({e: 7919 * e for e in range(n)})
    row, unit, mark = battles.map_data, battles.world.unit, battles.world.mark
    agents = row.n_agents
    other = counterparts(row.enemy_types, row.ally_types, start == "renumbered")
    center = np.array([row.allies[0].x + row.enemies[0].x, row.allies[0].y + row.enemies[0].y])
    places = unit[:, [U.X, U.Y], :agents].copy()
    mirrored = center[:, None] - places[:, :, other]
    unit[:, [U.X, U.Y], agents:] = mirrored
    unit[:, [U.GOAL_X, U.GOAL_Y], agents:] = places[:, :, other]
    unit[:, [U.GOAL_X, U.GOAL_Y], :agents] = center[:, None] - places
    unit[:, [U.VX, U.VY]] = 0  # the enemies have set out before the first observation
    if start != "mirrored":
        moves = np.random.default_rng(0).uniform(-JITTER, JITTER, (n, 2, unit.shape[2]))
        unit[:, [U.X, U.Y]] += moves
        unit[:, [U.GOAL_X, U.GOAL_Y]] += moves
    heals = battles.scene.param[0, P.ENERGY] > 0
    mark[:, M.ORDER] = np.where(heals, Order.HEAL_MOVE, Order.ATTACK_MOVE)
    nobody = {"n_agents": 0, "n_enemies": 0}  # gives the agents other orders
    battles.shown = battles.shown._replace(**nobody)
    action = np.zeros(battles.avail.shape[:2], np.int64)
    battles.orders = lambda: action
    while not battles.ended.all():
        battles.step(action)
    outcome = battles.world.outcome
    return outcome[(outcome == Outcome.WIN) | (outcome == Outcome.DEFEAT)] == Outcome.WIN


@pytest.mark.parametrize("start", ["mirrored", "jittered", "renumbered"])
def test_equal_marines_win_about_half_of_their_battles(start: str) -> None:
    assert decided("3m", start, 300)[:250].mean() == pytest.approx(0.5, abs=0.09)


@pytest.mark.slow
@pytest.mark.parametrize("start", ["mirrored", "jittered", "renumbered"])
@pytest.mark.parametrize("map_name", EQUAL)
def test_equal_teams_win_half_of_their_decided_battles(map_name: str, start: str) -> None:
    won = decided(map_name, start, 4000)
    assert len(won) > 3000
    assert won.mean() == pytest.approx(0.5, abs=0.04)
