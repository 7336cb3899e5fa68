"""SyncVectorEnv: E Python environments in lock-step, as a ``VectorEnv``.

To add an environment, write an ``Env``; this module handles seeds and resets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, cast

import numpy as np

from rltrain.interfaces import EpisodeSeeds, Script
from rltrain.types import EnvSpec


class Observation(NamedTuple):
    """One observation of one environment."""

    obs: np.ndarray  # [N, *O]
    avail_actions: np.ndarray  # [N, A] 0 or 1; at least one per agent
    state: np.ndarray  # [S]


class Env(Protocol):
    """One environment. Nothing is random in it but what ``reset`` seeds.

    A final observation is an ``Observation`` like any other; after it comes ``reset``. An
    environment that can be continued exactly also has ``state_dict`` and ``load_state_dict`` (see
    ``ExactEnv``).
    """

    spec: EnvSpec

    def reset(self, seed: int) -> Observation:
        """Begin the episode that ``seed`` (63 bits) determines."""

    def step(
        self, action: np.ndarray
    ) -> tuple[Observation, np.ndarray, bool, bool, Mapping[str, Any]]:
        """``action`` [N] int64 to (next observation, reward [R], terminated, truncated, info).

        ``info`` matters when the episode ends: {"win": bool, "metrics": {name: number}}, both
        only where there is something to say; plain values.
        """

    def close(self) -> None: ...


class ExactEnv(Env, Protocol):
    """An environment that can save its state as plain values and arrays, also within an episode."""

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


class TaskEnv(Env, Protocol):
    """An environment whose task can be changed, in plain values, from its next episode on."""

    task: Any  # None: as it was made

    def set_task(self, task: Any) -> None: ...


class RenderableEnv(Env, Protocol):
    """An environment that can be drawn."""

    frames_per_second: float

    def render(self) -> np.ndarray | Sequence[np.ndarray]:
        """What the last step brought: one image uint8 [H, W, 3], or several."""


class SyncVectorEnv:
    """``n_envs`` environments made by ``make``, stepped one after the other.

    Args:
        make: builds one environment.
        n_envs: environments, E.
        time_limit: ``bootstrap``: a truncated episode has ``last`` without ``terminated``;
            ``terminal``: it counts as terminated.
    """

    script: Callable[[str], Script] | None = None  # no scripted policies

    def __init__(
        self,
        *,
        make: Callable[[], Env],
        n_envs: int,
        time_limit: Literal["bootstrap", "terminal"] = "bootstrap",
    ) -> None:
        self.envs = [make() for _ in range(n_envs)]
        self.n_envs, self.time_limit = n_envs, time_limit
        self.about: Mapping[str, Any] = {}
        self.lost: np.ndarray | None = None  # none of them crashes
        self.frames_per_second: float | None = getattr(self.envs[0], "frames_per_second", None)
        self.spec = spec = self.envs[0].spec
        self.obs = np.zeros((n_envs, spec.n_agents, *spec.obs_shape), spec.obs_dtype)
        self.avail_actions = np.zeros((n_envs, spec.n_agents, spec.n_actions), np.uint8)
        self.state = np.zeros((n_envs, spec.state_dim), np.float32)
        self.last = np.zeros(n_envs, np.bool_)
        self._infos: list[Mapping[str, Any]] = [{} for _ in range(n_envs)]
        self.infos: Sequence[Mapping[str, Any]] = self._infos
        self._episode = np.zeros(n_envs, np.int64)  # k of each environment's current episode
        self._seeds: EpisodeSeeds | None = None

    def reset(self, seeds: EpisodeSeeds) -> None:
        """Start episode 0 of every environment; episode k of environment e is seeded with
        ``seeds(e, k)``.
        """
        self._seeds = seeds
        for e in range(self.n_envs):
            self._begin(e, 0)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``action`` [E, N] to (reward [E, R], terminated [E]); a new episode where ``last``."""
        assert self._seeds is not None, "step before reset"
        reward = np.zeros((self.n_envs, self.spec.n_rewards), np.float32)
        terminated = np.zeros(self.n_envs, np.bool_)
        for e, env in enumerate(self.envs):
            if self.last[e]:
                self._begin(e, int(self._episode[e]) + 1)
                continue
            observation, reward[e], ended, cut_off, info = env.step(action[e])
            terminated[e] = ended or (cut_off and self.time_limit == "terminal")
            self._show(e, observation, last=ended or cut_off, info=info)
        return reward, terminated

    def call(self, method: str, *args: Any) -> list[Any]:
        """Call a method of every environment, or of what it wraps (``unwrapped``); ``set_task`` is
        the environment's own where it has one, which keeps the task for its next episode.
        """
        whom = [
            env if method == "set_task" and hasattr(env, method) else getattr(env, "unwrapped", env)
            for env in self.envs
        ]
        return [getattr(each, method)(*args) for each in whom]

    def render(self, envs: Sequence[int]) -> list[list[np.ndarray]]:
        """The images, uint8 [H, W, 3], from ``RenderableEnv.render`` of these environments."""
        images = [cast(RenderableEnv, self.envs[e]).render() for e in envs]
        return [[one] if isinstance(one, np.ndarray) else list(one) for one in images]

    def state_dict(self) -> dict[str, Any]:
        """Exact where the environments can save their state; else only each environment's episode
        number.
        """
        if not self._exact:
            tasks = [getattr(env, "task", None) for env in self.envs]
            return {"exact": False, "episode": self._episode.copy(), "tasks": tasks}
        return {
            "exact": True,
            "episode": self._episode.copy(),
            "obs": self.obs.copy(),
            "avail_actions": self.avail_actions.copy(),
            "state": self.state.copy(),
            "last": self.last.copy(),
            "infos": [dict(info) for info in self.infos],
            "envs": [cast(ExactEnv, env).state_dict() for env in self.envs],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue, after ``reset``; from an inexact state every environment begins its next
        episode.

        Raises:
            ValueError: the state was written with another number of environments.
        """
        if len(state["episode"]) != self.n_envs:
            raise ValueError(
                f"The saved state has {len(state['episode'])} environments, this run has "
                f"{self.n_envs}: set hardware.n_envs={len(state['episode'])}."
            )
        if not state["exact"]:
            tasks = state.get("tasks", [None] * self.n_envs)
            for e, k in enumerate(state["episode"].tolist()):
                if tasks[e] is not None:
                    cast(TaskEnv, self.envs[e]).set_task(tasks[e])
                self._begin(e, k + 1)
            return
        self._episode[:] = state["episode"]
        self.obs[:], self.avail_actions[:] = state["obs"], state["avail_actions"]
        self.state[:], self.last[:] = state["state"], state["last"]
        self._infos[:] = [dict(info) for info in state["infos"]]
        for env, saved in zip(self.envs, state["envs"], strict=True):
            cast(ExactEnv, env).load_state_dict(saved)

    def close(self) -> None:
        """Close every environment."""
        for env in self.envs:
            env.close()

    @property
    def _exact(self) -> bool:
        return all(hasattr(env, "state_dict") for env in self.envs)

    def _begin(self, e: int, k: int) -> None:
        assert self._seeds is not None, "an episode before reset"
        self._episode[e] = k
        observation = self.envs[e].reset(self._seeds(e, k))
        self._show(e, observation, last=False, info={})

    def _show(
        self, e: int, observation: Observation, *, last: bool, info: Mapping[str, Any]
    ) -> None:
        self.obs[e], self.avail_actions[e] = observation.obs, observation.avail_actions
        if self.spec.state_dim:
            self.state[e] = observation.state
        self.last[e] = last
        self._infos[e] = info
