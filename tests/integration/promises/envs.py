"""Environments whose observations, agents or actions are of one kind."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv


class Images(gymnasium.Env):
    """Bytes of 6 x 6; episodes of 5 to 8 steps; action 1 is right where the left half is bright."""

    observation_space = spaces.Box(0, 255, (6, 6, 1), np.uint8)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = int(self.np_random.integers(5, 9))
        return self.seen(), {}

    def step(self, action):
        reward = float(action == self.wanted)
        self.left -= 1
        return self.seen(), reward, self.left == 0, False, {}

    def seen(self):
        image = self.np_random.integers(0, 256, (6, 6, 1), np.uint8)
        self.wanted = int(image[:, :3].mean() > image[:, 3:].mean())
        return image


class Keys(Images):
    """The same beside a number, in a Dict."""

    observation_space = spaces.Dict({"image": Images.observation_space, "left": spaces.Box(0, 9)})

    def seen(self):
        return {"image": super().seen(), "left": np.array([self.left], np.float32)}


class Team(ParallelEnv):
    """Three agents are paid for matching what they see; episodes of 5 to 8 steps.

    Subclasses set the sizes of observations and actions, the agent that dies early, and whether
    actions are masked.
    """

    metadata = {"name": "team"}  # noqa: RUF012
    possible_agents = ["a", "b", "c"]  # noqa: RUF012
    sizes, actions = (2, 2, 2), (3, 3, 3)
    dies: str | None = None
    masked = False

    def observation_space(self, agent):
        return spaces.Box(-1, 9, (self.sizes[self.possible_agents.index(agent)],))

    def action_space(self, agent):
        return spaces.Discrete(self.actions[self.possible_agents.index(agent)])

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.agents, self.t = list(self.possible_agents), 0
        self.length = int(self.rng.integers(5, 9))
        return self.seen(), self.infos()

    def state(self):
        return np.array([self.t, self.wanted], np.float32)

    def seen(self):
        self.wanted = int(self.rng.integers(2))
        both = [self.wanted, self.t, 1]
        found = {}
        for agent in self.agents:
            size = self.sizes[self.possible_agents.index(agent)]
            found[agent] = np.resize(both, size).astype(np.float32)
        return found

    def infos(self):
        infos: dict[str, Any] = {}
        for i, agent in enumerate(self.agents):
            mask = np.ones(self.actions[self.possible_agents.index(agent)], np.int8)
            mask[-1] = (self.t + i) % 2
            infos[agent] = {"action_mask": mask} if self.masked else {}
        return infos

    def step(self, actions):
        rewards = {agent: float(actions[agent] == self.wanted) for agent in self.agents}
        self.t += 1
        over, acting = self.t == self.length, list(self.agents)
        ended = {agent: over or (agent == self.dies and self.t >= 3) for agent in acting}
        self.agents = acting  # those that end see their last observation
        seen, infos = self.seen(), self.infos()
        self.agents = [agent for agent in acting if not ended[agent]]
        return seen, rewards, ended, dict.fromkeys(acting, False), infos


class Unequal(Team):
    """Agents of three sizes, with two to four actions."""

    sizes, actions = (3, 1, 2), (2, 3, 4)


class Dying(Team):
    """The second agent leaves after three steps."""

    dies = "b"


class Masked(Team):
    """The last action is available at every other step."""

    masked = True


class Everything(Unequal, Dying, Masked):
    """Sizes, an early death and masks together."""


def share(trainer, episodes):
    """A test function: the share of test episodes of more than nine steps."""
    return {"long": np.mean([e.length > 9 for e in trainer.play(episodes)])}
