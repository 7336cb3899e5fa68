"""The 23 maps: sizes from tables alone, and what the names say when they are wrong."""

import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rltrain.battles.data import terrain
from rltrain.battles.data.maps import find_map, map_names
from rltrain.battles.data.units import LOOPS_PER_SECOND, UNITS
from rltrain.battles.options import (
    Options,
    SmacOptions,
    Smacv2Options,
    compute_sizes,
    max_reward_against,
)
from tests.battles.specs import env_spec

# map: agents, enemies, limit, type bits, shield bits, max_reward,
#      n_actions, enemy, ally, own, obs, state ally, state enemy, state
TABLE = {
    "3m": (3, 3, 60, 0, (0, 0), 365, 9, 5, 5, 1, 30, 4, 3, 48),
    "8m": (8, 8, 120, 0, (0, 0), 640, 14, 5, 5, 1, 80, 4, 3, 168),
    "25m": (25, 25, 150, 0, (0, 0), 1575, 31, 5, 5, 1, 250, 4, 3, 950),
    "5m_vs_6m": (5, 6, 70, 0, (0, 0), 530, 12, 5, 5, 1, 55, 4, 3, 98),
    "8m_vs_9m": (8, 9, 120, 0, (0, 0), 695, 15, 5, 5, 1, 85, 4, 3, 179),
    "10m_vs_11m": (10, 11, 150, 0, (0, 0), 805, 17, 5, 5, 1, 105, 4, 3, 243),
    "27m_vs_30m": (27, 30, 180, 0, (0, 0), 1850, 36, 5, 5, 1, 285, 4, 3, 1170),
    "MMM": (10, 10, 150, 3, (0, 0), 1015, 16, 8, 8, 4, 160, 7, 6, 290),
    "MMM2": (10, 12, 180, 3, (0, 0), 1205, 18, 8, 8, 4, 176, 7, 6, 322),
    "2s3z": (5, 5, 120, 2, (1, 1), 1020, 11, 8, 8, 4, 80, 7, 6, 120),
    "3s5z": (8, 8, 150, 2, (1, 1), 1510, 14, 8, 8, 4, 128, 7, 6, 216),
    "3s5z_vs_3s6z": (8, 9, 170, 2, (1, 1), 1670, 15, 8, 8, 4, 136, 7, 6, 230),
    "3s_vs_3z": (3, 3, 150, 0, (1, 1), 680, 9, 6, 6, 2, 36, 5, 4, 54),
    "3s_vs_4z": (3, 4, 200, 0, (1, 1), 840, 10, 6, 6, 2, 42, 5, 4, 61),
    "3s_vs_5z": (3, 5, 250, 0, (1, 1), 1000, 11, 6, 6, 2, 48, 5, 4, 68),
    "1c3s5z": (9, 9, 180, 3, (1, 1), 1870, 15, 9, 9, 5, 162, 8, 7, 270),
    "2m_vs_1z": (2, 1, 150, 0, (0, 1), 360, 7, 6, 5, 1, 16, 4, 4, 26),
    "corridor": (6, 24, 400, 0, (1, 0), 1280, 30, 5, 6, 2, 156, 5, 3, 282),
    "6h_vs_8z": (6, 8, 150, 0, (0, 1), 1480, 14, 6, 5, 1, 78, 4, 4, 140),
    "2s_vs_1sc": (2, 1, 300, 0, (1, 0), 510, 7, 5, 6, 2, 17, 5, 3, 27),
    "so_many_baneling": (7, 32, 100, 0, (1, 0), 1480, 38, 5, 6, 2, 202, 5, 3, 397),
    "bane_vs_bane": (24, 24, 200, 2, (0, 0), 1260, 30, 7, 7, 3, 336, 6, 5, 984),
    "2c_vs_64zg": (2, 64, 400, 0, (1, 0), 3080, 70, 5, 6, 2, 332, 5, 3, 342),
}


def test_there_are_exactly_the_23_maps() -> None:
    assert map_names() == list(TABLE)


@pytest.mark.parametrize("name", TABLE)
def test_sizes_of_the_map(name: str) -> None:
    row, options = find_map(name), Options()
    size = compute_sizes(row, options)
    most = max_reward_against(row.unit_types[row.n_agents :], options)
    bits = (row.unit_type_bits, row.shield_bits, most)
    blocks = (size.n_actions, size.enemy, size.ally, size.own, size.obs)
    states = (size.state_ally, size.state_enemy, size.state)
    assert (row.n_agents, row.n_enemies, row.limit, *bits, *blocks, *states) == TABLE[name]


def test_options_change_the_sizes_as_in_smac() -> None:
    def size(**options: bool) -> tuple[int, int]:
        spec = env_spec("8m", Options(**options))
        return spec.obs_shape[0], spec.state_dim

    assert size() == (80, 168)
    assert size(obs_pathing_grid=True) == (88, 168)
    assert size(obs_terrain_height=True) == (89, 168)
    assert size(obs_last_action=True) == (80 + 7 * 14, 168)
    assert size(obs_all_health=False) == (80 - 15, 168)
    assert size(obs_all_health=False, obs_own_health=False) == (80 - 16, 168)
    assert size(obs_own_health=False) == (80, 168)  # obs_all_health includes it
    assert size(obs_timestep_number=True) == (81, 168)
    assert size(obs_instead_of_state=True) == (80, 640)
    assert size(state_last_action=False) == (80, 168 - 8 * 14)
    assert size(state_timestep_number=True) == (80, 169)


