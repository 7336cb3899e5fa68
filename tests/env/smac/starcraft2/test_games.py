"""StarCraft II behind SmacVectorEnv, tried on a stand-in package in real worker processes."""

from __future__ import annotations

import logging
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rltrain.buffer.episode import EpisodeBuffer
from rltrain.common.seeding import generator
from rltrain.env.smac.engine.battles import IllegalAction
from rltrain.env.smac.options import Options, SmacOptions, env_spec
from rltrain.env.smac.starcraft2 import worker
from rltrain.env.smac.starcraft2.process import Crash, GameProcess
from rltrain.env.smac.starcraft2.smacv2_config import scenario_options
from rltrain.env.smac.starcraft2.worker import Game, GameOver, Recipe
from rltrain.env.smac.vector import SmacVectorEnv
from rltrain.errors import EnvError
from rltrain.hardware.rollout import Rollout
from rltrain.types import Clock, Episode
from rltrain.video.sc2_replay import GameReplays
from tests.env.smac.starcraft2.stand_in import (
    ATTACK,
    DIE,
    EMPTY,
    HANG,
    LIMIT,
    RAISE,
    STOP,
    install_game,
    install_package,
    install_smacv2,
)

PLAY, WIN = [STOP, STOP, STOP], [STOP, ATTACK, STOP]


