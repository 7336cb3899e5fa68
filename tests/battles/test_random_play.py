"""Whether the maps are the games they should be: what wins them, and which ways their enemies take.
Everything over 16 battles.
"""

from collections.abc import Callable

import numpy as np
import pytest

from rltrain.battles.engine.battles import Battles
from rltrain.battles.engine.world import M, Order, U
from rltrain.env.smac.vector import SmacVectorEnv
from tests.battles.conftest import SOUTH, STOP, seeds

N = 16
MOST = 12


def wins(make: Callable[..., SmacVectorEnv], map_name: str, name: str) -> int:
    """How many of 16 battles the script wins."""
    env = make(map_name, N)
    player, won = env.scripted(name), {}
    while len(won) < N:
        env.step(player())
        for e in np.flatnonzero(env.last).tolist():
            won.setdefault(e, env.infos[e]["win"])
    return sum(won.values())


@pytest.mark.parametrize(
    ("map_name", "name"),
    [("3s_vs_3z", "kite"), ("so_many_baneling", "spread"), ("2s_vs_1sc", "alternate")],
)
def test_tactics_win_where_a_plain_attack_loses(make, map_name: str, name: str) -> None:
    assert wins(make, map_name, name) >= MOST
    assert wins(make, map_name, "closest") <= N - MOST


def standing(map_name: str, points: list[tuple[float, float]]) -> Battles:
    """16 battles whose agents stand at the points and cannot be killed."""
    env = SmacVectorEnv(map_name=map_name, n_envs=N)
    env.reset(seeds)
    unit, agents = env.battles.world.unit, env.spec.n_agents
    unit[:, U.X, :agents], unit[:, U.Y, :agents] = np.array(points).T
    unit[:, U.HEALTH, :agents] = 1e6
    env.battles.refresh()
    return env.battles


def test_zerglings_enter_the_lower_room_of_corridor_through_the_choke_alone() -> None:
    b = standing("corridor", [(3 + 2 * (i % 3), 4 + 3 * (i // 3)) for i in range(6)])
    entered, x, y = 0, b.world.unit[:, U.X, 6:].copy(), b.world.unit[:, U.Y, 6:].copy()
    for _ in range(70):
        b.step(np.full((N, 6), STOP))
        new_x, new_y = b.world.unit[:, U.X, 6:], b.world.unit[:, U.Y, 6:]
        enters = (y >= 13) & (new_y < 13)
        share = (y[enters] - 13) / (y - new_y)[enters]
        crossing = x[enters] + share * (new_x - x)[enters]
        assert ((crossing >= 10) & (crossing <= 16)).all()
        entered += enters.sum()
        x, y = new_x.copy(), new_y.copy()
    assert entered >= 0.9 * 24 * N


def test_zerglings_of_2c_vs_64zg_begin_below_the_cliff() -> None:
    b = standing("2c_vs_64zg", [(14.0, 17.0), (18.0, 17.0)])
    assert (b.world.unit[:, U.Y, 2:] < 12).all()


def test_zerglings_of_2c_vs_64zg_reach_the_plateau_by_the_ramps_alone() -> None:
    b, sides = standing("2c_vs_64zg", [(14.0, 17.0), (18.0, 17.0)]), []
    assert (b.world.mark[:, M.ORDER, 2:] == Order.HUNT).all()
    for _ in range(40):
        b.step(np.full((N, 2), STOP))
        x, y = b.world.unit[:, U.X, 2:], b.world.unit[:, U.Y, 2:]
        sides += x[(y > 12) & (y < 13)].tolist()
    at = np.array(sides)
    assert ((at < 4) | (at > 28)).all()
    assert (at < 4).any()
    assert (at > 28).any()
    on_plateau = (x > 7) & (x < 25) & (y > 13)
    assert on_plateau.mean() > 0.75


def test_colossi_step_down_the_cliff_anywhere_along_it() -> None:
    b = standing("2c_vs_64zg", [(16.0, 14.0), (16.0, 18.0)])
    b.world.unit[:, U.X, 0] = np.linspace(5, 27, N)
    b.world.unit[:, U.X, 2:], b.world.unit[:, U.Y, 2:] = 3.0, 19.0
    b.refresh()
    action = np.tile(np.array([SOUTH, STOP]), (N, 1))
    for _ in range(3):
        b.step(action)
    assert (b.world.unit[:, U.Y, 0] < 12).all()
