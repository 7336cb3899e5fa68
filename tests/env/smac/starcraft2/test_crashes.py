"""Games that crash: lost episodes, restarts, errors."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rltrain.buffer.episode import EpisodeBuffer
from rltrain.common.seeding import generator
from rltrain.env.smac.vector import SmacVectorEnv
from rltrain.errors import EnvError
from rltrain.hardware.rollout import Rollout
from rltrain.types import Clock
from tests.env.scripted import Zeros
from tests.env.smac.starcraft2.conftest import PLAY, WIN, seeds, step
from tests.env.smac.starcraft2.stand_in import DIE, EMPTY, LIMIT, RAISE, STOP


@pytest.mark.sampled(1)
@pytest.mark.parametrize("fault", [RAISE, EMPTY, DIE])
def test_crash_marks_the_episode_lost_and_restarts_it(env: SmacVectorEnv, fault: int) -> None:
    step(env, PLAY, PLAY)
    assert step(env, PLAY, [fault, STOP, STOP]) == ([2, 0], [False, False])
    assert (env.lost.tolist(), env.last.tolist()) == ([False, True], [False, False])
    assert env.obs[:, 0, 0].tolist() == [2, 0]
    assert env.obs[1, 0, 2] == seeds(1, 0)  # launched with the seed of that episode
    step(env, PLAY, PLAY)
    assert not env.lost.any()
    step(env, PLAY, WIN)
    assert env.infos[0]["restarts"] == 0
    step(env, PLAY, PLAY)
    step(env, PLAY, WIN)
    assert env.infos[1]["win"]
    assert env.infos[1]["restarts"] == 1
    assert [stats["restarts"] for stats in env.call("get_stats")] == [0, 1]


def test_relaunched_game_gets_the_seed_of_its_episode(env: SmacVectorEnv) -> None:
    for _ in range(LIMIT + 1):
        step(env, PLAY, PLAY)
    step(env, PLAY, [RAISE, STOP, STOP])
    assert env.obs[1, 0, 2] == seeds(1, 1)


@pytest.mark.slow
def test_only_the_first_restart_is_a_warning(env, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("rltrain"), "propagate", True)
    with caplog.at_level(logging.INFO, "rltrain"):
        step(env, [RAISE, STOP, STOP], PLAY)
        step(env, [RAISE, STOP, STOP], PLAY)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "environment 0 crashed (ConnectionError: the game is gone)" in caplog.text


def test_failed_call_does_not_count_as_a_crash(env: SmacVectorEnv) -> None:
    with pytest.raises(RuntimeError, match=r"get_nothing failed in environment 0: AttributeError"):
        env.call("get_nothing")
    assert env.battles.restarts.sum() == 0


class Script(Zeros):
    """A policy that plays given actions, one row per time step, then PLAY and WIN."""

    def __init__(self, rows: list[list[list[int]]]) -> None:
        self.rows, self.forgotten = list(rows), np.zeros(2, int)

    def act(self, obs: Any, avail_actions: Any, last: Any, clock: Any) -> np.ndarray:
        return np.array(self.rows.pop(0) if self.rows else [PLAY, WIN])

    def forget(self, envs: np.ndarray) -> None:
        self.forgotten += envs


def test_crashed_episode_is_not_stored_in_the_buffer(env: SmacVectorEnv) -> None:
    policy = Script([[PLAY, PLAY], [PLAY, [EMPTY, STOP, STOP]]])
    rollout = Rollout(env=env, policy=policy, seeds=seeds)
    replay = EpisodeBuffer(
        spec=env.spec, n_envs=2, device=torch.device("cpu"), rng=generator(0), capacity=10,
        max_bytes=None, precision="float32",
    )  # fmt: skip
    found = []
    first = rollout.collect(8, Clock())
    assert len(first.last) == 2  # cut where the episode was lost
    for steps in (first, rollout.collect(2, Clock()), rollout.collect(3, Clock())):
        replay.add(steps)
        found.append((steps.lost.tolist(), [(e.length, e.info["win"]) for e in steps.episodes]))
    assert found == [
        ([False, False], []),
        ([False, True], []),
        ([False, False], [(LIMIT, False), (LIMIT, True)]),
    ]
    assert policy.forgotten.tolist() == [0, 1]
    assert [e.episode_return for e in steps.episodes] == [26, 26]  # 1 + 2 + 3 + 20
    batch = replay.sample(2, Clock())
    assert batch.mask.sum(0).tolist() == [LIMIT, LIMIT]
    assert batch.reward[:, :, 0].T.tolist() == [[1, 2, 3, 20]] * 2


def test_lost_evaluation_episode_is_repeated(env: SmacVectorEnv) -> None:
    rollout = Rollout(env=env, policy=Script([[PLAY, [DIE, STOP, STOP]]]), seeds=seeds)
    episodes = rollout.run_episodes(3, 0, Clock())
    assert [(e.length, e.info["win"]) for e in episodes] == [
        (LIMIT, False), (LIMIT, True), (LIMIT, False),
    ]  # fmt: skip


@pytest.mark.slow
def test_more_crashes_than_max_restarts_raise_env_error(installed: Path) -> None:
    env = SmacVectorEnv(
        map_name="3m", n_envs=1, backend="sc2", max_restarts=1, replay_prefix="no reset"
    )
    rollout = Rollout(env=env, policy=Script([]), seeds=seeds)
    with pytest.raises(EnvError, match=r"crashed 2 times.*env\.max_restarts=1.*OSError: the") as e:
        rollout.collect(1, Clock())
    assert e.value.exit_code == 4
    assert not env.battles._games


@pytest.mark.parametrize(
    ("prefix", "message"),
    [
        ("broken", r"cannot make its environment: ImportError: descriptors.*mode=doctor"),
        ("sizes", r"different sizes.*expected.*\(3, 9, 30, 48\), got \(3, 9, 31, 48\)"),
    ],
)
def test_package_that_cannot_make_its_environment_raises_env_error(installed, prefix, message):
    env = SmacVectorEnv(map_name="3m", n_envs=1, backend="sc2", replay_prefix=prefix)
    with pytest.raises(EnvError, match=message):
        env.reset(seeds)
