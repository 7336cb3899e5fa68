"""Episodes of every shipped environment follow from their seeds alone."""

import numpy as np
import pytest

from rltrain.api import settings_from
from rltrain.assemble.env import build_env
from tests.integration.test_choices import NEEDS, options
from tests.marks import slow_except

OF_ONE = (
    *("acrobot", "atari", "cartpole", "gymnasium", "lunarlander", "minatar", "mountaincar"),
    "trading",
)
FAST = ("cartpole", "gymnasium", "trading", "matrix", "two_step", "smac", "mpe")
"""One of each kind of environment."""
LIMIT = 8
"""Env steps of an episode."""


def chosen(name):
    algo = "dqn" if name in OF_ONE else "iql"
    words = [f"algo={algo}", "logger=[]", f"env={name}"]
    if name == "gymnasium":
        words.append("env.id=CartPole-v1")
    if name == "pettingzoo":
        words.append("env.id=mpe2.simple_spread_v3")
    return words


def played(env, k):
    """The observations of episode k, by actions that are drawn from what is available."""
    rng, seen = np.random.default_rng(k % 2), []
    for _ in range(LIMIT):
        seen.append((env.obs.copy(), env.avail_actions.copy(), env.state.copy()))
        if env.last[0]:
            break
        action = [rng.choice(np.flatnonzero(row)) for row in env.avail_actions[0]]
        env.step(np.array([action]))
    while not env.last[0]:
        env.step(np.array([[np.flatnonzero(row)[-1] for row in env.avail_actions[0]]]))
    env.step(np.array([[np.flatnonzero(row)[-1] for row in env.avail_actions[0]]]))
    return seen


@pytest.mark.parametrize("name", slow_except(FAST, options("env")))
def test_an_episode_does_not_depend_on_the_one_before(name):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    # in training, later games of Atari continue the random stream of the first
    env = build_env(settings_from(chosen(name)), 1, training=name != "atari")
    env.reset(lambda e, k: k % 2)
    first, other, again, other_again = (played(env, k) for k in range(4))
    env.close()
    np.testing.assert_equal(first, again)
    np.testing.assert_equal(other, other_again)
