"""What a rewrite of SMAC easily gets wrong in its interface: numbering, masks, features, rewards,
ends of episodes. What it gets wrong in battle is in ``test_traps_of_battle``."""

import numpy as np
import pytest
import torch

from rltrain.battles.data.maps import map_names
from rltrain.battles.engine.world import Outcome, U
from rltrain.env.smac import StarCraft2Env
from tests.battles.conftest import ATTACK, STOP, WEST, actions, enlist, env_of, place
from tests.marks import slow_except


def test_recovered_shields_give_reward_by_absolute_value(battle) -> None:
    b = place(battle("2s3z", reward_scale=False), {0: (5.0, 10.0), 7: (28.0, 22.0)})
    b.world.unit[0, U.SHIELD] = 0
    b.world.unit[0, U.SHIELD, 7] = 20
    b.step(actions(b))
    assert b.world.unit[0, U.SHIELD, 7] == 21
    assert b.reward[0] == pytest.approx(1.0)


def test_time_out_is_a_finished_battle_that_was_not_won() -> None:
    env = env_of(reward_defeat=-7.0)
    place(env.battles, {0: (28.0, 24.0), 3: (5.0, 8.0)})  # who ran away is not hunted
    env.battles.world.clock[0] = 59
    reward, terminated, info = env.step([STOP, 0, 0])
    assert (reward, terminated) == (0.0, True)
    assert info == {"battle_won": False, "dead_allies": 2, "dead_enemies": 2}
    stats = env.get_stats()
    assert [stats[key] for key in ("battles_game", "timeouts", "battles_draw")] == [1, 1, 1]
    assert stats["win_rate"] == 0.0


def test_win_at_the_time_limit_is_reported_as_a_win_only() -> None:
    env = env_of(continuing_episode=True)
    place(env.battles, {0: (14.0, 16.0), 3: (19.0, 16.0)})
    env.battles.world.unit[0, U.HEALTH, 3] = 7
    env.battles.world.clock[0] = 58
    infos = []
    while not env.battles.ended[0]:
        infos.append(env.step([ATTACK, 0, 0])[2])
    assert [info["battle_won"] for info in infos] == [False, True]
    assert "episode_limit" not in infos[-1]
    assert (env.battles_won, env.timeouts) == (1, 0)
    assert not env.step([0, 0, 0])[2]["battle_won"]  # reported once


def test_win_gives_no_reward_for_a_surviving_medivac(battle) -> None:
    b = battle("MMM", reward_scale=False)
    place(b, {2: (14.0, 16.0), 10: (18.0, 16.0), 19: (28.0, 8.0)})
    b.world.unit[0, U.HEALTH, 10] = 1
    b.step(actions(b, a2=ATTACK))
    assert (b.world.outcome[0], b.world.unit[0, U.HEALTH, 19]) == (Outcome.WIN, 150)
    assert b.reward[0] == pytest.approx(1 + 10 + 200)


def test_max_reward_does_not_grow_with_resets() -> None:
    env = env_of("2s3z")
    highest = 5 * 10 + 200 + 2 * 160 + 3 * 150
    for _ in range(3):
        assert env.max_reward == highest
        assert env.battles.rule.factor == pytest.approx(20 / highest)
        env.step([STOP] * 5)
        env.reset()  # also in the middle of the first episode


def test_overkill_gives_reward_for_the_remaining_health_only(battle) -> None:
    b = place(battle(reward_scale=False), {0: (14.0, 16.0), 3: (19.0, 16.0), 4: (29.0, 8.0)})
    b.world.unit[0, U.HEALTH, 3] = 0.5  # of the six points of the hit
    b.step(actions(b, a0=ATTACK))
    assert b.world.unit[0, U.HEALTH, 3] == 0
    assert b.reward[0] == pytest.approx(0.5 + 10)


def test_sight_and_range_are_from_center_to_center_whatever_the_radii(battle) -> None:
    b = battle("2c_vs_64zg")
    place(
        b, {0: (10.0, 16.0), 2: (19.0, 16.0), 3: (18.99, 16.0), 4: (16.0, 16.0), 5: (16.01, 16.0)}
    )
    assert [b.obs[0, 0, 4 + 5 * e : 9 + 5 * e].any() for e in range(4)] == [False, True, True, True]
    assert b.avail[0, 0, ATTACK : ATTACK + 4].tolist() == [0, 0, 1, 0]


def test_healing_is_available_without_injured_allies_energy_or_enemies(battle) -> None:
    b = battle("MMM")
    place(
        b, {2: (10.0, 16.0), 3: (19.01, 16.0), 8: (19.0, 16.0), 9: (13.0, 16.0), 11: (12.0, 16.0)}
    )
    b.world.unit[0, U.ENERGY, 9] = 0
    b.refresh()
    assert np.flatnonzero(b.avail[0, 9, ATTACK:]).tolist() == [2, 8]


def test_agents_are_numbered_by_type_then_x_then_y_and_enemies_as_created(battle) -> None:
    b = battle("MMM")
    x, y = b.world.unit[0, U.X].tolist(), b.world.unit[0, U.Y].tolist()
    order = ("marauder", "marine", "medivac")
    types = [order.index(name) for name in b.map_data.ally_types]
    rows = list(zip(types, x[:10], y[:10], strict=True))
    assert rows == sorted(rows)
    assert rows != sorted(rows, key=lambda row: (row[0], row[2], row[1]))
    marines = list(zip(x[10:17], y[10:17], strict=True))
    assert marines != sorted(marines)


