"""A game of two teams: each team wants to call the numbers that its agents see."""

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

LENGTH = 6


class Duel(ParallelEnv):
    """Agents red_i and blue_i see a number each; the team with more of them called wins."""

    def __init__(self, red=2, blue=2, watcher=False):
        self.metadata = {"name": "duel"}
        self.possible_agents = [f"red_{i}" for i in range(red)] + [f"blue_{i}" for i in range(blue)]
        self.possible_agents += ["watcher"] if watcher else []
        self.seen = spaces.Box(0, 1, (4,))
        self.chosen = spaces.Discrete(3)

    def observation_space(self, agent):
        return self.seen

    def action_space(self, agent):
        return self.chosen

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.agents, self.t, self.given = list(self.possible_agents), 0, []
        self.score = {"red": 0, "blue": 0, "watcher": 0}
        return self.show(), {agent: {} for agent in self.agents}

    def show(self):
        self.number = {agent: int(self.rng.integers(3)) for agent in self.agents}
        hot = np.eye(3, dtype=np.float32)
        time = np.float32(self.t / LENGTH)
        return {agent: np.append(hot[n], time) for agent, n in self.number.items()}

    def step(self, actions):
        self.given.append({agent: int(action) for agent, action in actions.items()})
        acting, self.t = self.agents, self.t + 1
        right = {agent: int(actions[agent] == self.number[agent]) for agent in acting}
        for agent in acting:
            self.score[agent.partition("_")[0]] += right[agent]
        over = self.t == LENGTH
        obs = self.show()
        self.agents = [] if over else acting
        flags = dict.fromkeys(acting, over)
        ahead = self.score["red"] - self.score["blue"]
        infos = {a: {"win": ahead > 0 if a.startswith("red") else ahead < 0} for a in acting}
        rewards = {agent: float(right[agent]) for agent in acting}
        return obs, rewards, flags, dict.fromkeys(acting, False), infos


class NumberedDuel(ParallelEnv):
    """The same game, with whole numbers for names: 0, 1, … are red, -1, -2, … blue."""

    def __init__(self):
        self.metadata, self.game = {"name": "numbered duel"}, Duel()
        number = {"red_0": 0, "red_1": 1, "blue_0": -1, "blue_1": -2}
        self.numbered = lambda each: {number[name]: value for name, value in each.items()}
        self.called = {n: name for name, n in number.items()}
        self.possible_agents = [number[name] for name in self.game.possible_agents]
        self.observation_space = lambda agent: self.game.seen
        self.action_space = lambda agent: self.game.chosen

    @property
    def agents(self):
        return [*self.numbered(dict.fromkeys(self.game.agents))]

    def reset(self, seed=None, options=None):
        return tuple(map(self.numbered, self.game.reset(seed, options)))

    def step(self, actions):
        named = {self.called[n]: action for n, action in actions.items()}
        return tuple(map(self.numbered, self.game.step(named)))
