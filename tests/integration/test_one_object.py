"""Makers that give one environment object at every call are refused."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import rltrain
from rltrain.env.games.matrix import TwoStepGames
from rltrain.env.make_gymnasium import from_class, gymnasium_env
from rltrain.env.team.make_pettingzoo import pettingzoo_env
from rltrain.errors import UsageError
from tests.env.scripted import DEFAULTS, Scripted
from tests.env.team.scripted import Scripted as Team
from tests.env.team.scripted import Turns

ONE, ONE_TEAM, ONE_IN_TURNS = Scripted(), Team(), Turns()
TUPLES = Scripted(
    spaces.Tuple([spaces.Discrete(2)] * 2), [(0, 0)], spaces.Tuple([spaces.Discrete(2)] * 2)
)


def the_one():
    return ONE


def wrapped():
    """A wrapper of its own around the same environment."""
    return gymnasium.wrappers.TimeLimit(ONE, 3)


gymnasium.register("TheOne-v0", entry_point=the_one)
HERE = __name__
PETTINGZOO = {n: x for n, x in DEFAULTS.items() if n not in ("reward_clip", "factored")}
MAKERS = {
    "object": lambda: from_class(lambda: ONE, n_envs=2, **DEFAULTS),
    "wrapper": lambda: from_class(wrapped, n_envs=2, **DEFAULTS),
    "team": lambda: from_class(lambda: ONE_TEAM, n_envs=2, **DEFAULTS),
    "turns": lambda: from_class(lambda: ONE_IN_TURNS, n_envs=2, **DEFAULTS),
    "tuples": lambda: from_class(lambda: TUPLES, n_envs=2, **DEFAULTS),
    "factored": lambda: from_class(lambda: ONE_OF_TWO, n_envs=2, **{**DEFAULTS, "factored": True}),
    "function": lambda: gymnasium_env(id=f"{HERE}:the_one", n_envs=2, **DEFAULTS),
    "registered": lambda: gymnasium_env(id="TheOne-v0", n_envs=2, **DEFAULTS),
    "pettingzoo": lambda: pettingzoo_env(id=f"{HERE}:the_team", n_envs=2, **PETTINGZOO),
}
ONE_OF_TWO = Scripted(actions=spaces.MultiDiscrete([2, 3]))


def the_team():
    return ONE_TEAM


@pytest.mark.parametrize("kind", MAKERS)
def test_environments_that_are_one_object_are_refused(kind):
    with pytest.raises(ValueError, match=r"the same (Scripted|Turns) in two calls: .*, which m"):
        MAKERS[kind]()


SMALL = ["hardware.threads=1", "hardware.n_envs=1", "test.n_envs=1", "test.episodes=2"]


@pytest.mark.parametrize(
    ("overrides", "env"),
    [
        (["algo=dqn"], lambda: ONE),
        (["algo=dqn", "env=gymnasium", f"env.id={HERE}:the_one"], None),
        (["algo=dqn", "env=gymnasium", "env.id=TheOne-v0"], None),
        (["algo=vdn", "env=pettingzoo"], lambda: ONE_TEAM),
        (["algo=vdn", "env=pettingzoo", f"env.id={HERE}:the_team"], None),
        (["algo=vdn"], lambda n_envs: ONE_BATCH),
    ],
    ids=["object", "function", "registered", "team", "pettingzoo", "batched"],
)
def test_training_and_tests_do_not_share_one(overrides, env, tmp_path):
    with pytest.raises(UsageError, match=r"the same \w+ in two calls: .*training and tests"):
        rltrain.make_trainer([*SMALL, *overrides], tmp_path, env=env)


ONE_BATCH = TwoStepGames(n_envs=1)


def test_an_object_is_answered_with_what_makes_new_ones(tmp_path):
    said = r"lambda: MyEnv\(\.\.\.\), which makes a new one at every call"
    with pytest.raises(UsageError, match=said):
        rltrain.make_trainer(SMALL, tmp_path, env=ONE)


def test_one_environment_may_be_checked():
    assert rltrain.check_env(Scripted(shows=[np.zeros(2, np.float32)])).problems == []