def seeds(copy: int, k: int) -> int:
    return 100 * copy + 10 * k + 7


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The package and the game are installed, for all tests of this file."""
    folder = tmp_path_factory.mktemp("installed")
    install_package(folder / "python")
    install_smacv2(folder / "python")
    install_game(folder / "game", "3m")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder / "python"))
        patch.setenv("SC2PATH", str(folder / "game"))
        yield folder
    for name in [m for m in sys.modules if m.partition(".")[0] in ("smac", "smacv2")]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def games(there: Path) -> Iterator[SmacVectorEnv]:
    """Two games, launched once."""
    env = SmacVectorEnv(
        map_name="3m", n_envs=2, backend="sc2", max_restarts=100, replay_prefix="faults"
    )
    yield env
    env.close()


@pytest.fixture
def env(games: SmacVectorEnv) -> SmacVectorEnv:
    games.battles.restarts[:] = 0
    games.reset(seeds)
    return games


def step(env: SmacVectorEnv, *actions: list[int]) -> tuple[list[float], list[bool]]:
    reward, terminated = env.step(np.array(actions))
    return reward[:, 0].tolist(), terminated.tolist()


def test_auto_takes_the_game_where_everything_is_there(there: Path) -> None:
    env = SmacVectorEnv(map_name="3m", n_envs=1, backend="auto")
    assert env.about == {"backend": "sc2", "package": "smac", "game": "Base75689"}
    assert not env.battles._games  # no process before the first reset


def test_auto_and_sc2_without_the_map(there: Path) -> None:
    assert SmacVectorEnv(map_name="8m", n_envs=1, backend="auto").about == {"backend": "native"}
    with pytest.raises(
        ValueError, match=r"(?s)the map 8m.SC2Map in .*: mkdir .*wget .*SMAC_Maps.zip"
    ):
        SmacVectorEnv(map_name="8m", n_envs=1, backend="sc2")


def test_episodes_in_the_game_are_laid_out_with_final_slots(env: SmacVectorEnv) -> None:
    assert env.obs.shape == (2, 3, 30)
    assert env.obs[:, 0, 0].tolist() == [0, 0]
    for t in (1.0, 2.0, 3.0):
        assert step(env, PLAY, PLAY) == ([t, t], [False, False])
    assert step(env, WIN, PLAY) == ([20, 20], [True, True])
    assert env.last.tolist() == [True, True]
    facts = {"dead_allies": 0, "dead_enemies": 3, "restarts": 0}
    assert env.infos == [
        {"win": True, "timeout": False, **facts},
        {"win": False, "timeout": True, **facts},
    ]
    assert env.obs[:, 0, 0].tolist() == [LIMIT, LIMIT]  # the final observation
    assert step(env, [99] * 3, [99] * 3) == ([0, 0], [False, False])  # ignored: a new episode
    assert env.obs[:, 0, 0].tolist() == [0, 0]
    assert not env.lost.any()


def test_a_time_out_is_no_termination_to_a_learner_that_bootstraps(env: SmacVectorEnv) -> None:
    env._bootstrap = True
    for _ in range(LIMIT - 1):
        step(env, PLAY, PLAY)
    assert step(env, WIN, PLAY)[1] == [True, False]
    assert env.last.all()
    env._bootstrap = False


@pytest.mark.parametrize("fault", [RAISE, EMPTY, DIE])
def test_a_crash_loses_the_episode_and_begins_it_anew(env: SmacVectorEnv, fault: int) -> None:
    step(env, PLAY, PLAY)
    assert step(env, PLAY, [fault, STOP, STOP]) == ([2, 0], [False, False])
    assert env.lost.tolist() == [False, True]
    assert env.last.tolist() == [False, False]
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


def test_a_game_launched_later_has_the_seed_of_its_episode(env: SmacVectorEnv) -> None:
    for _ in range(LIMIT + 1):
        step(env, PLAY, PLAY)
    step(env, PLAY, [RAISE, STOP, STOP])
    assert env.obs[1, 0, 2] == seeds(1, 1)


def test_a_hanging_game_gives_no_answer_in_time_and_can_be_killed(there: Path) -> None:
    recipe = SmacVectorEnv(
        map_name="3m", n_envs=1, backend="sc2", replay_prefix="faults"
    ).battles.recipe
    game = GameProcess(recipe, 0)
    assert game.receive(time.monotonic() + 60)[0] == "ready"
    game.send("reset")
    assert game.receive(time.monotonic() + 60)[0] == "frame"
    game.send("step", [HANG, STOP, STOP])
    with pytest.raises(Crash, match="no answer in time"):
        game.receive(time.monotonic() + 0.05)
    pid = game.process.pid
    game.kill()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux")
def test_restarts_keep_no_file_open(env: SmacVectorEnv) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(2):
        step(env, [RAISE, STOP, STOP], [RAISE, STOP, STOP])
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_worker_leads_a_process_group_of_its_own(env: SmacVectorEnv) -> None:
    pids = [options["pid"] for options in env.call("get_options")]
    assert [os.getpgid(pid) for pid in pids] == pids


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux's pidfd")
def test_no_worker_outlives_a_killed_parent(there: Path) -> None:
    code = (
        "import numpy\nfrom rltrain.env.smac.vector import SmacVectorEnv\n"
        "env = SmacVectorEnv(map_name='3m', n_envs=1, backend='sc2', replay_prefix='faults')\n"
        "env.reset(lambda copy, k: k)\n"
        "print(env.call('get_options')[0]['pid'], flush=True)\n"
        f"env.step(numpy.array([[{HANG}, {STOP}, {STOP}]]))\n"
    )
    paths = os.pathsep.join([str(there / "python"), *filter(None, sys.path)])
    parent = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": paths},
        text=True,
    )
    assert parent.stdout is not None
    worker = os.pidfd_open(int(parent.stdout.readline()))
    parent.kill()
    parent.wait()
    assert select.select([worker], [], [], 20)[0]
    os.close(worker)


def test_a_restart_is_warned_of_once(
    env: SmacVectorEnv, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("rltrain"), "propagate", True)
    with caplog.at_level(logging.INFO, "rltrain"):
        step(env, [RAISE, STOP, STOP], PLAY)
        step(env, [RAISE, STOP, STOP], PLAY)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "environment 0 crashed (ConnectionError: the game is gone)" in caplog.text


def test_more_games_than_cores_are_warned_of(
    there: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("rltrain"), "propagate", True)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)  # they are launched one by one, too
    env = SmacVectorEnv(map_name="3m", n_envs=2, backend="sc2")
    env.reset(seeds)
    assert "launching 2 games of StarCraft II on 1 cores" in caplog.text
    assert env.obs[:, 0, 2].tolist() == [seeds(0, 0), seeds(1, 0)]
    env.close()


def test_an_illegal_action_reaches_no_game(env: SmacVectorEnv) -> None:
    with pytest.raises(IllegalAction, match="environment 1: agent 2 chose 8, available are"):
        step(env, PLAY, [STOP, STOP, 8])
    with pytest.raises(
        ValueError, match=r"expected \(2, 3\) \(environments, agents\), got \(1, 3\)"
    ):
        step(env, PLAY)
    assert step(env, PLAY, PLAY) == ([1, 1], [False, False])


def test_options_arrive_under_their_own_names(env: SmacVectorEnv) -> None:
    found = env.call("get_options")[0]
    expected = asdict(SmacOptions()) | {"map_name": "3m", "difficulty": "7", "game_version": None}
    expected |= {"heuristic_ai": False, "window_size_x": 1920, "debug": False}
    expected.pop("map_name")  # the stand-in's own argument
    assert expected.items() <= found.items()
    assert "conic_fov" not in found  # SMACv2's, which SMAC would refuse


def test_a_replay_is_saved_where_and_as_asked(env: SmacVectorEnv, tmp_path: Path) -> None:
    (path,) = env.save_replay(1, str(tmp_path), "battle-1")
    assert Path(path).parent == tmp_path
    assert Path(path).name.startswith("battle-1_")
    assert Path(path).suffix == ".SC2Replay"


def test_every_finished_episode_gets_its_replay(env: SmacVectorEnv, tmp_path: Path) -> None:
    saver = GameReplays(tmp_path / "replays", n_episodes=2)
    for t in range(LIMIT + 1):
        finished = {e: Episode(26.0, LIMIT) for e in np.flatnonzero(env.last).tolist()}
        saver(env, [1, 2], finished)
        assert len(saver.files) == (t == LIMIT)
        if t < LIMIT:
            step(env, PLAY, PLAY)
    ((number, (path,)),) = saver.files.items()
    assert number == 1
    assert path.parent == tmp_path / "replays"
    assert path.name.startswith("episode-001_")


def test_the_built_in_engine_saves_no_replay() -> None:
    with pytest.raises(RuntimeError, match=r"env\.backend=sc2 only"):
        SmacVectorEnv(map_name="3m", n_envs=1).save_replay(0, ".", "x")


def test_statistics_before_the_first_battle(env: SmacVectorEnv) -> None:
    env.battles.close()
    env.reset(seeds)
    assert env.call("get_stats")[0]["win_rate"] == 0.0


def test_a_call_that_fails_is_no_crash(env: SmacVectorEnv) -> None:
    with pytest.raises(RuntimeError, match=r"get_nothing failed in environment 0: AttributeError"):
        env.call("get_nothing")
    assert env.battles.restarts.sum() == 0


def test_state_says_it_is_not_exact_and_the_next_episodes_begin(env: SmacVectorEnv) -> None:
    step(env, PLAY, PLAY)
    state = env.state_dict()
    assert state["exact"] is False
    env.load_state_dict(state)
    assert env.obs[:, 0, :3].tolist() == [[0, 0, seeds(0, 1)], [0, 0, seeds(1, 1)]]


def test_state_of_the_other_backend_is_refused(env: SmacVectorEnv) -> None:
    native = SmacVectorEnv(map_name="3m", n_envs=2)
    native.reset(seeds)
    with pytest.raises(ValueError, match="not played by the backend 'sc2'"):
        env.load_state_dict(native.state_dict())
    with pytest.raises(ValueError, match="not played by the backend 'native'"):
        native.load_state_dict(env.state_dict())


class Script:
    """A policy that plays given actions, one row per slot, then PLAY; counts what it forgot."""

    def __init__(self, rows: list[list[list[int]]]) -> None:
        self.rows, self.forgotten = list(rows), np.zeros(2, int)

    def act(self, obs: Any, avail_actions: Any, last: Any, clock: Any) -> np.ndarray:
        return np.array(self.rows.pop(0) if self.rows else [PLAY, WIN])

    def reset(self) -> None:
        """Nothing to forget."""

    def forget(self, copies: np.ndarray) -> None:
        self.forgotten += copies


def test_no_crash_becomes_a_defeat_in_the_replay(env: SmacVectorEnv) -> None:
    policy = Script([[PLAY, PLAY], [PLAY, [EMPTY, STOP, STOP]]])
    rollout = Rollout(env=env, policy=policy, seeds=seeds)
    replay = EpisodeBuffer(
        spec=env.spec, n_envs=2, device=torch.device("cpu"), rng=generator(0), capacity=10,
        max_bytes=None, storage="float32",
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


def test_a_lost_test_episode_is_played_again(env: SmacVectorEnv) -> None:
    rollout = Rollout(env=env, policy=Script([[PLAY, [DIE, STOP, STOP]]]), seeds=seeds)
    episodes = rollout.run_episodes(3, 0, Clock())
    assert [(e.length, e.info["win"]) for e in episodes] == [
        (LIMIT, False), (LIMIT, True), (LIMIT, False),
    ]  # fmt: skip


def test_the_budget_of_restarts(there: Path) -> None:
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
        ("sizes", r"other sizes.*expected.*\(3, 9, 30, 48\), got \(3, 9, 31, 48\)"),
    ],
)
def test_a_package_that_does_not_work_ends_at_once(there: Path, prefix: str, message: str) -> None:
    env = SmacVectorEnv(map_name="3m", n_envs=1, backend="sc2", replay_prefix=prefix)
    with pytest.raises(EnvError, match=message):
        env.reset(seeds)


@pytest.fixture
def make_game(there: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Game]:
    """A worker's game, here in this process."""
    monkeypatch.setenv("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python")

    def make(package: str = "smac", **options: Any) -> Game:
        given = {**vars(Options()), "map_name": "3m", "replay_dir": "", "replay_prefix": ""}
        return Game(Recipe(package, {**given, **options}), 0)

    return make


