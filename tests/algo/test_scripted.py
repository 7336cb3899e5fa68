"""The policy behind ``algo=scripted``: an environment's script, chance mixed in, its state."""

from typing import get_args, get_type_hints

import numpy as np
import pytest

from rltrain.algo.scripted import Scripted
from rltrain.battles.scripted.policies import DECISIONS
from rltrain.env.games.matrix import TwoStepGames
from rltrain.types import Clock, EnvSpec


class Ones:
    """Two environments of three agents and four actions; their scripted policy chooses action 1,
    always in the same array, and counts its calls.
    """

    n_envs = 2

    def __init__(self):
        self.spec = EnvSpec(n_agents=3, n_actions=4, obs_shape=(1,))
        self.calls, self.action = 0, np.ones((2, 3), np.int64)

    def scripted(self, name):
        assert name == "closest"
        return self

    def __call__(self):
        self.calls += 1
        return self.action

    def state_dict(self):
        return {"calls": self.calls}

    def load_state_dict(self, state):
        self.calls = state["calls"]


def player(policy="closest", epsilon=0.0, env=None, seed=0):
    rng = np.random.default_rng(seed)
    return Scripted(policy=policy, env=env or Ones(), epsilon=epsilon, rng=rng)


def act(policy, avail=None):
    avail = np.ones((2, 3, 4), np.uint8) if avail is None else avail
    return policy.act(np.zeros((2, 3, 1)), avail, np.zeros(2, bool), Clock())


def test_it_plays_what_the_environments_script_says():
    assert (act(player()) == 1).all()


def test_epsilon_mixes_available_actions_in():
    avail = np.zeros((2, 3, 4), np.uint8)
    avail[..., [1, 3]] = 1
    policy = player(epsilon=0.5)
    chosen = np.stack([act(policy, avail) for _ in range(200)])
    assert set(np.unique(chosen)) == {1, 3}
    assert (chosen == 3).mean() == pytest.approx(0.25, abs=0.05)


def test_random_is_uniform_over_the_available_and_needs_no_script():
    env = TwoStepGames(n_envs=2)
    policy = player("random", env=env)
    chosen = np.stack([act(policy, np.ones((2, 2, 2), np.uint8)) for _ in range(200)])
    assert chosen.mean() == pytest.approx(0.5, abs=0.05)


def test_an_environment_without_scripts_says_what_to_type():
    with pytest.raises(ValueError, match=r"closest needs battles.*env=smac"):
        player(env=TwoStepGames(n_envs=2))


def test_its_state_is_the_scripts_and_the_random_streams():
    one, other = player(epsilon=0.5), player(epsilon=0.5, seed=1)
    act(one)
    other.load_state_dict(one.state_dict())
    assert other.state_dict() == one.state_dict()
    assert (act(other) == act(one)).all()


def test_the_choices_are_random_and_every_script_of_the_battles():
    choices = get_args(get_type_hints(Scripted.__init__)["policy"])
    assert sorted(choices) == sorted(["random", *DECISIONS])
