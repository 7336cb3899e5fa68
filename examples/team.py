"""A custom team environment, trained with VDN and QMIX: python examples/team.py

Two couriers start at the ends of a corridor and are rewarded when they meet in a marked room, which
both observe.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

import rltrain

ROOMS = 7


class Corridor(ParallelEnv):
    """Observations: one-hot own room and one-hot marked room; actions: left, stay, right."""

    metadata = {"name": "corridor"}
    possible_agents = ["west", "east"]
    observation_spaces = dict.fromkeys(possible_agents, spaces.Box(0, 1, (2 * ROOMS,)))
    action_spaces = dict.fromkeys(possible_agents, spaces.Discrete(3))

    def observation_space(self, agent: str) -> spaces.Space:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space:
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict, dict]:
        self.agents = list(self.possible_agents)
        self.marked = int(np.random.default_rng(seed).integers(ROOMS))
        self.place, self.t = {"west": 0, "east": ROOMS - 1}, 0
        return self.seen(), {agent: {} for agent in self.agents}

    def seen(self) -> dict[str, np.ndarray]:
        one_hot = np.eye(ROOMS, dtype=np.float32)
        return {
            agent: np.concatenate([one_hot[self.place[agent]], one_hot[self.marked]])
            for agent in self.possible_agents
        }

    def step(self, actions: dict[str, int]) -> tuple[dict, dict, dict, dict, dict]:
        self.t += 1
        for agent, action in actions.items():
            self.place[agent] = min(max(self.place[agent] + action - 1, 0), ROOMS - 1)
        met = all(place == self.marked for place in self.place.values())
        cut = self.t == 20 and not met  # a time limit truncates
        self.agents = [] if met or cut else list(self.possible_agents)
        reward = 1.0 if met else -0.05
        return (
            self.seen(),
            dict.fromkeys(actions, reward),
            dict.fromkeys(actions, met),
            dict.fromkeys(actions, cut),
            {agent: {} for agent in actions},
        )


def main(total_env_steps: int = 20_000) -> dict[str, float]:
    """Return each algorithm's mean return in the last test; the best policy reaches about 0.8."""
    print(rltrain.check_env(Corridor))
    returns = {}
    for algo in ("vdn", "qmix"):
        overrides = {
            "algo": algo,
            "env.reward": "mean",
            "total_env_steps": total_env_steps,
            "test.interval": total_env_steps // 4,
            "algo.exploration.env_steps": total_env_steps // 2,
            "algo.optimizer.lr": 2e-3,
            "algo.target_update.episodes": 50,
        }
        result = rltrain.train(overrides, env=Corridor)
        returns[algo] = result.metrics["test/return_mean"]
    print(returns)
    return returns


if __name__ == "__main__":
    main()
