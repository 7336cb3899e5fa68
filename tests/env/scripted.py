"""Gymnasium environments that do what a test tells them."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from rltrain.env.gymnasium import GymnasiumEnv
from rltrain.env.make_gymnasium import gymnasium_env
from rltrain.env.vector import SyncVectorEnv
from rltrain.errors import EnvError


class Scripted(gymnasium.Env):
    """Shows given observations one after the other; remembers seeds and actions."""

    def __init__(
        self,
        space: spaces.Space | None = None,
        shows: list[Any] | None = None,
        actions: spaces.Space | None = None,
        rewards: tuple[float, ...] = (1.0,),
        masks: list[Any] | None = None,
        ends: tuple[str, ...] = (),
    ) -> None:
        self.observation_space = space or spaces.Box(-1, 1, (2,), np.float32)
        self.action_space = actions or spaces.Discrete(3)
        self.shows = shows or [np.zeros(2, np.float32)]
        self.rewards, self.masks, self.ends = rewards, masks, ends
        self.t, self.seeds, self.taken = 0, [], []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.t = 0
        self.seeds.append(seed)
        return self._seen()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.taken.append(action)
        reward = self.rewards[self.t % len(self.rewards)]
        end = self.ends[self.t] if self.t < len(self.ends) else ""
        self.t += 1
        obs, info = self._seen()
        return obs, reward, end == "terminated", end == "truncated", info

    def double(self, x: int) -> int:
        return 2 * x

    def _seen(self) -> tuple[Any, dict[str, Any]]:
        info = {} if self.masks is None else {"action_mask": self.masks[self.t % len(self.masks)]}
        return self.shows[self.t % len(self.shows)], info


class Counting(Scripted):
    """Says how many steps were taken."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, terminated, truncated, {**info, "metrics": {"score": np.int64(self.t)}}


class Plain(gymnasium.Env):
    """Pays ``reward`` in each of ``length`` steps and shows ``seen``, zeros unless overridden."""

    observation_space, action_space = spaces.Box(-1, 1, (2,)), spaces.Discrete(2)
    reward, length = 1.0, 5

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return self.seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        return self.seen(), self.reward, self.t == self.length, False, {}

    def seen(self) -> Any:
        return np.zeros(self.observation_space.shape, self.observation_space.dtype)


class Sampled(Plain):
    """Shows samples of its observation space; subclasses name the spaces."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.observation_space.seed(seed)
        return super().reset(seed=seed)

    def seen(self) -> Any:
        return self.observation_space.sample()


gymnasium.register("Scripted-v0", entry_point=Scripted)
gymnasium.register("Limited-v0", entry_point=Scripted, max_episode_steps=3)
gymnasium.register(
    "Continuous-v0", entry_point=Scripted, kwargs={"actions": spaces.Box(-1, 1, (2,))}
)
BROKEN_REWARD = {"rewards": (1.0, float("nan"))}
BROKEN_OBS = {"shows": [np.zeros(2, np.float32), np.array([0, np.nan], np.float32)]}
gymnasium.register("BrokenReward-v0", entry_point=Scripted, kwargs=BROKEN_REWARD)


def fails(env: Any, match: str, seed: int = 7, n_before: int = 0) -> None:
    """The step after ``n_before`` ones of an environment is refused."""
    env = GymnasiumEnv(env)
    env.reset(seed)
    for _ in range(n_before):
        go(env)
    with pytest.raises(EnvError, match=match):
        go(env)


def go(env: GymnasiumEnv, action: int = 0) -> tuple[Any, ...]:
    return env.step(np.array([action]))


class Zeros:
    """A policy that takes action 0."""

    def act(self, obs: np.ndarray, *rest: Any) -> np.ndarray:
        return np.zeros(obs.shape[:2], np.int64)

    def reset(self, *state: Any) -> None:
        """Nothing."""

    state_dict = carry_on = forget = reset


DEFAULTS: dict[str, Any] = {
    **{"training": True, "record": False, "kwargs": {}, "time_limit": "bootstrap"},
    **{"max_episode_steps": None, "frame_stack": 1, "reward_clip": None, "reward": "sum"},
    **{"factored": False, "channels": "auto"},
}


def made(id: str, **given: Any) -> SyncVectorEnv:
    env = gymnasium_env(id=id, **{"n_envs": 1, **DEFAULTS, **given})
    assert isinstance(env, SyncVectorEnv)
    return env


class Drawn(Scripted):
    """Draws the step of its episode."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None, **given: Any) -> None:
        super().__init__(**given)
        self.render_mode = render_mode

    def render(self) -> np.ndarray:
        return np.full((2, 2, 3), self.t, np.uint8)


class Blind(Drawn):
    """Lacks what drawing needs."""

    def render(self) -> np.ndarray:
        raise gymnasium.error.DependencyNotInstalled("no pygame, run `pip install pygame`")


gymnasium.register("Drawn-v0", entry_point=Drawn, max_episode_steps=3)
gymnasium.register("Blind-v0", entry_point=Blind)
