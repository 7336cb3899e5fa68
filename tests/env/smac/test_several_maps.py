"""Battles of several maps side by side."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from rltrain.battles.data.map_file import SHIPPED
from rltrain.battles.data.maps import find_map
from rltrain.battles.native import NativeBattles
from rltrain.battles.options import Options
from rltrain.common.seeding import SeedsOfTests
from rltrain.env.smac import Smacv2VectorEnv, SmacVectorEnv
from tests.battles.conftest import legal, seeds
from tests.helpers import require_same_steps

MAPS = ["3m", "2s3z", "5m_vs_6m"]


def made(n_envs=4, maps=MAPS, seeds=seeds, **options):
    env = SmacVectorEnv(map_name="3m", maps=maps, n_envs=n_envs, **options)
    env.reset(seeds)
    return env


def play(env, n_episodes, rng=None):
    """Map and result of the next episodes."""
    rng, ended = rng or np.random.default_rng(0), []
    while len(ended) < n_episodes:
        env.step(legal(env, rng))
        ended += [(env.infos[e]["map"], env.infos[e]["win"]) for e in np.flatnonzero(env.last)]
    return ended


def test_every_battle_is_that_of_its_map_in_the_larger_layout():
    env, rng = made(n_envs=1), np.random.default_rng(0)
    layout = env.spec.layout
    for _ in range(6):
        name = env.battles.names[env.battles.which[0]]
        own = NativeBattles(
            map_data=replace(find_map(name), for_any=True), n_envs=1, options=Options()
        )
        own.start({0: seeds(0, int(env.episode[0]))})
        n, m = own.map_data.n_agents, own.map_data.n_enemies
        assert own.sizes.n_actions == 6 + m
        while True:
            obs = own.obs[0]
            rows = obs[:, 4 : 4 + 16 * (m + n - 1)].reshape(n, m + n - 1, 16)
            shown = env.obs[0, :n]
            block = layout["obs"]["enemies"]
            wide = shown[:, block["start"] :][:, : block["count"] * 16].reshape(n, -1, 16)
            assert np.array_equal(wide[:, :m], rows[:, :m])
            assert not wide[:, m:].any()
            block = layout["obs"]["allies"]
            wide = shown[:, block["start"] :][:, : block["count"] * 16].reshape(n, -1, 16)
            assert np.array_equal(wide[:, : n - 1], rows[:, m:])
            assert np.array_equal(shown[:, layout["obs"]["own"]["start"] :], obs[:, -12:])
            assert not env.obs[0, n:].any()
            assert np.array_equal(env.avail_actions[0, :n, : 6 + m], own.avail[0])
            assert (env.avail_actions[0, n:] == np.eye(1, env.spec.n_actions)).all()
            assert np.array_equal(env.state[0, : 15 * n], own.state[0, : 15 * n])
            if own.ended[0]:
                break
            action = legal(env, rng)
            reward, _ = env.step(action)
            own.step(action[:, :n])
            assert reward[0, 0] == np.float32(own.reward[0])
        assert env.last[0]
        assert env.infos[0]["map"] == name
        env.step(legal(env, rng))


@pytest.mark.parametrize("maps", [["8m", "3m"], ["3m", "MMM"], ["5m_vs_6m", "2s3z", "8m"]])
@pytest.mark.parametrize("options", [{}, {"obs_last_action": True, "obs_timestep_number": True}])
def test_observations_as_state_are_those_of_all_agents(maps, options):
    env, rng = made(maps=maps, obs_instead_of_state=True, **options), np.random.default_rng(0)
    for _ in range(15):
        assert np.array_equal(env.state, env.obs.reshape(env.n_envs, -1))
        env.step(legal(env, rng))


def test_rewards_after_a_reset_do_not_depend_on_battles_before_it():
    maps = ["terran_5_vs_5", "protoss_5_vs_5", "zerg_5_vs_5"]
    fresh, used = (
        Smacv2VectorEnv(map_name=maps[0], maps=maps, n_envs=2, fixed_max_reward=True)
        for _ in range(2)
    )
    used.reset(lambda e, k: 1000 + 10 * e + k)
    play(used, 9)
    rewards = []
    for env in (used, fresh):
        env.reset(seeds)
        rng = np.random.default_rng(0)
        rewards.append([env.step(legal(env, rng))[0] for _ in range(150)])
    assert np.array_equal(*rewards)


def test_the_map_of_an_episode_follows_from_its_seed():
    one, four = made(n_envs=1), made(n_envs=4)
    assert [m for m, _ in play(one, 10)] != [
        m for m, _ in play(made(1, seeds=lambda e, k: k + 50), 10)
    ]
    for e in range(4):
        alone = made(1, seeds=lambda _, k, e=e: seeds(e, k))
        assert alone.battles.which[0] == four.battles.which[e]


def test_tests_take_all_maps_in_turn():
    env = made(n_envs=2, seeds=SeedsOfTests(0, 2))
    assert env.battles.which.tolist() == [0, 1]
    counts = Counter()
    numbers = [0, 1]
    rng = np.random.default_rng(0)
    while len(counts) < 3 or sum(counts.values()) < 9:
        env.step(legal(env, rng))
        for e in np.flatnonzero(env.last).tolist():
            assert env.infos[e]["map"] == MAPS[numbers[e] % 3]
            counts[numbers[e] % 3] += 1
            numbers[e] += 2


def test_maps_are_drawn_by_their_weights():
    drawn = Counter(m for m, _ in play(made(n_envs=16, map_weights=[8, 1, 1]), 300))
    assert 0.7 < drawn["3m"] / 300 < 0.9
    assert min(drawn.values()) > 0


@pytest.mark.slow
def test_by_difficulty_maps_that_are_won_are_drawn_less_often():
    env = made(n_envs=16, map_weights="by_difficulty")
    decide, ended = env.scripted("focus"), []
    while len(ended) < 400:
        env.step(np.where(env.last[:, None], 0, decide()))
        ended += [(env.infos[e]["map"], env.infos[e]["win"]) for e in np.flatnonzero(env.last)]
    wins = {name: np.mean([won for m, won in ended if m == name]) for name in MAPS}
    assert wins["5m_vs_6m"] < 0.3 < wins["2s3z"]
    assert env.battles.wins[1] == pytest.approx(wins["2s3z"], abs=0.3)
    late = Counter(m for m, _ in ended[200:])
    assert late["5m_vs_6m"] > 1.3 * late["2s3z"]


@pytest.mark.parametrize("weights", [None, "by_difficulty"])
def test_a_loaded_state_goes_on_as_the_saved_one(weights):
    env, rng = made(map_weights=weights), np.random.default_rng(0)
    play(env, 7, rng)
    env.step(legal(env, rng))
    other = made(map_weights=weights)
    other.load_state_dict(env.state_dict())
    require_same_steps(env, other, [])
    after = [play(each, 9, np.random.default_rng(1)) for each in (env, other)]
    assert after[0] == after[1]
    decide, again = env.scripted("heuristic"), env.scripted("heuristic")
    for _ in range(5):
        env.step(np.where(env.last[:, None], 0, decide()))
    again.load_state_dict(decide.state_dict())
    assert np.array_equal(decide(), again())
    fresh = made(map_weights=weights)
    fresh.restart(env.carried())
    assert np.array_equal(fresh.battles.wins, env.battles.wins)


def test_races_of_smacv2_show_rows_of_the_same_sizes():
    maps = ["terran_5_vs_5", "protoss_5_vs_6", "zerg_10_vs_11"]
    env = Smacv2VectorEnv(map_name="terran_5_vs_5", n_envs=3, maps=maps)
    env.reset(seeds)
    sizes = {name: block["size"] for name, block in env.spec.layout["obs"].items()}
    smac = {name: block["size"] for name, block in made().spec.layout["obs"].items()}
    assert sizes == {**smac, "own": smac["own"] + 2}  # and one's own position
    assert {m for m, _ in play(env, 30)} == {"terran_5_vs_5", "protoss_5_vs_6", "zerg_10_vs_11"}
    assert np.isfinite(env.obs).all()
    assert np.isfinite(env.state).all()


def test_healers_have_a_target_for_each_agent():
    env = made(maps=["MMM", "5m"])
    assert env.about == {"backend": "native", "rules_version": "6, 7"}
    assert (env.spec.n_actions, env.spec.layout["obs"]["enemies"]["count"]) == (6 + 10, 10)
    play(env, 3)


def test_a_map_of_ones_own_is_named_among_others():
    path = str(SHIPPED / "ambush.yaml")
    env = made(maps=["ambush", "3m"], map_file=path)
    assert env.battles.names == ["ambush", "3m"]
    assert env.call("get_units")[0]
    assert env.render([0])[0][-1].ndim == 3


def test_drawings_have_enemies_behind_the_agents_of_the_largest_map():
    env, rng = (
        made(n_envs=2, maps=["3m", "8m_vs_4m"], seeds=SeedsOfTests(0, 2)),
        np.random.default_rng(0),
    )
    for _ in range(12):
        env.step(legal(env, rng))
    small = env.battles.parts[0].drawing(0)[2]
    columns = env.drawing(0).columns
    assert columns["there"].tolist() == [True] * 3 + [False] * 5 + [True] * 3
    assert np.array_equal(columns["x"][[0, 1, 2, 8, 9, 10]], small["x"])
    assert [t + 5 if t > 2 else t for t in small["target"]] == [
        columns["target"][k] for k in (0, 1, 2, 8, 9, 10)
    ]
    assert columns["sees"].shape == (8, 11)
    assert env.drawing(1).columns["there"].all()


def test_an_absent_agent_has_only_action_0():
    env = made(n_envs=1, maps=["3m", "8m"], map_weights=[1, 1e-9])
    action = legal(env, np.random.default_rng(0))
    action[0, 5] = 1
    with pytest.raises(ValueError, match=r"agent 5 chose 1, available are \[0\]"):
        env.step(action)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"maps": []}, "expected at least one map"),
        ({"maps": ["3m", "3m"]}, "without duplicates"),
        ({"maps": ["so_many_baneling", "so_many_banelings"]}, "without duplicates"),
        ({"maps": ["3m", "3q"]}, "unknown units in the map '3q'"),
        ({"map_weights": [1, 2]}, "expected 3 numbers, one for each"),
        ({"backend": "sc2"}, "needs the built-in engine and its own enemies, and env.backend=sc2"),
        ({"two_sided": True}, "and an opponent was chosen"),
        ({"start_positions": "no/such/file"}, r"no/such/file apply to one map.*=null"),
    ],
)
def test_what_several_maps_cannot_be_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        made(**options)
