"""SMACv2 as an environment: how its battles go, what they pay, what they remember."""

from typing import Any

import numpy as np
import pytest
from pettingzoo.test import parallel_api_test

from rltrain.battles.engine import battles as battles_module
from rltrain.battles.engine.field_of_view import IN_RANGE
from rltrain.battles.engine.world import NO_ONE, M, Order, P, U
from rltrain.env.smac import Smacv2VectorEnv, StarCraftCapabilityEnv, parallel_env
from tests.battles.conftest import NORTH, STOP, actions, enlist, place, random_legal, seeds, steps
from tests.env.smac.test_vector import play
from tests.marks import each_once

PUBLISHED: dict[str, Any] = {
    **dict.fromkeys(("obs_own_pos", "use_unit_ranges", "action_mask"), True),
    **dict.fromkeys(("conic_fov", "fully_observable", "zero_enemy_block"), False),
    **{"fixed_max_reward": False, "num_fov_actions": 12, "min_attack_range": 2.0},
    "prob_obs_enemy": 1.0,
}
LIMITED = {"conic_fov": True, "prob_obs_enemy": 0.5, "action_mask": False}


def make(map_name: str = "protoss_5_vs_5", n_envs: int = 2, **options: Any) -> Smacv2VectorEnv:
    env = Smacv2VectorEnv(map_name=map_name, n_envs=n_envs, **(PUBLISHED | options))
    env.reset(seeds)
    return env


def test_shapes_follow_the_spec() -> None:
    env = make("terran_10_vs_11", 3)
    assert env.obs.shape == (3, 10, *env.spec.obs_shape) == (3, 10, 170)
    assert env.state.shape == (3, env.spec.state_dim) == (3, 306)
    assert env.avail_actions.shape == (3, 10, env.spec.n_actions) == (3, 10, 17)
    assert (env.spec.max_steps, env.spec.reports_win, env.spec.n_rewards) == (200, True, 1)


def test_teams_are_drawn_for_every_episode() -> None:
    env = make(n_envs=1)
    teams = set()
    for _ in range(6):
        teams.add(env.battles.world.kind[0].tobytes())
        env.battles.world.clock[0] = 199
        play(env, 2)
    assert len(teams) > 3


SIGHTS: list[dict[str, Any]] = [{"action_mask": False}, {"conic_fov": True}, LIMITED]


@each_once(options=SIGHTS, name=["closest", "heuristic"])
def test_scripted_policies_turn_and_do_not_shoot_out_of_range(name: str, options: Any) -> None:
    env = make("terran_5_vs_5", 8, **options)
    decide, first = env.scripted(name), env.battles.shown.first_attack
    attacks = turns = 0
    for _ in range(60):
        action = decide()
        visible = env.battles.frame.visible
        healers = env.battles.scene.param[:, P.ENERGY, :5] > 0
        for e, i in np.argwhere((action >= first) & ~env.last[:, None]):
            k = action[e, i] - first
            target = k if healers[e, i] else env.battles.world.enemies[e, k]
            assert visible[e, i, target] & IN_RANGE
        attacks += (action >= first).sum()
        turns += ((action >= 6) & (action < first)).sum()
        env.step(action)
    assert attacks > 300
    assert (turns > 50) == env.battles.options.conic_fov


@pytest.mark.parametrize("options", SIGHTS)
def test_heuristic_ai_ignores_cone_and_mask(options: Any) -> None:
    env = StarCraftCapabilityEnv("protoss_5_vs_5", seed=3, heuristic_ai=True, **options)
    total = 0.0
    for _ in range(5):
        env.reset()
        terminated = False
        while not terminated:
            reward, terminated, _ = env.step([STOP] * 5)
            total += reward
    assert total / 5 > 10


def test_drawn_teams_have_no_other_rules() -> None:
    with pytest.raises(ValueError, match=r"'terran_5_vs_5' cannot be played with rules=smaclite"):
        StarCraftCapabilityEnv("terran_5_vs_5", rules="smaclite")


