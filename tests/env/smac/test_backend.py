"""The built-in engine and StarCraft II behind one interface."""

from pathlib import Path

import numpy as np
import pytest

from rltrain.battles.native import NativeBattles
from rltrain.battles.options import Options
from rltrain.env.smac.starcraft2.games import Games
from rltrain.env.smac.starcraft2.worker import Recipe
from tests.battles.specs import env_spec

ENGINE = Path(__file__).parents[3] / "rltrain" / "battles" / "engine"


def native() -> NativeBattles:
    return NativeBattles(map_name="3m", n_envs=2, options=Options(), heuristic_ai=True)


def games() -> Games:
    recipe, about = Recipe("smac", {}), {"backend": "sc2"}
    return Games(
        recipe=recipe, spec=env_spec("3m"), n_envs=2, max_restarts=1, timeout_s=1.0, about=about
    )


def test_battles_of_the_engine_are_never_lost() -> None:
    battles = native()
    battles.start({0: 0, 1: 1})
    battles.step(np.ones((2, 3), np.int64))
    assert not battles.lost.any()


def test_game_is_neither_rendered_nor_played_by_scripted_policies() -> None:
    with pytest.raises(RuntimeError, match=r"record its \.SC2Replay files"):
        games().render([0])
    with pytest.raises(ValueError, match=r"env\.backend=native, or algo\.policy=random"):
        games().scripted("focus")


def test_importing_the_engine_imports_neither_rendering_nor_scripted_policies() -> None:
    for path in ENGINE.glob("*.py"):
        assert "smac.render" not in path.read_text(encoding="utf-8"), path.name
        assert "smac.scripted" not in path.read_text(encoding="utf-8"), path.name