def test_the_unused_zero_before_the_timestep_is_taken_out(make_game: Callable[..., Game]) -> None:
    game = make_game(obs_timestep_number=True)
    game.reset()
    frame = game.step(PLAY)
    assert frame.obs.shape == (3, env_spec("3m", Options(obs_timestep_number=True)).obs_shape[0])
    assert frame.obs[:, -1].tolist() == [0.25] * 3


def test_observations_instead_of_state_are_those_that_are_shown(
    make_game: Callable[..., Game],
) -> None:
    frame = make_game(obs_timestep_number=True, obs_instead_of_state=True).reset()
    assert frame.state.tolist() == frame.obs.reshape(-1).tolist()


def test_a_reset_within_the_first_episode_launches_no_second_game(
    make_game: Callable[..., Game],
) -> None:
    game = make_game()
    for _ in range(3):
        game.reset()
        game.step(PLAY)


def test_a_game_that_died_in_reset_is_over(make_game: Callable[..., Game]) -> None:
    game = make_game()
    plain = game.env.reset

    def reset() -> Any:
        game.env.force_restarts += 1
        return plain()

    game.env.reset = reset
    with pytest.raises(GameOver):
        game.reset()


def test_a_reset_that_gives_nothing_is_repeated(make_game: Callable[..., Game]) -> None:
    game, tries = make_game(), []
    plain = game.env.reset

    def reset() -> Any:
        tries.append(1)
        pair = plain()
        return pair if len(tries) == 3 else None

    game.env.reset = reset
    assert game.reset().obs.shape == (3, 30)
    assert len(tries) == 3