def test_enemy_chases_one_agent_until_it_is_dead(scenario) -> None:
    b = scenario("protoss_3_vs_1")
    enlist(b, "stalker", "stalker", "zealot", "zealot")
    place(b, {0: (10.0, 10.0), 1: (16.0, 16.0), 2: (8.0, 26.0), 3: (20.0, 16.0)})
    mark, unit = b.world.mark[0], b.world.unit[0]
    assert (mark[M.ORDER, 3], mark[M.TARGET, 3]) == (Order.CHASE, NO_ONE)
    b.step(actions(b))
    assert mark[M.TARGET, 3] == 1
    unit[U.X, 0], unit[U.Y, 0] = unit[U.X, 3], unit[U.Y, 3] - 2  # nearer now
    b.step(actions(b, a1=NORTH))
    assert mark[M.TARGET, 3] == 1
    unit[U.HEALTH, 1] = 0
    b.refresh()
    b.step(actions(b))
    assert mark[M.TARGET, 3] == 0


def test_enemy_sent_to_an_agent_that_it_cannot_hit_waits_for_others(scenario) -> None:
    b = scenario("terran_2_vs_1")
    enlist(b, "marauder", "medivac", "marauder")
    unit, mark = b.world.unit[0], b.world.mark[0]
    place(b, {0: (8.0, 16.0), 1: (18.0, 16.0), 2: (22.0, 16.0)})
    b.step(actions(b))
    assert (mark[M.TARGET, 2], unit[U.X, 2]) == (NO_ONE, 22)
    place(b, {0: (15.0, 16.0), 1: (18.0, 16.0), 2: (22.0, 16.0)})
    b.step(actions(b))
    assert mark[M.TARGET, 2] == 0
    assert unit[U.HEALTH, 0] < 125
    place(b, {0: (8.0, 16.0), 1: (8.0, 18.0), 2: (22.0, 16.0)})
    mark[M.TARGET, 2] = NO_ONE
    b.step(actions(b))
    assert (mark[M.TARGET, 2], mark[M.ORDER, 2]) == (0, Order.CHASE)


def test_enemy_healers_follow_their_team_and_heal(scenario) -> None:
    b = scenario("terran_1_vs_2")
    enlist(b, "marine", "marauder", "medivac")
    place(b, {0: (8.0, 16.0), 1: (24.0, 16.0), 2: (26.0, 18.0)})
    unit = b.world.unit[0]
    assert b.world.mark[0, M.ORDER, 2] == Order.HEAL_MOVE
    unit[U.HEALTH, 1] = 60
    steps(b, 4)
    assert unit[U.HEALTH, 1] > 60
    unit[U.HEALTH, 1] = 125
    steps(b, 4)
    assert unit[U.X, 2] < 22


@pytest.mark.parametrize(("fallen", "won"), [((3, 4), True), ((0, 1), False)])
def test_team_with_only_healers_has_lost(scenario, fallen, won: bool) -> None:
    b = scenario("terran_3_vs_3")
    enlist(b, "marauder", "marine", "medivac", "marine", "marine", "medivac")
    b.world.unit[0, U.HEALTH, list(fallen)] = 0
    b.refresh()
    b.step(actions(b))
    assert b.ended[0]
    assert b.results([0])[0]["win"] == won


def flawless(env: StarCraftCapabilityEnv) -> float:
    """The return of a battle in which one hit kills and no enemy hurts."""
    env.reset()
    agents, total, over = env.n_agents, 0.0, False
    env.battles.scene.damage[0, :agents] = 1000
    env.battles.scene.damage[0, agents:] = 0
    while not over:
        reward, over, _ = env.step([1] * agents)
        total += reward
    assert env.battles_won > 0
    return total


def test_flawless_win_returns_twenty_whatever_the_team() -> None:
    env = StarCraftCapabilityEnv("protoss_5_vs_5", seed=1, heuristic_ai=True)
    highest = set()
    for _ in range(6):
        assert flawless(env) == pytest.approx(20)
        highest.add(env.max_reward)
    assert len(highest) > 2


def test_fixed_scale_is_that_of_the_first_team_as_published() -> None:
    env = StarCraftCapabilityEnv("protoss_5_vs_5", seed=1, heuristic_ai=True, fixed_max_reward=True)
    assert flawless(env) == pytest.approx(20)
    first = env.max_reward
    for _ in range(3):
        assert flawless(env) == pytest.approx(20 * env.max_reward / first)


