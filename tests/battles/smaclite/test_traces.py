"""``rules=smaclite`` against recorded SMAClite episodes: per env step the actions, the reward and,
for every unit in SMAClite's order, x, y, health, shield and cooldown in seconds.

All episodes of 3m are whole. On the other maps units touch each other from the first steps on, and
then rounding, later the random order of turns, decides what follows: each of those episodes is as
long as its end or its first difference.
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
