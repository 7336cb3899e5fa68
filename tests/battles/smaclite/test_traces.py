"""``rules=smaclite`` against recorded SMAClite episodes: per env step the actions, the reward and,
for every unit in SMAClite's order, x, y, health, shield and cooldown in seconds.

All episodes of 3m are whole. On the other maps units touch each other from the first steps on, and
then rounding, later the random order of turns, decides what follows: each of those episodes is as
long as its end or its first difference. Slow tests compare statistics of 100 episodes per map and
policy.
"""

from pathlib import Path

import numpy as np
import pytest

from rltrain.battles.engine.battles import Battles
from rltrain.battles.engine.world import Outcome, U
from rltrain.battles.options import Options
from tests.battles.smaclite.policies import as_created, choose

TRACES = np.load(Path(__file__).parents[2] / "data" / "smaclite_traces.npz")
NAMES = sorted({name.rpartition(".")[0] for name in TRACES.files})


def start(map_name: str) -> Battles:
    """Numbered as in SMAClite. Rewards are unscaled, and without the bonus of SMAC's idea of a
    win."""
    options = Options(reward_scale=False, reward_win=0)
    row = as_created(map_name)
    b = Battles(map_data=row, n_envs=1, options=options, rules="smaclite")
    b.reset({0: 0})
    return b


def units_of(battles: Battles) -> np.ndarray:
    """[U, 5] as recorded; the dead are zero."""
    unit = battles.world.unit[0]
    rows = unit[[U.X, U.Y, U.HEALTH, U.SHIELD, U.COOLDOWN]].T / [1, 1, 1, 1, 16]
    return np.where(unit[U.HEALTH, :, None] > 0, rows, 0)


@pytest.mark.parametrize("name", NAMES)
def test_replay_is_the_recorded_episode(name: str) -> None:
    battles = start(name.rpartition("_")[0])
    agents, enemies = battles.map_data.n_agents, battles.map_data.n_enemies
    body = sum(unit.health + unit.shield for unit in battles.map_data.unit_types[agents:])
    scale = (200 + 10 * enemies + body) / 20
    units, rewards = TRACES[f"{name}.units"], TRACES[f"{name}.reward"]
    np.testing.assert_allclose(units_of(battles), units[0], atol=1e-3)
    for k, action in enumerate(TRACES[f"{name}.actions"].astype(np.int64)):
        battles.world.outcome[0] = Outcome.RUNNING
        battles.step(action[None])
        mine = units_of(battles)
        np.testing.assert_allclose(mine, units[k + 1], atol=1e-3, err_msg=f"step {k + 1}")
        won = not (mine[agents:, 2] > 0).any()
        assert (battles.reward[0] + 200 * won) / scale == pytest.approx(rewards[k], abs=1e-4)


def test_every_3m_episode_is_complete() -> None:
    lengths = [len(TRACES[f"{name}.reward"]) for name in NAMES if name.startswith("3m")]
    assert sorted(lengths) == [15, 17, 17, 17, 18, 19]


@pytest.mark.parametrize("name", [name for name in NAMES if not name.endswith("random")])
def test_policies_choose_the_recorded_actions(name: str) -> None:
    battles, rng = start(name.rpartition("_")[0]), np.random.default_rng(0)
    unit = battles.world.unit[0]
    for units, expected in zip(TRACES[f"{name}.units"], TRACES[f"{name}.actions"], strict=False):
        unit[[U.X, U.Y, U.HEALTH, U.SHIELD]] = units[:, :4].T
        battles.refresh()
        action = choose(name.rpartition("_")[2], battles, rng)
        assert action[0].tolist() == expected.tolist()


