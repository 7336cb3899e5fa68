"""Mistakes in one's own environments are named, also makers that give one object at every call."""

from dataclasses import replace
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import rltrain
from rltrain.env.games.matrix import TwoStepGames
from rltrain.env.make_gymnasium import from_class, gymnasium_env
from rltrain.env.team.make_pettingzoo import pettingzoo_env
from rltrain.env.vector import SyncVectorEnv
from rltrain.errors import EnvError, RltrainError, UsageError
from tests.conftest import CARTPOLE
from tests.env.scripted import DEFAULTS, Plain, Scripted
from tests.env.team.scripted import Scripted as Team
from tests.env.team.scripted import Turns
from tests.hardware.walks import Walk
from tests.helpers import over, without

HERE = __name__
WORDS = [*without(CARTPOLE, "env="), "algo=dqn"]


class Ending(Plain):
    """One step, with a reward and a flag of any type."""

    observation_space, over = spaces.Box(-1, 1, (1,)), True

    def step(self, action):
        return self.seen(), self.reward, self.over, False, {}


def ending(**changes):
    return type("Own", (Ending,), changes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"over": "False"}, r"returned terminated='False': expected True or False"),
        ({"over": None}, r"returned terminated=None: expected True or False"),
        ({"reward": "1.0"}, r"the reward '1\.0': expected one number, .*got text"),
        ({"reward": 1e300}, r"the reward 1e\+300: expected a finite number, at most 3e\+38"),
    ],
    ids=lambda x: str(x)[:24],
)
def test_text_is_neither_a_reward_nor_a_flag(tmp_path, changes, said):
    with pytest.raises(EnvError, match=said):
        rltrain.make_trainer(WORDS, tmp_path, env=ending(**changes)).train()


@pytest.mark.parametrize("spec", [replace(Walk.spec, n_actions=0), replace(Walk.spec, obs_shape=3)])
def test_a_spec_that_no_environment_has_is_refused_wherever_it_enters(tmp_path, spec):
    """Defect: raw errors of PyTorch and NumPy."""
    batched, own = SyncVectorEnv(make=Walk, n_envs=1), type("Own", (Walk,), {"spec": spec})
    batched.spec = spec
    words = over(WORDS, "algo=iql")
    for make in (
        lambda: rltrain.make_learner(words, spec),
        lambda: SyncVectorEnv(make=own, n_envs=1),
        lambda: rltrain.make_trainer(words, tmp_path, env=lambda n_envs: batched),
    ):
        with pytest.raises(
            (ValueError, UsageError), match=r"is no valid .*(n_actions is 0|obs_sh)"
        ):
            make()


def test_an_observation_without_numbers_is_refused():
    (problem,) = rltrain.check_env(ending(observation_space=spaces.Box(-1, 1, (0,)))).problems
    assert "which have no numbers" in problem


def test_a_failure_is_told_where_the_console_is_off(own_folder, capsys):
    with pytest.raises(RuntimeError):
        rltrain.train(WORDS, env=ending(reward=float("nan")))
    assert "returned the reward nan" in capsys.readouterr().err


class Counted(Ending):
    """Remembers all objects of a test, and whether they were closed."""

    most, changes_at = 99, 99

    def __init__(self):
        if len(self.made) == self.most:
            raise ValueError("no more of them")
        n_numbers = 2 if len(self.made) >= self.changes_at else 1
        self.observation_space, self.closed = spaces.Box(-1, 1, (n_numbers,)), False
        self.made.append(self)

    def close(self):
        self.closed = True


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        *(({"most": n}, []) for n in (1, 2)),
        *(({"changes_at": n}, []) for n in (1, 2)),
        ({}, ["algo=qmix"]),
        ({}, ["env.opponent=random"]),
        ({}, ["buffer.capacity=1", "algo.batch_size=64"]),
    ],
)
def test_environments_are_closed_where_what_is_built_later_is_refused(tmp_path, changes, words):
    """Defect: they stayed open, such as games in processes of their own."""
    env = type("Own", (Counted,), {"made": [], **changes})
    words = over(WORDS, "hardware.n_envs=2", "test.n_envs=2", *words)
    with pytest.raises(RltrainError):
        rltrain.make_trainer(words, tmp_path, env=env)
    assert all(each.closed for each in env.made)


def test_environments_of_a_refused_evaluation_are_closed(tmp_path):
    trainer = rltrain.make_trainer(WORDS, tmp_path / "run", env=Ending)
    folder = trainer.export(tmp_path / "weights")
    trainer.close()
    env = type("Own", (Counted,), {"made": [], "changes_at": 0})
    with pytest.raises(RltrainError, match="does not fit"):
        rltrain.evaluate(folder, 1, env=env)
    assert env.made
    assert all(each.closed for each in env.made)


ONE, ONE_TEAM, ONE_IN_TURNS, ONE_BATCH = Scripted(), Team(), Turns(), TwoStepGames(n_envs=1)
ONE_OF_TWO = Scripted(actions=spaces.MultiDiscrete([2, 3]))
TUPLES = Scripted(
    spaces.Tuple([spaces.Discrete(2)] * 2), [(0, 0)], spaces.Tuple([spaces.Discrete(2)] * 2)
)


def the_one():
    return ONE


def the_team():
    return ONE_TEAM


def wrapped():
    """A wrapper of its own around the same environment."""
    return gymnasium.wrappers.TimeLimit(ONE, 3)


gymnasium.register("TheOne-v0", entry_point=the_one)
PETTINGZOO = {n: x for n, x in DEFAULTS.items() if n not in ("reward_clip", "factored")}
CLASSES = {
    "object": the_one,
    "wrapper": wrapped,
    "team": the_team,
    "turns": lambda: ONE_IN_TURNS,
    "tuples": lambda: TUPLES,
    "factored": lambda: ONE_OF_TWO,
}


@pytest.mark.parametrize("kind", [*CLASSES, f"{HERE}:the_one", "TheOne-v0", f"{HERE}:the_team"])
def test_environments_that_are_one_object_are_refused(kind):
    given = {**DEFAULTS, "factored": kind == "factored", "n_envs": 2}
    if kind in CLASSES:
        make = partial(from_class, CLASSES[kind], **given)
    elif kind.endswith("team"):
        make = partial(pettingzoo_env, id=kind, n_envs=2, **PETTINGZOO)
    else:
        make = partial(gymnasium_env, id=kind, **given)
    with pytest.raises(ValueError, match=r"the same (Scripted|Turns) in two calls: .*, which m"):
        make()


FEW = ["hardware.threads=1", "hardware.n_envs=1", "test.n_envs=1", "test.episodes=2"]


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
        rltrain.make_trainer([*FEW, *overrides], tmp_path, env=env)


def test_an_object_is_answered_with_what_makes_new_ones(tmp_path):
    said = r"lambda: MyEnv\(\.\.\.\), which makes a new one at every call"
    with pytest.raises(UsageError, match=said):
        rltrain.make_trainer(FEW, tmp_path, env=ONE)


def test_one_environment_may_be_checked():
    assert rltrain.check_env(Scripted(shows=[np.zeros(2, np.float32)])).problems == []