def test_smacv2_plays_behind_its_wrapper(make_game: Callable[..., Game], tmp_path: Path) -> None:
    game = make_game("smacv2", capability_config={"n_units": 3}, obs_timestep_number=True)
    frame = game.reset()  # the wrapper's first one gives nothing
    assert game.env.resets == 2
    assert frame.obs.shape == (3, 32)  # its vectors have no zero too many
    assert game.env.config == {"n_units": 3}
    assert len(game.save_replay(str(tmp_path), "battle")) == 1


def test_a_smacv2_scenario_in_the_words_of_its_package() -> None:
    weights = {"marine": 0.45, "marauder": 0.45, "medivac": 0.1}
    found = scenario_options(
        race="terran", n_agents=5, n_enemies=6, weights=weights, exception="medivac", reflect=0.5
    )
    assert found["map_name"] == "10gen_terran"
    assert found["capability_config"] == {
        "n_units": 5,
        "n_enemies": 6,
        "team_gen": {
            "dist_type": "weighted_teams",
            "unit_types": ["marine", "marauder", "medivac"],
            "exception_unit_types": ["medivac"],
            "weights": [0.45, 0.45, 0.1],
            "observe": True,
        },
        "start_positions": {
            "dist_type": "surrounded_and_reflect",
            "p": 0.5,
            "map_x": 32,
            "map_y": 32,
        },
    }


def test_protobuf_is_read_in_python_from_version_4_on(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"
    for version, expected in (("3.20.3", None), ("7.36.2", "python")):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(worker.importlib.metadata, "version", lambda _, v=version: v)
        worker.use_python_protobuf()
        assert os.environ.get(name) == expected
    monkeypatch.delenv(name)