EPISODES = 100
POLICIES = ("random", "stop", "closest", "focus", "hold", "holdfocus")
# Measured on SMAClite, per policy: wins in 100 episodes, mean return, mean length.
MEASURED = {
    "3m": ((0, 1.45, 24.1), (0, 0, 18), (100, 20, 17), (100, 20, 19), (0, 3.95, 15), (0, 4.66, 17)),
    "8m": ((0, 2.17, 34.6), (0, 0, 21), (0, 10.65, 21.5), (0, 9.16, 19.3), (0, 7.68, 24),
           (0, 5.12, 21)),
    "2s3z": ((0, 3.99, 43.7), (0, 0, 35), (100, 20, 56.3), (0, 9.86, 41), (0, 8.1, 33),
             (0, 8.58, 38.8)),
    "3s5z": ((0, 4.08, 48.5), (0, 0, 42), (0, 9.18, 35), (0, 8.36, 39.3), (0, 9.77, 44),
             (0, 6.04, 37)),
    "5m_vs_6m": ((0, 1.51, 27.4), (0, 0, 19), (0, 6.19, 14), (0, 7.13, 17), (0, 3.4, 18),
                 (0, 3.66, 18)),
    "MMM": ((0, 2.4, 51.8), (0, 0, 34), (51, 19.76, 74.3), (84, 22.87, 66.8), (0, 8.72, 46.8),
            (0, 7.96, 46.2)),
}  # fmt: skip


def play(map_name: str, policy: str) -> tuple[float, float, float]:
    """Wins in 100 episodes, mean return and mean length by SMAClite's own end of a battle: one side
    has no unit left."""
    options = Options(reward_scale=False, reward_win=0)
    row = as_created(map_name)
    battles = Battles(map_data=row, n_envs=EPISODES, options=options, rules="smaclite")
    battles.reset({e: 1000 + e for e in range(EPISODES)})
    agents, rng = battles.map_data.n_agents, np.random.default_rng(1000)
    enemies = battles.map_data.unit_types[agents:]
    scale = (200 + sum(10 + unit.health + unit.shield for unit in enemies)) / 20
    over, won = np.zeros(EPISODES, bool), np.zeros(EPISODES, bool)
    returns, lengths = np.zeros(EPISODES), np.zeros(EPISODES)
    for _ in range(battles.map_data.limit):
        battles.world.outcome[:] = np.where(over, Outcome.DRAW, Outcome.RUNNING)
        battles.step(choose(policy, battles, rng))
        alive = battles.world.unit[:, U.HEALTH] > 0
        wins = ~over & ~alive[:, agents:].any(1)
        returns += np.where(over, 0, battles.reward + 200 * wins) / scale
        lengths += ~over
        won |= wins
        over |= wins | ~alive[:, :agents].any(1)
        if over.all():
            break
    return float(won.sum()), float(returns.mean()), float(lengths.mean())


@pytest.mark.slow
@pytest.mark.parametrize(("map_name", "policy"), [(m, p) for m in MEASURED for p in POLICIES])
def test_episodes_are_distributed_as_measured(map_name: str, policy: str) -> None:
    wins, mean_return, length = MEASURED[map_name][POLICIES.index(policy)]
    my_wins, my_return, my_length = play(map_name, policy)
    error = np.sqrt((my_wins * (100 - my_wins) + wins * (100 - wins)) / EPISODES)
    assert abs(my_wins - wins) <= 2.5 * error
    assert my_return == pytest.approx(mean_return, abs=2.0)
    assert my_length == pytest.approx(length, abs=5.0)


@pytest.mark.slow
def test_zerglings_under_the_cliff_of_2c_vs_64zg_rarely_reach_the_colossi() -> None:
    """SMAClite's one episode of standing colossi lasts all 400 steps; the crowd is chaotic, so
    whether a few get pushed around the end of the cliff differs with every hair's breadth."""
    row = as_created("2c_vs_64zg")
    battles = Battles(map_data=row, n_envs=40, options=Options(), rules="smaclite")
    battles.reset({e: e for e in range(40)})
    unit, rng = battles.world.unit, np.random.default_rng(0)
    unit[:, U.X : U.Y + 1, 2:] += rng.normal(0, 1e-5, (40, 2, 64)).astype(np.float32)
    battles.refresh()
    above = np.zeros(40, np.int64)
    for _ in range(400):
        battles.step(np.where(battles.avail[:, :, 0] == 1, 0, 1))
        above = np.maximum(above, (unit[:, U.Y, 2:] > 12.5).sum(1))
    assert 0.2 < (battles.world.outcome == Outcome.TIMEOUT).mean() < 0.8
    assert np.median(above) <= 5
    assert above.max() < 20


@pytest.mark.slow
def test_random_play_always_wins_2c_vs_64zg_as_measured() -> None:
    assert play("2c_vs_64zg", "random")[0] == 100