def test_positions_off_the_map_are_not_truncated_to_cell_zero() -> None:
    env = env_of(rules="smaclite")  # its field reaches to the edge
    place(env.battles, {0: (1.0, 16.0), 1: (0.9, 12.0), 3: (29.0, 9.0)})
    assert [env.get_avail_agent_actions(i)[WEST] for i in (0, 1)] == [1, 0]


def test_reset_clears_last_actions() -> None:
    env = env_of()
    env.step([STOP, STOP, WEST])
    assert env.get_state()[21:].sum() == 3
    env.reset()
    assert not env.get_state()[21:].any()
    assert not env.last_action.any()


@pytest.mark.parametrize(
    ("map_name", "agent", "shown"),
    [
        ("MMM", 0, 41 / 25), ("MMM", 2, 41 / 15), ("2s3z", 0, 41 / 35), ("2s3z", 2, 41 / 22),
        ("1c3s5z", 0, 41 / 24), ("6h_vs_8z", 0, 41 / 10), ("bane_vs_bane", 0, 41),
        ("bane_vs_bane", 4, 41 / 11), ("MMM", 9, 0.25),  # a medivac: a quarter of its energy
    ],
)  # fmt: skip
def test_cooldown_in_loops_over_smacs_odd_divisors(battle, map_name, agent, shown) -> None:
    b = battle(map_name)
    b.world.unit[0, U.COOLDOWN, agent] = 40
    b.refresh()
    assert b.state[0, agent * b.sizes.state_ally + 1] == pytest.approx(shown)


def test_own_place_of_smacv2_is_from_the_corner_and_in_the_state_from_the_center(scenario) -> None:
    b = scenario("protoss_1_vs_1")
    enlist(b, "zealot", "zealot")
    place(b, {0: (8.0, 24.0), 1: (12.0, 24.0)})
    assert b.obs[0, 0, -5:-3].tolist() == [0.25, 0.75]
    assert b.obs[0, 0, 6] == pytest.approx(4 / 9)
    assert b.state[0, 2:4].tolist() == pytest.approx([-8 / 28, 8 / 28])


def test_type_bits_of_smacv2_are_not_in_the_order_of_the_agents(scenario) -> None:
    b = scenario("terran_3_vs_3")
    enlist(b, "marauder", "marine", "medivac", "marauder", "marine", "medivac")
    assert b.obs[0, :, -3:].argmax(1).tolist() == [1, 0, 2]


@pytest.mark.parametrize("map_name", ["3m", "2s3z"])
def test_observations_with_a_timestep_have_the_announced_size(map_name: str) -> None:
    env = env_of(map_name, obs_timestep_number=True)
    lengths = {len(obs) for obs in env.get_obs()}
    assert lengths == {env.get_obs_size()} == {env.get_env_info()["obs_shape"]}


@pytest.mark.parametrize("map_name", slow_except(("3m", "2s3z", "MMM2", "corridor"), map_names()))
def test_env_info_before_the_first_reset_is_that_after_it(map_name: str) -> None:
    env = StarCraft2Env(map_name=map_name, seed=0)
    info = env.get_env_info()
    obs, state = env.reset()
    assert info == env.get_env_info()
    assert (len(obs), len(obs[0]), len(state)) == (
        info["n_agents"], info["obs_shape"], info["state_shape"],
    )  # fmt: skip


@pytest.mark.parametrize("as_actions", [torch.tensor, np.array, lambda row: map(np.int16, row)])
def test_actions_may_be_tensors_and_numpy_integers(as_actions) -> None:
    env = env_of()
    assert len(env.step(as_actions([2, 3, 4]))) == 3
    assert env.last_action.argmax(1).tolist() == [2, 3, 4]
    with pytest.raises(AssertionError, match="agent 1 chose 8"):
        env.step(as_actions([1, 8, 1]))


def test_dtypes_of_observations_masks_and_rewards() -> None:
    env = env_of()
    reward, *_ = env.step([STOP] * 3)
    arrays = [*env.get_obs(), env.get_state(), env.battles.world.unit]
    assert {array.dtype for array in arrays} == {np.dtype(np.float32)}
    assert {type(bit) for bit in env.get_avail_agent_actions(0)} == {int}
    assert type(reward) is float


def test_last_step_has_the_final_frame_and_the_next_one_the_new_battle(make) -> None:
    env = make("3m")
    fresh = env.obs.copy(), env.state.copy(), env.avail_actions.copy()
    while not env.last[0]:
        env.step(np.where(env.avail_actions[:, :, 0] == 1, 0, STOP))
    assert not env.obs.any()  # of the dead
    assert env.avail_actions.argmax(-1).tolist() == [[0, 0, 0]]
    assert not env.state[0, :12].any()
    assert env.state[0, [12, 15, 18]].tolist() == [1, 1, 1]  # three unhurt enemies
    env.step(np.zeros((1, 3), np.int64))
    shown = env.obs, env.state, env.avail_actions
    assert all((one == other).all() for one, other in zip(shown, fresh, strict=True))
