"""What ``Battles`` refuses, and what it says of battles that were never begun."""

import re

import numpy as np
import pytest

from rltrain.battles import Battles, Options, StarCraft2Env
from rltrain.battles.pettingzoo import parallel_env

STOP = np.ones((2, 3), np.int64)


def made(begun=True, **options):
    battles = Battles(**{"map_name": "3m", "n_envs": 2, "options": Options(), **options})
    if begun:
        battles.reset({0: 0, 1: 2**63 - 1})
    return battles


WRONG = [
    *((lambda b, s=s: b.reset({0: s}), f"seed={s!r} of battle 0: ") for s in (-1, 2**63, 0.5, "1")),
    *((lambda b, e=e: b.reset({e: 1}), f"battle {e!r}: expected a") for e in (-1, 2, 0.5, "0")),
    (lambda b: b.step(STOP, {2: 0}), "battle 2: expected a whole number from 0 to 1"),
    (lambda b: b.step(STOP, {0: None}), "seed=None of battle 0: "),
    (lambda b: b.results([-1]), "battle -1: expected"),
    *((lambda b, a=a: b.step(STOP + a), "expected whole numbers") for a in (0.5, np.nan, 1j, 1e30)),
    *(
        (lambda b, a=a: b.step([[a] * 3] * 2), f"expected whole numbers, got [[{a!r}")
        for a in ("a", None, 2**63, 2**64)
    ),
    (lambda b: b.step([[1], [1, 1]]), "expected whole numbers, got [[1], [1, 1]]"),
    (lambda b: made(n_envs=0), "n_envs=0: expected 1, 2, 3"),
    (lambda b: made(n_envs=1.5), "n_envs=1.5: expected"),
    (lambda b: made(n_threads=0), "n_threads=0: expected"),
    (lambda b: made(rules="lite"), "unknown rules 'lite': expected one of sc2, smaclite"),
    (
        lambda b: made(rules="lite", map_data=b.map_data),
        "unknown rules 'lite': expected one of sc2, smaclite",
    ),
    (lambda b: made(jitter=-1), "jitter=-1: expected a finite number, 0 or more"),
    (lambda b: made(jitter=np.nan), "jitter=nan: expected a finite number, 0 or more"),
]


@pytest.mark.parametrize(("call", "said"), WRONG, ids=[said for _, said in WRONG])
def test_what_there_is_not_is_refused_and_changes_nothing(call, said):
    battles = made()
    before = battles.state_dict()
    with pytest.raises(ValueError, match=re.escape(said)):
        call(battles)
    assert all(np.array_equal(before[name], now) for name, now in battles.state_dict().items())


def test_whole_numbers_of_any_type_are_counts_and_seeds():
    """Defect: NumPy's error."""
    assert made(n_envs=2.0, n_threads=1.0).obs.shape[0] == 2
    env = StarCraft2Env(map_name="3m")
    env.begin(3.0)
    env.reset()


def test_whole_numbers_of_any_type_are_actions():
    one, other = made(), made()
    one.step(STOP)
    other.step((STOP * 1.0).tolist())
    assert (one.obs == other.obs).all()


def test_a_battle_that_was_never_reset_is_neither_stepped_nor_over():
    """Defect: all units were dead in it."""
    battles = made(begun=False)
    battles.reset({1: 0})
    for call in (lambda: battles.step(STOP), lambda: battles.results([0, 1])):
        with pytest.raises(RuntimeError, match=r"battle 0 was never reset: call reset\(\{0: seed"):
            call()
    assert battles.results([1])[0]["dead_allies"] == 0
    battles.step(STOP, {0: 0})
    assert len(battles.results([0, 1])) == 2
    env = StarCraft2Env(map_name="3m")
    assert not env.death_tracker_ally.any()
    assert not env.death_tracker_enemy.any()


@pytest.mark.parametrize("action", [1.5, 1e30, "x", None])
def test_what_is_no_whole_number_is_no_action_of_single_environments(action):
    env, team = StarCraft2Env(map_name="3m"), parallel_env(map_name="3m")
    env.reset()
    team.reset()
    each = dict.fromkeys(team.agents, action)
    for step in (lambda: env.step([action] * 3), lambda: team.step(each)):
        with pytest.raises(ValueError, match="expected whole numbers, got"):
            step()
