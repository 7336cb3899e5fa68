"""StarCraft II behind SmacVectorEnv, tested with a stand-in package in worker processes."""

import logging
import os
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from rltrain.battles import StarCraft2Env
from rltrain.battles.engine.battles import IllegalAction
from rltrain.battles.options import SmacOptions
from rltrain.env.smac.vector import SmacVectorEnv
from rltrain.types import Episode
from rltrain.video.recorder import GameReplays
from tests.env.smac.starcraft2.conftest import PLAY, WIN, seeds, step
from tests.env.smac.starcraft2.stand_in import LIMIT, STOP


def test_auto_chooses_the_game_when_all_parts_are_installed(installed: Path) -> None:
    env = SmacVectorEnv(map_name="3m", n_envs=1, backend="auto")
    assert env.about == {"backend": "sc2", "package": "smac", "game": "Base75689"}
    assert not env.battles._games  # no process before the first reset


def test_missing_map_means_native_for_auto_and_an_error_for_sc2(installed: Path) -> None:
    assert SmacVectorEnv(map_name="8m", n_envs=1, backend="auto").about["backend"] == "native"
    said = r"(?s)the map 8m.SC2Map in .*: mkdir .*wget .*SMAC_Maps.zip"
    with pytest.raises(ValueError, match=said):
        SmacVectorEnv(map_name="8m", n_envs=1, backend="sc2")


def test_final_observation_is_returned_before_the_next_episode(env: SmacVectorEnv) -> None:
    assert (env.obs.shape, env.obs[:, 0, 0].tolist()) == ((2, 3, 30), [0, 0])
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


def test_time_limit_does_not_terminate_with_bootstrap(env: SmacVectorEnv) -> None:
    env._bootstrap = True
    for _ in range(LIMIT - 1):
        step(env, PLAY, PLAY)
    assert step(env, WIN, PLAY)[1] == [True, False]
    assert env.last.all()
    env._bootstrap = False


@pytest.mark.slow
def test_more_games_than_cores_give_a_warning(installed, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("rltrain"), "propagate", True)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)  # they are launched one by one, too
    env = SmacVectorEnv(map_name="3m", n_envs=2, backend="sc2")
    env.reset(seeds)
    assert "launching 2 games of StarCraft II on 1 cores" in caplog.text
    assert env.obs[:, 0, 2].tolist() == [seeds(0, 0), seeds(1, 0)]
    env.close()


def test_illegal_action_is_refused_before_any_game_steps(env: SmacVectorEnv) -> None:
    with pytest.raises(IllegalAction, match="environment 1: agent 2 chose 8, available are"):
        step(env, PLAY, [STOP, STOP, 8])
    said = r"expected \(2, 3\) \(environments, agents\), got \(1, 3\)"
    with pytest.raises(ValueError, match=said):
        step(env, PLAY)
    assert step(env, PLAY, PLAY) == ([1, 1], [False, False])


def test_options_are_passed_by_name_to_smac(env: SmacVectorEnv) -> None:
    found = env.call("get_options")[0]
    expected = asdict(SmacOptions()) | {"map_name": "3m", "difficulty": "7", "game_version": None}
    expected |= {"heuristic_ai": False, "window_size_x": 1920, "debug": False}
    expected.pop("map_name")  # the stand-in's own argument
    assert expected.items() <= found.items()
    assert "conic_fov" not in found  # SMACv2's, which SMAC would refuse


def test_replay_is_saved_in_the_given_folder_with_the_given_prefix(env, tmp_path):
    (path,) = env.save_replay(1, str(tmp_path), "battle-1")
    assert Path(path).parent == tmp_path
    assert Path(path).name.startswith("battle-1_")
    assert Path(path).suffix == ".SC2Replay"
    with pytest.raises(RuntimeError, match=r"env\.backend=sc2 only"):
        SmacVectorEnv(map_name="3m", n_envs=1).save_replay(0, ".", "x")


def test_every_finished_episode_has_a_replay_file(env: SmacVectorEnv, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("half_written", [False, True])
def test_a_replay_that_does_not_fit_on_the_disk_is_a_failure_that_the_run_outlives(
    env: SmacVectorEnv, tmp_path: Path, half_written: bool
) -> None:
    folder = tmp_path / "replays"
    saver = GameReplays(folder, n_episodes=2)
    env.call("fill_disk", half_written)
    saver(env, [0, 1], {0: Episode(26.0, LIMIT)})
    assert saver.files == {0: []}
    assert saver.disk.degraded
    assert not [*folder.iterdir()]
    env.call("fill_disk", None)
    saver(env, [0, 1], {1: Episode(26.0, LIMIT)})
    assert [path.parent for path in saver.files[1]] == [folder]


def test_statistics_before_the_first_battle_are_zero(env: SmacVectorEnv) -> None:
    env.battles.close()
    env.reset(seeds)
    assert env.call("get_stats")[0] == StarCraft2Env(map_name="3m").get_stats()


@pytest.mark.slow
def test_loading_an_inexact_state_starts_the_next_episodes(env: SmacVectorEnv) -> None:
    step(env, PLAY, PLAY)
    state = env.state_dict()
    assert state["exact"] is False
    env.load_state_dict(state)
    assert env.obs[:, 0, :3].tolist() == [[0, 0, seeds(0, 1)], [0, 0, seeds(1, 1)]]


@pytest.mark.slow
def test_state_of_another_backend_is_refused(env: SmacVectorEnv) -> None:
    native = SmacVectorEnv(map_name="3m", n_envs=2)
    native.reset(seeds)
    for one, other, name in ((env, native, "sc2"), (native, env, "native")):
        with pytest.raises(ValueError, match=f"not played by the backend '{name}'"):
            one.load_state_dict(other.state_dict())
