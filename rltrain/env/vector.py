"""SyncVectorEnv: E copies of a single Python environment in lock-step, as a ``types.VectorEnv``.

To bring an environment in, write the one-copy ``Env`` below; copies, seeds and resets are here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, cast

import numpy as np

from rltrain.interfaces import EpisodeSeeds
from rltrain.types import EnvSpec


class Slot(NamedTuple):
    """One observation of one copy."""

    obs: np.ndarray  # [N, *O]
    avail_actions: np.ndarray  # [N, A] 0 or 1; at least one per agent
    state: np.ndarray  # [S]


class Env(Protocol):
    """One environment copy. Nothing is random in it but what ``reset`` seeds.

    A final observation is a Slot like any other; after it comes ``reset``. An environment that can
    be continued exactly also has ``state_dict`` and ``load_state_dict`` (see ``ExactEnv``).
    """

    spec: EnvSpec

    def reset(self, seed: int) -> Slot:
        """Begin the episode that ``seed`` (63 bits) determines."""

    def step(self, action: np.ndarray) -> tuple[Slot, np.ndarray, bool, bool, Mapping[str, Any]]:
        """``action`` [N] int64 to (next slot, reward [R], terminated, truncated, info).

        ``info`` matters when the episode ends: {"win": bool, "metrics": {name: number}}, both
        only where there is something to say; plain values.
        """

    def close(self) -> None: ...


class ExactEnv(Env, Protocol):
    """A copy that can tell its state in plain values and arrays, in mid-episode too."""

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


class TaskEnv(Env, Protocol):
    """A copy whose task can be changed, in plain values, from its next episode on."""

    task: Any  # None: as it was made

    def set_task(self, task: Any) -> None: ...


class DrawnCopy(Env, Protocol):
    """A copy that can be drawn."""

    frames_per_second: float

    def render(self) -> np.ndarray | Sequence[np.ndarray]:
        """What the last step brought: one image uint8 [H, W, 3], or several."""


class SyncVectorEnv:
    """``n_envs`` copies made by ``make``, stepped one after the other.

    Args:
        make: builds one copy.
        n_envs: copies, E.
        time_limit: ``bootstrap``: a truncated episode has ``last`` without ``terminated``;
            ``terminal``: it counts as terminated.
    """

    def __init__(
        self,
        *,
        make: Callable[[], Env],
        n_envs: int,
        time_limit: Literal["bootstrap", "terminal"] = "bootstrap",
    ) -> None:
        self.envs = [make() for _ in range(n_envs)]
        self.n_envs, self.time_limit = n_envs, time_limit
        self.spec = spec = self.envs[0].spec
        self.obs = np.zeros((n_envs, spec.n_agents, *spec.obs_shape), spec.obs_dtype)
        self.avail_actions = np.zeros((n_envs, spec.n_agents, spec.n_actions), np.uint8)
        self.state = np.zeros((n_envs, spec.state_dim), np.float32)
        self.last = np.zeros(n_envs, np.bool_)
        self._infos: list[Mapping[str, Any]] = [{} for _ in range(n_envs)]
        self.infos: Sequence[Mapping[str, Any]] = self._infos
        self._episode = np.zeros(n_envs, np.int64)  # k of each copy's current episode
        self._seeds: EpisodeSeeds | None = None

    def reset(self, seeds: EpisodeSeeds) -> None:
        """Start episode 0 of every copy; episode k of copy e is seeded with ``seeds(e, k)``."""
        self._seeds = seeds
        for copy in range(self.n_envs):
            self._begin(copy, 0)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``action`` [E, N] to (reward [E, R], terminated [E]); a new episode where ``last``."""
        assert self._seeds is not None, "step before reset"
        reward = np.zeros((self.n_envs, self.spec.n_rewards), np.float32)
        terminated = np.zeros(self.n_envs, np.bool_)
        for copy, env in enumerate(self.envs):
            if self.last[copy]:
                self._begin(copy, int(self._episode[copy]) + 1)
                continue
            slot, reward[copy], ended, cut_off, info = env.step(action[copy])
            terminated[copy] = ended or (cut_off and self.time_limit == "terminal")
            self._show(copy, slot, last=ended or cut_off, info=info)
        return reward, terminated

    def call(self, method: str, *args: Any) -> list[Any]:
        """Call a method of every copy, or of what it wraps (``unwrapped``); ``set_task`` is the
        copy's own where it has one, which keeps the task for its next episode.
        """
        whom = [
            env if method == "set_task" and hasattr(env, method) else getattr(env, "unwrapped", env)
            for env in self.envs
        ]
        return [getattr(each, method)(*args) for each in whom]

    @property
    def view(self) -> Callable[[Any], np.ndarray] | None:
        """From an observation as the environment itself gives it to [N, *O], where that differs."""
        return getattr(self.envs[0], "view", None)

    @property
    def first_action(self) -> int:
        """The environment's own number of action 0."""
        return int(getattr(self.envs[0], "first_action", 0))

    @property
    def frames_per_second(self) -> float | None:
        """Of films; None where the copies cannot be drawn."""
        return getattr(self.envs[0], "frames_per_second", None)

    def render(self, copies: Sequence[int]) -> list[list[np.ndarray]]:
        """The images, uint8 [H, W, 3], that ``DrawnCopy.render`` of these copies gives."""
        images = [cast(DrawnCopy, self.envs[copy]).render() for copy in copies]
        return [[one] if isinstance(one, np.ndarray) else list(one) for one in images]

    def state_dict(self) -> dict[str, Any]:
        """Exact where the copies can tell their state; else only which episode each copy is in."""
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
        """Continue, after ``reset``; from an inexact state every copy begins its next episode.

        Raises:
            ValueError: the state was written with another number of copies.
        """
        if len(state["episode"]) != self.n_envs:
            raise ValueError(
                f"The saved environments are {len(state['episode'])} copies, this run has "
                f"{self.n_envs}: set hardware.n_envs={len(state['episode'])}."
            )
        if not state["exact"]:
            tasks = state.get("tasks", [None] * self.n_envs)
            for copy, k in enumerate(state["episode"].tolist()):
                if tasks[copy] is not None:
                    cast(TaskEnv, self.envs[copy]).set_task(tasks[copy])
                self._begin(copy, k + 1)
            return
        self._episode[:] = state["episode"]
        self.obs[:], self.avail_actions[:] = state["obs"], state["avail_actions"]
        self.state[:], self.last[:] = state["state"], state["last"]
        self._infos[:] = [dict(info) for info in state["infos"]]
        for env, saved in zip(self.envs, state["envs"], strict=True):
            cast(ExactEnv, env).load_state_dict(saved)

    def close(self) -> None:
        """Close every copy."""
        for env in self.envs:
            env.close()

    @property
    def _exact(self) -> bool:
        return all(hasattr(env, "state_dict") for env in self.envs)

    def _begin(self, copy: int, k: int) -> None:
        assert self._seeds is not None, "an episode before reset"
        self._episode[copy] = k
        slot = self.envs[copy].reset(self._seeds(copy, k))
        self._show(copy, slot, last=False, info={})

    def _show(self, copy: int, slot: Slot, *, last: bool, info: Mapping[str, Any]) -> None:
        self.obs[copy], self.avail_actions[copy] = slot.obs, slot.avail_actions
        if self.spec.state_dim:
            self.state[copy] = slot.state
        self.last[copy] = last
        self._infos[copy] = info
