"""A stand-in for the SMAC packages and StarCraft II, and environments that run in it."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rltrain.battles.options import Options
from rltrain.env.smac.starcraft2.worker import Game, Recipe
from rltrain.env.smac.vector import SmacVectorEnv
from tests.env.smac.starcraft2.stand_in import (
    ATTACK,
    STOP,
    install_game,
    install_package,
    install_smacv2,
)

PLAY, WIN = [STOP, STOP, STOP], [STOP, ATTACK, STOP]


def seeds(e: int, k: int) -> int:
    return 100 * e + 10 * k + 7


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
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
def games(installed: Path) -> Iterator[SmacVectorEnv]:
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


@pytest.fixture
def make_game(installed: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Game]:
    """A worker's game, here in this process."""
    monkeypatch.setenv("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python")

    def make(package: str = "smac", **options: Any) -> Game:
        given = {**vars(Options()), "map_name": "3m", "replay_dir": "", "replay_prefix": ""}
        return Game(Recipe(package, {**given, **options}), 0)

    return make