def test_vector_env_fixes_the_reward_scale_again_at_every_reset() -> None:
    env = make(n_envs=1, fixed_max_reward=True)
    first = env.battles.world.factor[0]
    env.battles.reset({0: 5})
    assert env.battles.world.factor[0] == first
    env.reset(lambda e, k: 5)
    assert env.battles.world.factor[0] == pytest.approx(20 / env.battles.max_reward(0))


def test_recovering_enemies_give_no_reward(scenario) -> None:
    b = scenario("protoss_1_vs_1")
    enlist(b, "stalker", "stalker")
    place(b, {0: (4.0, 4.0), 1: (28.0, 28.0)})
    b.world.unit[0, U.SHIELD, 1] = 10
    b.step(actions(b))
    assert b.world.unit[0, U.SHIELD, 1] > 10
    assert b.reward[0] == 0


def test_threads_do_not_change_results(monkeypatch) -> None:
    serial = play(make("zerg_5_vs_5", 6, **LIMITED), 60)
    monkeypatch.setattr(battles_module, "UNITS_PER_CALL", 0)
    assert play(make("zerg_5_vs_5", 6, n_threads=2, **LIMITED), 60) == serial


@each_once(name=["terran_10_vs_11", "protoss_5_vs_5", "zerg_10_vs_10"], options=[{}, LIMITED])
def test_random_battles_stay_in_bounds(name: str, options: Any) -> None:
    env, rng = make(name, 32, **options), np.random.default_rng(0)
    world, param = env.battles.world, env.battles.scene.param
    episodes = 0
    for _ in range(150):
        reward, _ = env.step(random_legal(env.avail_actions, rng))
        assert np.isfinite(env.obs).all()
        assert np.isfinite(env.state).all()
        assert (reward >= 0).all()
        for row, most in ((U.HEALTH, P.HEALTH), (U.SHIELD, P.SHIELD)):
            assert (world.unit[:, row] >= 0).all()
            assert (world.unit[:, row] <= param[:, most]).all()
        assert (world.unit[:, [U.X, U.Y]] > 0).all()
        assert (world.unit[:, [U.X, U.Y]] < 32).all()
        episodes += int(env.last.sum())
    assert episodes > 32


def test_smacs_methods_on_a_scenario() -> None:
    env = StarCraftCapabilityEnv("zerg_5_vs_5", seed=0, conic_fov=True)
    info = env.get_env_info()
    assert (info["n_actions"], info["obs_shape"], info["state_shape"]) == (23, 84, 190)
    assert len(info["agent_features"]) == env.get_ally_num_attributes() == 9
    env.reset()
    types = env.get_unit_types()
    assert types[:5] == sorted(types[:5])
    assert set(types[5:]) <= {105, 107, 9}
    assert env.unit_sight_range(0) in (8, 9)
    assert env.get_state_dict()["allies"].shape == (5, 9)


def test_smacv2_names_of_scenarios_are_accepted() -> None:
    config = {
        "n_units": 20,
        "n_enemies": 23,
        "team_gen": {"dist_type": "weighted_teams", "weights": [0.45, 0.45, 0.1], "observe": True},
        "start_positions": {"dist_type": "surrounded_and_reflect", "p": 0.5, "map_x": 32},
    }
    env = StarCraftCapabilityEnv("10gen_protoss", config)
    assert (env.map_name, env.get_obs_size()) == ("protoss_20_vs_23", 389)
    assert StarCraftCapabilityEnv("10gen_zerg").map_name == "zerg_10_vs_10"


@pytest.mark.parametrize(
    "config", [{"health": {}}, {"team_gen": {"weights": [1, 0, 0]}}, {"start_positions": {"p": 1}}]
)
def test_other_capabilities_are_refused(config: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="cannot be chosen here"):
        StarCraftCapabilityEnv("10gen_terran", config)


def test_scenario_as_a_parallel_env() -> None:
    env = parallel_env(map_name="terran_5_vs_5")
    assert env.possible_agents[0] == "agent_0"
    parallel_api_test(env, num_cycles=50)


def test_smac_environments_refuse_scenarios_and_the_other_way_round() -> None:
    with pytest.raises(ValueError, match=r"'3m' is a map of SMAC, .*type env=smac"):
        Smacv2VectorEnv(map_name="3m", n_envs=1, **PUBLISHED)
