"""Gymnasium environments of several agents, as parallel environments."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium import spaces

from rltrain.env.adapt import adapted


class Leaving(gymnasium.Env):
    """Two agents, of which the first one leaves at once; their actions begin at 1 and at [1, 0]."""

    observation_space = spaces.Tuple([spaces.Discrete(2)] * 2)
    action_space = spaces.Tuple(
        [spaces.MultiDiscrete([2, 2], start=[1, 0]), spaces.Discrete(2, start=1)]
    )

    def reset(self, *, seed=None, options=None):
        self.given = []
        return (0, 0), {}

    def step(self, action):
        self.given.append(action)
        return (0, 0), [0.0, 0.0], [True, False], [False, False], {}


def test_an_agent_that_has_left_is_given_its_first_action():
    env = Leaving()
    team = adapted(env)
    team.reset(0)
    for _ in range(2):
        team.step(np.array([0, 1]))
    pair, one = env.given[1]
    assert (np.asarray(pair).tolist(), one) == ([1, 0], 2)
    assert env.action_space.contains(env.given[1])
