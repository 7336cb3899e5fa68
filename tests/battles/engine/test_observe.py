"""Observations, availability and state, value by value."""

import numpy as np
import pytest

from rltrain.battles.data.maps import find_map
from rltrain.battles.engine.env_step import write_frames
from rltrain.battles.engine.tables import build_scene, build_view
from rltrain.battles.engine.world import U, build_frame, build_world
from rltrain.battles.options import Options, compute_sizes
from tests.battles.conftest import ATTACK, EAST, NORTH, STOP, actions, place


def test_first_frame_of_3m_by_hand(battle) -> None:
    b = battle()
    obs = b.obs[0, 0]
    assert obs[:4].tolist() == [1, 1, 1, 1]
    assert (obs[4:19] == 0).all()  # enemies out of sight
    beside = 0.75 - 252 / 4096
    step = beside / 9
    assert obs[19:24].tolist() == pytest.approx([1, step, 0, step, 1])
    assert obs[24:29].tolist() == pytest.approx([1, step * 2**0.5, step, step, 1])
    assert obs[29] == 1
    place_x, place_y = (9 - 16) / 28, -beside / 28
    assert b.state[0, :4].tolist() == pytest.approx([1, 0, place_x, place_y])
    x, y = b.world.unit[0, [U.X, U.Y], 3]
    assert 22.8 < x < 23.6  # one loop on their way
    assert b.state[0, 12:15].tolist() == pytest.approx([1, (x - 16) / 28, (y - 16) / 28])
    assert (b.state[0, 21:] == 0).all()  # no last action after a reset


def test_distance_nine_is_invisible_and_six_is_attackable(battle) -> None:
    b = place(battle(), {0: (10.0, 16.0), 3: (19.0, 16.0), 4: (16.0, 16.0), 5: (16.25, 16.0)})
    assert (b.obs[0, 0, 4:9] == 0).all()
    assert b.obs[0, 0, 9:14].tolist() == pytest.approx([1, 6 / 9, 6 / 9, 0, 1])
    assert b.obs[0, 0, 14] == 0
    assert b.obs[0, 0, 15] == pytest.approx(6.25 / 9)
    assert b.avail[0, 0].tolist() == [0, 1, 1, 1, 1, 1, 0, 1, 0]


def test_dead_agent_is_all_zero_and_has_only_no_op(battle) -> None:
    b = place(battle(), {0: (14.0, 16.0), 2: (14.0, 20.0), 3: (19.0, 16.0)})
    b.step(actions(b))
    assert (b.obs[0, 1] == 0).all()
    assert b.avail[0, 1].tolist() == [1] + [0] * 8
    assert (b.state[0, 4:8] == 0).all()
    assert b.state[0, 21:48].reshape(3, 9).argmax(1).tolist() == [STOP, 0, STOP]
    assert (b.state[0, 12 + 3 : 21] == 0).all()


def test_no_op_is_illegal_for_living_agents(battle) -> None:
    assert (battle().avail[0, :, 0] == 0).all()


def test_cooldown_is_divided_by_smacs_constant_and_not_clipped(battle) -> None:
    b = battle()
    b.world.unit[0, U.COOLDOWN, 0] = 20.0
    b.world.unit[0, U.COOLDOWN, 1] = -1.0
    b.refresh()
    assert b.state[0, 1] == pytest.approx(21 / 15)  # the game counts the last loop, as recorded
    assert b.state[0, 5] == 0


def test_health_is_a_fraction(battle) -> None:
    b = place(battle(), {0: (10.0, 16.0), 1: (12.0, 16.0), 3: (15.0, 16.0)})
    b.world.unit[0, U.HEALTH, [0, 1, 3]] = 9.0, 18.0, 27.0
    b.refresh()
    assert b.obs[0, 0, [8, 23, 29]].tolist() == pytest.approx([0.6, 0.4, 0.2])


def test_last_actions_of_visible_allies(battle) -> None:
    b = battle(obs_last_action=True)
    b.step(np.array([[NORTH, STOP, EAST]]))
    first = b.obs[0, 0, 4 + 15 :]
    assert first[5 : 5 + 9].argmax() == STOP
    assert first[14 + 5 : 14 + 14].argmax() == EAST
    assert b.obs.shape[-1] == 30 + 2 * 9


def test_pathing_grid_and_terrain_height_around_the_agent(battle) -> None:
    b = battle(obs_pathing_grid=True, obs_terrain_height=True)
    place(b, {0: (3.5, 22.5), 3: (29.0, 8.0)})
    grid, height = b.obs[0, 0, 4:12], b.obs[0, 0, 12:21]
    # N, S, E, W at 4 cells; NE, SW, SE, NW at 2 cells: row 26 is blocked, column -1 is outside
    assert grid.tolist() == [0, 1, 1, 1, 1, 0, 1, 0]
    levels = b.scene.height[3, 22], b.scene.height[3, 26]
    assert height[[8, 1, 0]].tolist() == pytest.approx([levels[0], levels[0], levels[1]])
    assert height[3] == 1


def test_timestep_is_the_last_feature_also_of_dead_agents(battle) -> None:
    b = battle(obs_timestep_number=True, state_timestep_number=True)
    place(b, {0: (14.0, 16.0), 3: (29.0, 8.0)})
    b.step(actions(b))
    assert b.obs[0, :, -1].tolist() == pytest.approx([1 / 60] * 3)
    assert b.state[0, -1] == pytest.approx(1 / 60)


def test_observations_instead_of_state(battle) -> None:
    b = battle(obs_instead_of_state=True)
    assert (b.state[0] == b.obs[0].ravel()).all()


@pytest.mark.parametrize(("all_health", "own_health"), [(False, True), (False, False)])
def test_health_can_be_hidden(battle, all_health: bool, own_health: bool) -> None:
    b = battle(obs_all_health=all_health, obs_own_health=own_health)
    assert b.obs.shape[-1] == 4 + 3 * 4 + 2 * 4 + own_health
    assert b.obs[0, 0, -1] == pytest.approx(
        1 if own_health else (0.75 - 252 / 4096) / 9
    )  # or the last ally


def test_shields_and_reversed_enemy_type_bits_of_2s3z() -> None:
    row, options = find_map("2s3z"), Options()
    scene, sizes = build_scene(row, options), compute_sizes(row, options)
    world, frame = build_world(scene, 1), build_frame(scene, sizes, 1)
    unit = world.unit[0]
    unit[U.X], unit[U.Y] = np.arange(10) * 0.5 + 10, 16
    unit[U.HEALTH], unit[U.SHIELD] = scene.param[0, 9], scene.param[0, 10]
    unit[U.SHIELD, 5] = 20.0
    write_frames(scene, build_view(row, options, 28), world, frame)
    enemy = frame.obs[0, 0, 4:12]
    assert enemy[4:].tolist() == [1, 0.25, 0, 1]  # health, shield, zealot bit, stalker bit
    assert frame.obs[0, 0, 44:52][4:].tolist() == [1, 1, 1, 0]
    assert frame.obs[0, 0, -4:].tolist() == [1, 1, 1, 0]
    state = frame.state[0]
    assert (state[4:7].tolist(), state[35 + 3 : 35 + 6].tolist()) == ([1, 1, 0], [0.25, 0, 1])


def test_availability_of_attack_needs_no_cooldown_and_no_weapon_range(battle) -> None:
    b = place(battle(), {0: (10.0, 16.0), 3: (15.95, 16.0)})
    b.world.unit[0, U.COOLDOWN, 0] = 10.0
    b.refresh()
    assert b.avail[0, 0, ATTACK] == 1