def test_layout_blocks_fill_observation_and_state() -> None:
    for name in map_names():
        spec = env_spec(name, Options(obs_timestep_number=True, state_timestep_number=True))
        assert spec.layout is not None
        totals = {"obs": spec.obs_shape[0], "state": spec.state_dim, "actions": spec.n_actions}
        for part, total in totals.items():
            blocks = spec.layout[part].values()
            assert sum(block["count"] * block["size"] for block in blocks) == total


def test_agents_are_sorted_by_type_and_enemies_are_not() -> None:
    assert find_map("MMM").ally_types == ("marauder",) * 2 + ("marine",) * 7 + ("medivac",)
    assert find_map("MMM").enemy_types == ("marine",) * 7 + ("marauder",) * 2 + ("medivac",)
    assert find_map("bane_vs_bane").ally_types[:4] == ("baneling",) * 4
    assert find_map("bane_vs_bane").enemy_types[:20] == ("zergling",) * 20


def test_enemy_type_bits_of_stalkers_and_zealots_are_reversed() -> None:
    assert find_map("2s3z").type_bits == (0, 0, 1, 1, 1, 1, 1, 0, 0, 0)


def test_unknown_map_names_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"unknown SMAC map '8m_': did you mean 8m"):
        find_map("8m_")


@pytest.mark.parametrize("name", terrain.PATHABLE)
def test_walls_surround_exactly_the_pathable_cells(name: str) -> None:
    cells = terrain.pathable_cells(name)
    walls = terrain.wall_segments(cells)
    area = sum(ax * by - bx * ay for ax, ay, bx, by in walls.tolist()) / 2  # shoelace formula
    assert area == cells.sum() > 0
    assert not terrain.cells_near_walls(cells)[16, 11] or name != "field"


@pytest.mark.parametrize("name", terrain.PATHABLE)
def test_near_walls_of_a_cell_contain_every_wall_that_a_unit_touches_there(name: str) -> None:
    cells = terrain.pathable_cells(name)
    walls = terrain.wall_segments(cells)
    sets = terrain.walls_near(cells, walls)
    widest = max(u.separation_radius + u.speed / LOOPS_PER_SECOND for u in UNITS.values())
    assert widest < 1 < terrain.WALL_REACH
    start, end = walls[:, :2], walls[:, 2:]
    for point in np.argwhere(cells) + np.random.default_rng(0).random((int(cells.sum()), 2)):
        nearest = np.clip(point, np.minimum(start, end), np.maximum(start, end))
        touched = np.flatnonzero(np.hypot(*(nearest - point).T) < widest)
        column, row = point.astype(int)
        assert all(sets[column, row] >> w & 1 for w in touched)


def test_plateaus_are_higher_than_the_ground_and_ramps_lie_between() -> None:
    flat, ravine = terrain.cell_heights("field"), terrain.cell_heights("ravine")
    assert np.unique(flat).size == 2
    low, ramp, plateau, wall = (ravine[at] for at in ((16, 9), (5, 15), (16, 16), (16, 12)))
    assert low == flat[16, 16]
    assert wall < low < ramp < plateau < 1


def test_field_terrain_is_28_by_18_cells() -> None:
    assert np.argwhere(terrain.pathable_cells("field")).min(0).tolist() == [2, 7]
    assert np.argwhere(terrain.pathable_cells("field")).max(0).tolist() == [29, 24]


def test_sizes_need_no_numba() -> None:
    code = (
        "import sys; from rltrain.battles.data.maps import find_map; "
        "from rltrain.battles.options import Options, compute_sizes; "
        "assert compute_sizes(find_map('MMM2'), Options()).obs == 176; "
        "assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


def test_vector_environments_take_the_options_of_their_package_as_keywords() -> None:
    from rltrain.env.smac.vector import Smacv2VectorEnv, SmacVectorEnv

    for env, options in ((SmacVectorEnv, SmacOptions()), (Smacv2VectorEnv, Smacv2Options())):
        keywords = inspect.signature(env.__init__).parameters
        assert vars(options).items() <= {k: p.default for k, p in keywords.items()}.items()
    assert "conic_fov" not in inspect.signature(SmacVectorEnv.__init__).parameters


def test_options_are_those_of_the_smac_packages():
    smac, smacv2 = vars(SmacOptions()), Options().smacv2_options()
    assert list(smac)[-1] == "reward_scale_rate"
    assert set(smacv2) - set(smac) == {
        *("obs_own_pos", "use_unit_ranges", "min_attack_range", "conic_fov", "num_fov_actions"),
        *("prob_obs_enemy", "action_mask", "fully_observable"),
    }


@pytest.mark.parametrize("number", [float, np.float32])
def test_options_have_their_own_types_whatever_was_given(number):
    """Defect: a flag of 1.0 ended in NumPy's error, one of 1 compiled the engine again."""
    usual = vars(Options())
    made = vars(Options(**{name: number(value) for name, value in usual.items()}))
    assert made == usual
    assert [type(value) for value in made.values()] == [type(value) for value in usual.values()]
