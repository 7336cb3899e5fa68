"""A parallel environment in which everything is prescribed."""

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv


class Scripted(ParallelEnv):
    """Agents a, b, … see (seed, t); agent i is paid (i + 1) · its action at every step.

    ``leaves`` names the step at which an agent leaves, and how.
    """

    def __init__(self, leaves=None, sizes=(2, 2), actions=(2, 2), length=3, cut=False, mask=None):
        self.metadata = {"name": "scripted"}
        self.leaves, self.length, self.cut, self.mask = leaves or {}, length, cut, mask
        self.possible_agents = [chr(97 + i) for i in range(len(sizes))]
        self.sizes = dict(zip(self.possible_agents, sizes, strict=True))
        self.observation_spaces = {a: spaces.Box(-1, 99, (n,)) for a, n in self.sizes.items()}
        self.action_spaces = {
            a: n if isinstance(n, spaces.Space) else spaces.Discrete(n)
            for a, n in zip(self.possible_agents, actions, strict=False)
        }
        self.given = []

    def observation_space(self, agent):
        return self.observation_spaces[agent]

    def action_space(self, agent):
        return self.action_spaces[agent]

    def reset(self, seed=None, options=None):
        self.agents, self.t, self.seed = list(self.possible_agents), 0, seed
        return self.seen(self.agents), self.infos(self.agents)

    def step(self, actions):
        self.t += 1
        self.given.append(actions)
        acting, over = self.agents, self.t == self.length
        leave = {a: self.leaves.get(a) == self.t for a in acting}
        terminated = {a: leave[a] or (over and not self.cut) for a in acting}
        truncated = {a: over and self.cut and not leave[a] for a in acting}
        rewards = {a: float(np.sum(actions[a]) * (ord(a) - 96)) for a in acting}
        self.agents = [a for a in acting if not terminated[a] and not truncated[a]]
        return self.seen(acting), rewards, terminated, truncated, self.infos(acting)

    def seen(self, agents):
        return {
            a: np.resize([(self.seed or 0) % 50, self.t], self.sizes[a]).astype(np.float32)
            for a in agents
        }

    def infos(self, agents):
        return {a: {} if self.mask is None else {"action_mask": self.mask} for a in agents}


class Stateful(Scripted):
    """The same with a global state: the time step."""

    def state(self):
        return np.array([self.t], np.float32)


def stepping(change, base=Scripted, name="Changed"):
    """A class whose steps return what ``change`` makes of the environment and what they gave."""
    step = lambda self, actions: change(self, *base.step(self, actions))  # noqa: E731
    return type(name, (base,), {"step": step})


class Turns(AECEnv):
    """a, b and c in turns; a dies in the second round."""

    render_mode = None

    def __init__(self):
        self.metadata = {"name": "turns", "is_parallelizable": True}
        self.possible_agents = ["a", "b", "c"]
        self.seen = {a: spaces.Box(0, 99, (1,)) for a in self.possible_agents}
        self.chosen = {a: spaces.Discrete(2) for a in self.possible_agents}

    def observation_space(self, agent):
        return self.seen[agent]

    def action_space(self, agent):
        return self.chosen[agent]

    def observe(self, agent):
        return np.array([self.rounds], np.float32)

    def reset(self, seed=None, options=None):
        self.agents, self.rounds = list(self.possible_agents), 0
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {a: {} for a in self.agents}
        self.agent_selection = "a"

    def step(self, action):
        one = self.agent_selection
        if self.terminations[one] or self.truncations[one]:
            self._was_dead_step(action)
            if self.agents:
                self.agent_selection = self.agents[0]
            return
        last = one == self.agents[-1]
        self.rewards = {a: float(last) for a in self.agents}
        after = self.agents.index(one) + 1
        self.agent_selection = self.agents[after % len(self.agents)]
        if last:
            self.rounds += 1
            if self.rounds == 2:
                self.terminations["a"] = True
            if self.rounds == 5:
                self.truncations = dict.fromkeys(self.agents, True)
