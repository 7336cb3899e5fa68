"""The environment of SMAC in a worker, with workarounds for its bugs."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rltrain.battles.options import Options
from rltrain.env.smac.starcraft2 import worker
from rltrain.env.smac.starcraft2.worker import Game, GameOver
from tests.battles.specs import env_spec
from tests.env.smac.starcraft2.conftest import PLAY


def test_unused_zero_before_the_timestep_is_removed(make_game: Callable[..., Game]) -> None:
    game = make_game(obs_timestep_number=True)
    game.reset()
    frame = game.step(PLAY)
    assert frame.obs.shape == (3, env_spec("3m", Options(obs_timestep_number=True)).obs_shape[0])
    assert frame.obs[:, -1].tolist() == [0.25] * 3


def test_obs_instead_of_state_equals_the_observations(make_game: Callable[..., Game]) -> None:
    frame = make_game(obs_timestep_number=True, obs_instead_of_state=True).reset()
    assert frame.state.tolist() == frame.obs.reshape(-1).tolist()


def test_reset_within_the_first_episode_launches_no_second_game(make_game: Callable[..., Game]):
    game = make_game()
    for _ in range(3):
        game.reset()
        game.step(PLAY)


def test_game_that_dies_in_reset_raises_game_over(make_game: Callable[..., Game]) -> None:
    game = make_game()
    plain = game.env.reset

    def reset() -> Any:
        game.env.force_restarts += 1
        return plain()

    game.env.reset = reset
    with pytest.raises(GameOver):
        game.reset()


def test_reset_that_returns_none_is_repeated(make_game: Callable[..., Game]) -> None:
    game, tries = make_game(), []
    plain = game.env.reset

    def reset() -> Any:
        tries.append(1)
        pair = plain()
        return pair if len(tries) == 3 else None

    game.env.reset = reset
    assert game.reset().obs.shape == (3, 30)
    assert len(tries) == 3


def test_smacv2_runs_in_its_wrapper(make_game: Callable[..., Game], tmp_path: Path) -> None:
    game = make_game("smacv2", capability_config={"n_units": 3}, obs_timestep_number=True)
    frame = game.reset()  # the wrapper's first one gives nothing
    assert game.env.resets == 2
    assert frame.obs.shape == (3, 32)  # its vectors have no zero too many
    assert game.env.config == {"n_units": 3}
    assert len(game.save_replay(str(tmp_path), "battle")) == 1


def test_protobuf_uses_python_from_version_4_on(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"
    for version, expected in (("3.20.3", None), ("7.36.2", "python")):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(worker.importlib.metadata, "version", lambda _, v=version: v)
        worker.use_python_protobuf()
        assert os.environ.get(name) == expected
    monkeypatch.delenv(name)
