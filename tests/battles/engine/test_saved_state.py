"""Saved battles with numbers that no battle has: refused before compiled code reads them."""

import numpy as np
import pytest

from rltrain.battles.data.maps import map_names
from rltrain.battles.engine.battles import Battles
from rltrain.battles.engine.world import M, Order, U
from rltrain.battles.options import Options, Smacv2Options
from rltrain.battles.scripted.policies import BattleDecisions, find_policy

CASES = [
    *(("unit", np.s_[:, row, -1], bad) for row in U for bad in (np.nan, np.inf)),
    *(("unit", np.s_[:, row, -1], bad) for row in (U.X, U.Y) for bad in (-1.0, 32.0)),
    *(("unit", np.s_[:, row, -1], 1e9) for row in (U.GOAL_X, U.GOAL_Y)),  # of an attack-move
    *(("mark", np.s_[:, row, 0], 99_999) for row in M if row != M.HELP_AT),
    *(("mark", np.s_[:, row, 0], -2) for row in M if row != M.HELP_AT),
    *((name, np.s_[-1], -2) for name in ("clock", "outcome", "last_action", "kind", "blank")),
    *((name, np.s_[-1], 99_999) for name in ("clock", "outcome", "last_action", "kind", "blank")),
    *((name, np.s_[-1], bad) for name in ("enemies", "order", "watcher") for bad in (-2, 99_999)),
    *((name, np.s_[-1], 3) for name in ("enemies", "order")),  # the same one more than once
    *((name, np.s_[-1], bad) for name in ("factor", "facing") for bad in (np.nan, -2.0)),
    *((name, np.s_[-1], 2) for name in ("watches", "commanded")),
    ("rng", np.s_[-1], 0),
]

RACES = "protoss", "terran", "zerg"


@pytest.fixture(scope="module")
def battles():
    made = Battles(map_name="3m", n_envs=2, options=Options(), two_sided=True)
    made.other.commanded[0] = True
    made.reset({0: 1, 1: 2})
    assert (made.world.mark[1, M.ORDER, 3:] == Order.ATTACK_MOVE).all()
    return made


def test_a_battle_that_no_run_has_is_refused_with_the_name_of_the_array(battles):
    for name, where, bad in CASES:
        for side in ("other",) if name == "order" else ("", "other"):
            state = battles.state_dict()
            part = state["other"] if side else state
            if side and name == "unit" and bad in (32.0, 1e9):
                continue  # nothing moves there
            part[name][where] = bad
            with pytest.raises(ValueError, match=f"^battle state '{name}.*' has "):
                battles.load_state_dict(state)
            for wrong in (part[name][:1], np.zeros(part[name].shape, np.float16), None):
                part[name] = wrong
                with pytest.raises(ValueError, match=f"^battle state '{name}' does not fit"):
                    battles.load_state_dict(state)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [*map_names(), *(f"{race}_10_vs_11" for race in RACES)])
def test_a_battle_is_loaded_as_it_was_at_every_step(name):
    options = Smacv2Options() if name.startswith(RACES) else Options()
    made = Battles(map_name=name, n_envs=2, options=options, two_sided=True)
    made.other.commanded[0] = True
    made.reset({0: 1, 1: 2})
    act = BattleDecisions(made, find_policy("heuristic"))
    for _ in range(40):
        before = made.state_dict()
        made.load_state_dict(before)
        act.load_state_dict(act.state_dict())
        np.testing.assert_equal(made.state_dict(), before)
        over = np.flatnonzero(made.ended).tolist()
        made.step(act(), dict.fromkeys(over, 3), made.other.avail.argmax(-1))


def test_remembered_targets_that_there_are_not_are_refused(battles):
    act = BattleDecisions(battles, find_policy("heuristic"))
    for bad in (-2, 3, 99_999):
        with pytest.raises(ValueError, match="'memory' has"):
            act.load_state_dict({"memory": np.full((2, 3), bad)})
