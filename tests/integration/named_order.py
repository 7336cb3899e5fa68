"""A team whose agents have another order in every process that is told so."""

import os

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

ORDER = "NAMED_ORDER"
"""The environment variable with the names."""
NAMES = "abcd"


class NamedOrder(ParallelEnv):
    """Each agent is paid for the action of its own name: a and c for 0, b and d for 1. All see the
    same, and d has an action more.
    """

    def __init__(self, training=True):
        self.metadata = {"name": "named_order"}
        others = os.environ.get(ORDER + "_TEST") if not training else None
        self.possible_agents = list(others or os.environ.get(ORDER, NAMES))
        self.spaces = {
            a: (spaces.Box(0, 1, (1,)), spaces.Discrete(2 + (a == "d")))
            for a in self.possible_agents
        }

    def observation_space(self, agent):
        return self.spaces[agent][0]

    def action_space(self, agent):
        return self.spaces[agent][1]

    def seen(self):
        return {a: np.ones(1, np.float32) for a in self.possible_agents}

    def reset(self, seed=None, options=None):
        self.agents, self.t = list(self.possible_agents), 0
        return self.seen(), {a: {} for a in self.agents}

    def step(self, actions):
        self.t += 1
        rewards = {a: float(x == (ord(a) - 97) % 2) for a, x in actions.items()}
        cut = self.t == 3
        self.agents = [] if cut else self.agents
        flags = dict.fromkeys(actions, False), dict.fromkeys(actions, cut)
        return self.seen(), rewards, *flags, {a: {} for a in actions}
