"""Environments of known episodes, and rollouts of them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from rltrain.env.vector import Observation, SyncVectorEnv
from rltrain.hardware.rollout import Rollout
from rltrain.types import Clock, EnvSpec

CLOCK = Clock()


class Walk:
    """Lasts seed % 4 + 1 steps, shows (seed % 1000, step); the reward is action plus step."""

    spec = EnvSpec(n_agents=2, n_actions=3, obs_shape=(2,), state_dim=1, n_rewards=2)

    def __init__(self) -> None:
        self.seed, self.t = 0, 0

    def reset(self, seed: int) -> Observation:
        self.seed, self.t = seed, 0
        return self._observation()

    def step(self, action: np.ndarray) -> tuple[Observation, np.ndarray, bool, bool, Mapping]:
        self.t += 1
        reward = (action + self.t).astype(np.float32)
        return self._observation(), reward, self.t == self.seed % 4 + 1, False, {"seed": self.seed}

    def state_dict(self) -> dict[str, Any]:
        return {"seed": self.seed, "t": self.t}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.seed, self.t = state["seed"], state["t"]

    def close(self) -> None:
        """Nothing."""

    def _observation(self) -> Observation:
        obs = np.full((2, 2), (self.seed % 1000, self.t), np.float32)
        return Observation(obs, np.ones((2, 3), np.uint8), np.array([self.t], np.float32))


class Tasked(Walk):
    """A walk that has a task, and repeats what it is told."""

    task = None

    def set_task(self, task: Any) -> None:
        self.task = task

    def get_task(self) -> Any:
        return self.task

    def echo(self, word: Any) -> Any:
        return word


class Forgetful:
    """A walk that cannot tell its state, and no episode is like another of the same seed."""

    spec = Walk.spec
    n_calls = 0

    def __init__(self) -> None:
        self.walk = Walk()
        self.close = self.walk.close

    def reset(self, seed: int) -> Observation:
        Forgetful.n_calls += 1
        return self._other(self.walk.reset(seed))

    def step(self, action: np.ndarray) -> Any:
        seen, *rest = self.walk.step(action)
        return self._other(seen), *rest

    def _other(self, seen: Observation) -> Observation:
        return seen._replace(state=seen.state + Forgetful.n_calls)


class Counter:
    """Chooses by the steps since the episode began; writes the clocks down."""

    def __init__(self, n_envs: int) -> None:
        self.count = np.zeros(n_envs, np.int64)
        self.clocks: list[Clock] = []

    def act(self, obs, avail_actions, last, clock) -> np.ndarray:
        self.clocks.append(clock)
        action = np.repeat(self.count[:, None] % 3, obs.shape[1], 1)
        self.count = np.where(last, 0, self.count + 1)
        return action

    def reset(self) -> None:
        self.count[:] = 0

    def forget(self, indices: np.ndarray) -> None:
        self.count[indices] = 0

    @property
    def hidden(self) -> np.ndarray:
        """[E, 2, 1]: the steps since the episode began, as an agent might remember them."""
        return np.repeat(self.count[:, None, None], 2, 1).astype(np.float32)

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.count = np.array(state["count"])

    def carry_on(self, state: Mapping[str, Any]) -> None:
        pass  # nothing outlives an episode


def rollout(n_envs: int, make: Any = Walk, seeds: Any = lambda i, k: i + k) -> Rollout:
    env = SyncVectorEnv(make=make, n_envs=n_envs)
    return Rollout(env=env, policy=Counter(n_envs), seeds=seeds)


class Crashing(SyncVectorEnv):
    """Walks whose environment 1 crashes in the given steps: its episode begins again."""

    def __init__(self, crashes: set[int]) -> None:
        super().__init__(make=Walk, n_envs=2)
        self.crashes, self.steps, self.lost = crashes, 0, np.zeros(2, np.bool_)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        reward, terminated = super().step(action)
        self.lost[:] = False, self.steps in self.crashes
        self.steps += 1
        if self.lost[1]:
            self._begin(1, int(self._episode[1]))
            reward[1], terminated[1] = 0, False
        return reward, terminated


def crashing(*crashes: int) -> Rollout:
    env = Crashing(set(crashes))
    return Rollout(env=env, policy=Counter(2), seeds=lambda i, k: 3)  # four steps
