"""All 23 maps: where units begin and where their enemies go, and maps of any size by name."""

import numpy as np
import pytest
from pettingzoo.test import parallel_api_test

from rltrain.battles.data.maps import find_map, map_names
from rltrain.battles.data.spawn import attack_goals, start_points
from rltrain.battles.data.terrain import PATHABLE, next_cells, pathable_cells
from rltrain.battles.engine.world import M, Order, P, U
from rltrain.env.smac import StarCraft2Env, parallel_env
from tests.battles.conftest import place, random_legal, steps
from tests.marks import slow_except


@pytest.mark.parametrize("map_name", ["8m", "27m_vs_30m", "3s5z", "corridor", "bane_vs_bane"])
def test_units_stay_out_of_walls_and_overlaps_stay_small(battle, map_name: str) -> None:
    b, rng = battle(map_name, 5), np.random.default_rng(0)
    disc, walls = b.scene.param[0, P.DISC], b.scene.walls.astype(np.float64)
    for k in range(40):
        if b.ended[0]:
            b.reset({0: k})
        b.step(random_legal(b.avail, rng))
        alive = b.world.unit[0, U.HEALTH] > 0
        x, y, r = b.world.unit[0, U.X, alive], b.world.unit[0, U.Y, alive], disc[alive]
        along = walls[:, 2:] - walls[:, :2]
        for px, py, radius in zip(x, y, r, strict=True):
            start = np.array([px, py]) - walls[:, :2]
            share = ((start * along).sum(1) / (along**2).sum(1)).clip(0, 1)
            gap = np.hypot(*(start - share[:, None] * along).T)
            assert gap.min() >= radius - 0.02
        gaps = np.hypot(x[:, None] - x, y[:, None] - y) / (r[:, None] + r)
        # Zerglings in recorded battles of bane_vs_bane come as near as 0.31 cells, 0.44 of this.
        assert gaps[np.triu_indices(len(x), 1)].min(initial=9.0) > 0.35


@pytest.mark.parametrize(
    "map_name",
    slow_except(("3m", "MMM"), ["3m", "2s3z", "MMM", "corridor", "2c_vs_64zg", "bane_vs_bane"]),
)
def test_pettingzoo_api(map_name: str) -> None:
    parallel_api_test(parallel_env(map_name=map_name), num_cycles=60)


SAMPLE = ("3m", "MMM2", "corridor", "2c_vs_64zg", "bane_vs_bane", "so_many_baneling")


@pytest.mark.parametrize("map_name", slow_except(SAMPLE, map_names()))
def test_all_units_start_at_separate_free_positions(map_name: str) -> None:
    row = find_map(map_name)
    cells, points = pathable_cells(row.terrain), np.array(start_points(row))
    radii = np.array([unit.separation_radius for unit in row.unit_types])
    assert cells[points[:, 0].astype(int), points[:, 1].astype(int)].all()
    gaps = np.hypot(*(points[:, None] - points).T) - radii[:, None] - radii
    layers = np.array([unit.layer for unit in row.unit_types])
    gaps[layers[:, None] != layers] = 1
    assert gaps[np.triu_indices(len(points), 1)].min() > -1 / 16  # as measured


@pytest.mark.parametrize("terrain", slow_except(list(PATHABLE)[:3], PATHABLE))
def test_ways_reach_every_cell_over_pathable_cells(terrain: str) -> None:
    table, cells = next_cells(terrain), pathable_cells(terrain)
    if not len(table):
        assert cells.sum() == np.prod(np.ptp(np.argwhere(cells), 0) + 1)
        return
    free = np.flatnonzero(cells)
    at = np.tile(free, (len(free), 1))  # [from, to] when walking column by column
    at, goal = at.T.copy(), np.tile(free, (len(free), 1))
    for _ in range(12):
        at = table[at, goal]
        assert cells.ravel()[at].all()
    assert (at == goal).all()


def test_zealot_of_2m_vs_1z_walks_to_a_random_point_of_the_segment(battle) -> None:
    goals = [battle("2m_vs_1z", seed).world.unit[0, [U.GOAL_X, U.GOAL_Y], 2] for seed in range(8)]
    x, y = np.array(goals).T
    assert (y == 12).all()
    assert x.min() >= 13
    assert x.max() <= 19
    assert len(set(x.tolist())) == 8


