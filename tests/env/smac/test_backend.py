"""The built-in engine and StarCraft II behind one interface, and their options as settings."""

from pathlib import Path

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from rltrain.battles.native import NativeBattles
from rltrain.battles.option_checks import Range
from rltrain.battles.options import Options
from rltrain.common.number_types import Count, Flag, NonNegative, Positive, Probability, Real
from rltrain.env.smac import Smacv2VectorEnv, SmacVectorEnv
from rltrain.env.smac.backend import NUMBERS
from rltrain.env.smac.starcraft2.games import Games
from rltrain.env.smac.starcraft2.worker import Recipe
from tests.battles.specs import env_spec

ENGINE = Path(__file__).parents[3] / "rltrain" / "battles" / "engine"


def games() -> Games:
    recipe, about = Recipe("smac", {}), {"backend": "sc2"}
    return Games(
        recipe=recipe, spec=env_spec("3m"), n_envs=2, max_restarts=1, timeout_s=1.0, about=about
    )


def test_battles_of_the_engine_are_never_lost() -> None:
    battles = NativeBattles(map_name="3m", n_envs=2, options=Options(), heuristic_ai=True)
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


@pytest.mark.parametrize("env", [SmacVectorEnv, Smacv2VectorEnv])
def test_every_range_becomes_the_type_that_settings_are_checked_against(env):
    annotations = env.__init__.__annotations__
    metadata = [part for a in annotations.values() for part in getattr(a, "__metadata__", ())]
    assert not any(isinstance(part, Range) for part in metadata)
    assert (annotations["step_mul"], annotations["reward_sparse"]) == (Count, Flag)
    assert annotations["move_amount"] == Positive


@pytest.mark.parametrize(
    "value", [-1, 0, 1e-300, 0.5, 1, 1.5, 2, 2**63, 10**400, True, "1", None, float("nan")]
)
def test_both_refuse_the_same_numbers(value):
    for own, checked in NUMBERS.items():
        (limits,) = own.__metadata__
        try:
            TypeAdapter(checked).validate_python(value)
            allowed = True
        except ValidationError:
            allowed = False
        if not isinstance(value, bool) and checked != Flag:  # 0 and 1 of Python programs are flags
            assert limits.holds(value) is allowed, (checked, value)


def test_all_types_have_a_range():
    assert [*NUMBERS.values()] == [Count, Flag, NonNegative, Positive, Probability, Real]


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"reward_win": -165.0}, "env.reward_win=-165.0: "),
        ({"maps": ["3m", "8m"], "reward_win": -165.0}, "env.reward_win=-165.0: "),
        ({"reward_defeat": 1e300}, r"env.reward_defeat=1e\+300: "),
        ({"step_mul": 10**9}, "env.step_mul=1000000000: "),
        ({"start_jitter": 1e300}, r"env.start_jitter=1e\+300: "),
        ({"start_positions": "nowhere"}, "env.start_positions: the file nowhere "),
        ({"map_file": "nowhere"}, "env.map_file: the file nowhere "),
        ({"maps": ["3m", "9q"]}, r"env.maps=\['3m', '9q'\]: unknown units in the map '9q'"),
        (
            {"rules": "smaclite", "backend": "sc2"},
            "env.backend=sc2 .*: type env=smac env.rules=sc2",
        ),
        (
            {"two_sided": True, "rules": "smaclite"},
            "An opponent .*: type env=smac env.rules=sc2, or",
        ),
        ({"two_sided": True, "backend": "sc2"}, "An opponent .*: type env.backend=native, or"),
    ],
)
def test_errors_of_battles_name_the_setting(options, key):
    with pytest.raises(ValueError, match=f"^{key}"):
        SmacVectorEnv(map_name="3m", n_envs=1, **options)


@pytest.mark.parametrize("backend", ["native", "auto", "sc2"])
@pytest.mark.parametrize(("env", "name"), [(SmacVectorEnv, "3m"), (Smacv2VectorEnv, "zerg_5_vs_5")])
@pytest.mark.parametrize(
    "options",
    [
        {"reward_win": -600.0},
        {"reward_win": float("nan")},
        {"reward_death_value": -1.0},
        {"reward_scale_rate": 0.0},
        {"reward_negative_scale": -1.0},
        {"reward_defeat": 1e300},
    ],
)
def test_both_engines_refuse_the_same_rewards(env, name, options, backend):
    """Defect: StarCraft II got rewards that are divided by a negative number."""
    with pytest.raises(ValueError, match=f"^env.{next(iter(options))}="):
        env(map_name=name, n_envs=1, backend=backend, **options)
