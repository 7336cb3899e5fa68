"""StarCraftCapabilityEnv: configurations, rewards and names of SMACv2."""

from contextlib import nullcontext

import numpy as np
import pytest

from rltrain.battles import StarCraftCapabilityEnv

WEAKEST = {"zerg": 5 * 30, "protoss": 5 * 150, "terran": 5 * 45}


@pytest.mark.parametrize("race", WEAKEST)
@pytest.mark.parametrize("more", [0, 1])
def test_rewards_are_scaled_by_what_the_weakest_team_is_worth(race, more):
    """Defect: where that was 0 or less, rewards were infinite or had the other sign."""
    win = -50 - WEAKEST[race] + more
    expectation = nullcontext() if more else pytest.raises(ValueError, match="which is 0")
    with expectation:
        StarCraftCapabilityEnv(map_name=f"{race}_5_vs_5", reward_win=win)


TEAM = {"dist_type": "weighted_teams", "weights": (0.45, 0.45, 0.1), "observe": True}
TEAM |= {"unit_types": ("marine", "marauder", "medivac"), "exception_unit_types": ["medivac"]}
START = {"dist_type": "surrounded_and_reflect", "p": 0.5, "n_enemies": 5, "map_x": 32, "map_y": 32}
OWN_EXAMPLE = {"n_units": 5, "n_enemies": 5, "team_gen": TEAM, "start_positions": START}
"""Of the README of SMACv2."""


@pytest.mark.parametrize("name", ["10gen_terran", "terran_5_vs_5"])
@pytest.mark.parametrize("left_out", [(), ("n_enemies",), ("team_gen",), ("start_positions",)])
def test_the_configuration_of_smacv2s_example_is_taken(name, left_out):
    config = {key: value for key, value in OWN_EXAMPLE.items() if key not in left_out}
    env = StarCraftCapabilityEnv(
        name, capability_config=config, obs_starcraft=True, kill_unit_step_mul=2
    )
    assert env.map_name == "terran_5_vs_5"


@pytest.mark.parametrize("name", ["10gen_terran", "terran_5_vs_5"])
@pytest.mark.parametrize(
    ("config", "key"),
    [
        ([5, 5], "expected a mapping"),
        ({**OWN_EXAMPLE, "foo": 1}, "foo"),
        ({**OWN_EXAMPLE, "n_units": "5"}, r"n_units='5': expected 1, 2, 3, …$"),
        ({"start_positions": {"n_enemies": "5"}}, r"n_enemies='5': expected 1, 2, 3, …$"),
        ({**OWN_EXAMPLE, "team_gen": None}, "team_gen"),
        ({**OWN_EXAMPLE, "team_gen": {"weights": [1, 0, 0]}}, r"team_gen\.weights"),
        ({**OWN_EXAMPLE, "start_positions": {"n_enemies": 7}}, r"start_positions\.n_enemies"),
        ({**OWN_EXAMPLE, "start_positions": {"p": 0.9}}, r"start_positions\.p"),
    ],
)
def test_a_configuration_that_is_not_played_is_refused(name, config, key):
    """Defect: that beside the name of a scenario was ignored."""
    with pytest.raises(ValueError, match=rf"capability_config.*{key}"):
        StarCraftCapabilityEnv(name, capability_config=config)


def test_teams_that_contradict_the_name_are_refused():
    with pytest.raises(ValueError, match="n_enemies, n_units cannot be chosen"):
        StarCraftCapabilityEnv("terran_5_vs_5", capability_config={"n_units": 10, "n_enemies": 11})


@pytest.mark.parametrize("option", [{"obs_starcraft": False}, {"kill_unit_step_mul": 3}])
def test_options_of_smacv2_that_are_not_played_are_refused(option):
    with pytest.raises(ValueError, match=rf"{next(iter(option))}: only .* can be played here"):
        StarCraftCapabilityEnv("terran_5_vs_5", **option)


@pytest.mark.parametrize("scenario", ["terran_5_vs_5", "protoss_10_vs_11"])
@pytest.mark.parametrize("chosen", range(8))
def test_every_number_of_smacv2_has_a_name_of_its_own(scenario, chosen):
    flags = [
        *("obs_all_health", "obs_own_health", "obs_last_action", "obs_own_pos", "conic_fov"),
        *("obs_pathing_grid", "obs_terrain_height", "obs_timestep_number", "state_last_action"),
        "state_timestep_number",
    ]
    rng = np.random.default_rng(chosen)
    env = StarCraftCapabilityEnv(scenario, seed=1, **{f: bool(rng.integers(2)) for f in flags})
    obs, state = env.reset()
    names, of_state = env.get_obs_feature_names(), env.get_state_feature_names()
    assert (len(names), len(of_state)) == (obs[0].size, state.size)
    assert (len({*names}), len({*of_state})) == (len(names), len(of_state))
    own = dict(zip(names, obs[0], strict=True))
    every = dict(zip(of_state, state, strict=True))
    kinds = env.get_capabilities().reshape(env.n_agents, env.get_env_info()["cap_shape"])
    for bit in range(kinds.shape[1]):
        assert own[f"own_unit_type_bit_{bit}"] == kinds[0, bit]
        for i in range(env.n_agents):
            assert every[f"ally_unit_type_{i}_bit_{bit}"] == kinds[i, bit]
    assert (kinds.sum(1) == 1).all()
    east = {name: every[f"ally_relative_x_{name}"] for name in range(env.n_agents)}
    seen = next((i for i in east if own.get(f"ally_visible_{i}")), None)
    if seen is not None and not env.battles.options.conic_fov:
        away = (east[seen] - east[0]) * env.max_distance_x / env.unit_sight_range(0)
        assert own[f"ally_relative_x_{seen}"] == pytest.approx(away, abs=1e-5)


def test_a_state_of_observations_has_no_names():
    env = StarCraftCapabilityEnv("terran_5_vs_5", obs_instead_of_state=True)
    with pytest.raises(ValueError, match="get_obs_feature_names"):
        env.get_state_feature_names()
