"""A battle as numbers: its enemies have the numbers that actions aim at."""

import numpy as np
import pytest

from rltrain.battles.engine.world import Order
from rltrain.env.smac import Smacv2VectorEnv, SmacVectorEnv


@pytest.fixture(scope="module")
def battle():
    env = SmacVectorEnv(map_name="2s3z", n_envs=1)
    env.reset(lambda e, k: 5)
    return env


def test_attacks_aim_at_the_enemy_of_that_number(battle):
    world, *_ = battle.drawing(0)
    for _ in range(20):
        can = battle.avail_actions[0]
        action = np.where(can[:, -1], can.shape[1] - 1, can.argmax(1))
        action = np.where(can[:, 4], np.where(can[:, -1], action, 4), action)
        battle.step(action[None])
        aims = np.flatnonzero(action >= world["first_target"])
        if len(aims):
            break
    columns = battle.drawing(0).columns
    assert len(aims)
    assert (columns["target"][aims] == len(can) + action[aims] - world["first_target"]).all()
    assert (columns["order"][aims] == Order.ATTACK).all()


def test_agents_see_what_their_observations_show(battle):
    drawn, layout = battle.drawing(0), battle.spec.layout["obs"]["enemies"]
    blocks = battle.obs[0, :, layout["start"] :][:, : layout["count"] * layout["size"]]
    shown = blocks.reshape(5, layout["count"], layout["size"]).any(-1)
    assert np.array_equal(drawn.columns["sees"][:, 5:], shown)
    assert drawn.columns["x"].shape == (10,)
    assert not drawn.columns["sees"][np.arange(5), np.arange(5)].any()


def test_cones_of_smacv2_are_drawn():
    env = Smacv2VectorEnv(map_name="terran_5_vs_5", n_envs=1, conic_fov=True)
    env.reset(lambda e, k: 5)
    world, looks, columns = env.drawing(0)
    assert 0 < world["cone"] < np.pi
    assert len(world["actions"]) == world["first_target"] > 6
    assert columns["facing"].shape == (len(looks),) == (10,)