def test_spine_crawler_stays_and_attacks_near_units(battle) -> None:
    b = battle("2s_vs_1sc")
    assert b.world.mark[0, M.ORDER, 2] == Order.ATTACK_MOVE
    where = b.world.unit[0, [U.X, U.Y], 2].tolist()
    place(b, {0: (13.9, 12.5), 2: (13.92, 20.04)})
    steps(b, 2)
    assert (b.world.mark[0, M.TARGET, 2], b.world.unit[0, U.SHIELD, 0]) == (0, 80 - 30)
    assert b.world.unit[0, [U.X, U.Y], 2].tolist() == pytest.approx(where, abs=0.01)


@pytest.mark.parametrize("map_name", ["corridor", "so_many_baneling", "6h_vs_8z", "bane_vs_bane"])
def test_enemies_walk_to_their_maps_own_point(battle, map_name: str) -> None:
    b = battle(map_name)
    agents, row = b.map_data.n_agents, b.map_data
    goals = np.array(attack_goals(row, start_points(row)), np.float32).T[:, agents:]
    assert (b.world.unit[0, [U.GOAL_X, U.GOAL_Y], agents:] == goals).all()
    assert np.hypot(*(goals.mean(1) - row.attack_point)) < 1


def test_heuristic_policy_finishes_on_maps_with_healers_and_marauders() -> None:
    env = StarCraft2Env(map_name="MMM", seed=0, heuristic_ai=True)
    env.reset()
    over, total = False, 0.0
    while not over:
        reward, over, _ = env.step([1 if row[1] else 0 for row in env.get_avail_actions()])
        total += reward
    assert total > 5


@pytest.mark.parametrize(
    ("map_name", "agents", "enemies", "bits"),
    [
        ("4m", ["marine"] * 4, ["marine"] * 4, 0),
        ("7m_vs_8m", ["marine"] * 7, ["marine"] * 8, 0),
        ("4s_vs_6z", ["stalker"] * 4, ["zealot"] * 6, 0),
        ("2s3z_vs_3z2s", ["stalker"] * 2 + ["zealot"] * 3, ["zealot"] * 3 + ["stalker"] * 2, 2),
        ("2z1s_vs_8zg", ["stalker"] + ["zealot"] * 2, ["zergling"] * 8, 2),
        ("3c_vs_1s1z", ["colossus"] * 3, ["stalker", "zealot"], 3),
        ("64m", ["marine"] * 64, ["marine"] * 64, 0),
        ("2m3z_vs_1s2m", ["marine"] * 2 + ["zealot"] * 3, ["stalker"] + ["marine"] * 2, 2),
    ],
)
def test_teams_of_a_name_can_be_played(battle, map_name, agents, enemies, bits) -> None:
    b, rng = battle(map_name), np.random.default_rng(0)
    assert (list(b.map_data.ally_types), list(b.map_data.enemy_types)) == (agents, enemies)
    assert b.map_data.unit_type_bits == bits
    points = np.array(start_points(b.map_data))
    gaps = np.hypot(*(points[:, None] - points[None]).transpose(2, 0, 1))
    assert gaps[~np.eye(len(points), dtype=bool)].min() > 0.6
    while not b.ended[0]:
        b.step(random_legal(b.avail, rng))
    assert b.world.clock[0] <= b.map_data.limit
    assert np.isfinite(b.obs).all()


def test_other_sizes_stand_as_on_smac_maps() -> None:
    """The first units of a larger team stand where a smaller one does."""
    small, large = (np.array(start_points(find_map(name))) for name in ("3m", "4m"))
    assert {tuple(p) for p in small[:3]} < {tuple(p) for p in large[:4]}


@pytest.mark.parametrize(
    ("map_name", "message"),
    [
        ("0m", "expected 1 to 64 units in all"),
        ("3m_vs_65m", "expected 1 to 64 units in all"),
        ("2s0z", "at least one of every type"),
        ("3q_vs_3m", "unknown units .*: 3q.* type for example 7m_vs_8m"),
        ("3m2m", "names marines of one team twice"),
        ("m_vs_8m", "unknown SMAC map"),
        ("3m_vs_", "unknown SMAC map"),
        ("-3m", "unknown SMAC map"),
        ("3m_vs_4m_vs_5m", "unknown SMAC map"),
    ],
)
def test_other_names_are_refused(map_name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find_map(map_name)
