"""Any Gymnasium environment with discrete actions as a one-agent ``Env``; presets by name.

To bring one of your own: register it, or name it ``env.id=module:Id``, or hand its class to
``make_trainer``.
"""

from __future__ import annotations

import importlib
import inspect
import math
import os
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces

from rltrain.common.beside import beside_user
from rltrain.common.number_types import Count, Positive
from rltrain.env.gymnasium_advice import advice, missing_packages
from rltrain.env.spaces import to_record, viewed
from rltrain.env.vector import Observation, SyncVectorEnv
from rltrain.types import EnvSpec

NO_STATE = np.zeros(0, np.float32)
FRAMES_PER_SECOND = 30.0  # of videos, where an environment does not say
LARGEST = float(np.finfo(np.float32).max)


class GymnasiumEnv:
    """One Gymnasium environment: N = 1, no global state.

    Observations: Box as it is (images channels first, as uint8, grey ones with one channel),
    Discrete as one-hot, MultiBinary, MultiDiscrete, Tuple and Dict flattened, bytes in them / 255.
    ``info["action_mask"]`` says which actions are available; at an episode's end ``info["win"]``
    and the numbers in ``info["metrics"]`` are reported with its return.

    Args:
        env: the environment, time limit included.
        frame_stack: observations that the network sees together.
        reward_clip: rewards are clipped to ± this, and the return before that is reported as
            ``game_return``; null = not at all.
        max_steps: the longest episode, where the environment's own ``spec`` does not say.

    Raises:
        ValueError: actions that are not discrete, or observations without a fixed, bounded shape.
    """

    def __init__(
        self,
        env: gymnasium.Env,
        frame_stack: int = 1,
        reward_clip: float | None = None,
        max_steps: int | None = None,
    ) -> None:
        name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
        need_spaces(env, name)
        if not isinstance(env.action_space, spaces.Discrete):
            raise ValueError(
                f"{name} has actions {env.action_space}, but rltrain learns values of discrete "
                "actions: choose an environment with a Discrete action space, or discretise it "
                "with a wrapper."
            )
        self.env, self.name, self.reward_clip = env, name, reward_clip
        self._view = viewed(env.observation_space, name)
        limit = env.spec.max_episode_steps if env.spec is not None else max_steps
        self.spec = EnvSpec(
            n_agents=1,
            n_actions=int(env.action_space.n),
            obs_shape=self._view.shape,
            max_steps=limit,
            obs_dtype=self._view.dtype,
            obs_scale=self._view.scale,
            frame_stack=frame_stack,
            obs_space=to_record(env.observation_space),
            first_action=int(env.action_space.start),
        )
        self._seed, self._t, self._return = 0, 0, 0.0
        self.task: Any = None  # from the next reset on; None: as the environment was made
        self._all = np.ones((1, self.spec.n_actions), np.uint8)

    def reset(self, seed: int) -> Observation:
        self._seed, self._t, self._return = seed % 2**32, 0, 0.0
        self._begin_task()
        try:
            obs, info = self.env.reset(seed=self._seed)
        except Exception as error:
            raise RuntimeError(f"{self._where()} failed: {told(error)}") from error
        return self._observation(obs, info, final=False)

    def step(
        self, action: np.ndarray
    ) -> tuple[Observation, np.ndarray, bool, bool, Mapping[str, Any]]:
        """Raises RuntimeError where the environment fails, a reward or an observation is not a
        finite number, an observation has another shape than it should, or no action is available.
        """
        self._t += 1
        try:
            happened = self.env.step(int(action[0]) + self.spec.first_action)
        except Exception as error:
            raise RuntimeError(f"{self._where()} failed: {told(error)}") from error
        obs, reward, terminated, truncated, info = happened
        reward = float(reward)
        if not abs(reward) <= LARGEST:
            raise RuntimeError(f"{self._where()} gave the reward {reward}.")
        self._return += reward
        final = bool(terminated) or bool(truncated)
        said: dict[str, Any] = {"win": bool(info["win"])} if "win" in info else {}
        if final and "metrics" in info:
            said["metrics"] = {str(name): float(x) for name, x in info["metrics"].items()}
        if self.reward_clip is not None:
            reward = min(max(reward, -self.reward_clip), self.reward_clip)
            if final:
                said["metrics"] = {**said.get("metrics", {}), "game_return": self._return}
        slot = self._observation(obs, info, final=final)
        return slot, np.array([reward], np.float32), bool(terminated), bool(truncated), said

    def render(self) -> Any:
        """What the environment draws, if it was made with ``render_mode: rgb_array``."""
        return self.env.render()

    @property
    def frames_per_second(self) -> float | None:
        """Of videos; None where the environment was not made to be drawn."""
        drawn = self.env.render_mode == "rgb_array"
        return float(self.env.metadata.get("render_fps") or FRAMES_PER_SECOND) if drawn else None

    @property
    def unwrapped(self) -> gymnasium.Env:
        """The environment itself, whose methods ``VectorEnv.call`` reaches."""
        return self.env.unwrapped

    def set_task(self, task: Any) -> None:
        """Play this task from the next episode on: what the environment's own ``set_task`` takes,
        or else some of its attributes by name, such as ``{"gravity": 12.0}``. Plain values only:
        checkpoints keep them.

        Raises:
            ValueError: the environment has neither.
        """
        inner = self.env.unwrapped
        named = isinstance(task, Mapping) and all(hasattr(inner, str(name)) for name in task)
        if not hasattr(inner, "set_task") and not named:
            raise ValueError(
                f"{self.name} cannot play the task {task}: it has no method set_task, so the task "
                "must name attributes that it has, such as {gravity: 12.0}."
            )
        self.task = task

    def _begin_task(self) -> None:
        inner: Any = self.env.unwrapped
        if self.task is None:
            return
        if hasattr(inner, "set_task"):
            inner.set_task(self.task)
            return
        for name, value in self.task.items():
            setattr(inner, name, value)

    def close(self) -> None:
        self.env.close()

    def _observation(self, obs: Any, info: Mapping[str, Any], *, final: bool) -> Observation:
        try:
            seen = self._view.convert(obs)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise RuntimeError(
                f"{self._where()} gave the observation {obs}, which is not of its space "
                f"({told(error)})."
            ) from error
        if seen.shape != self.spec.obs_shape:
            raise RuntimeError(
                f"{self._where()} gave an observation of shape {seen.shape}: expected "
                f"{self.spec.obs_shape}."
            )
        if seen.dtype != np.uint8 and not is_finite(seen):
            raise RuntimeError(f"{self._where()} gave the observation {obs}.")
        available = self._all
        if "action_mask" in info:
            mask = np.asarray(info["action_mask"], np.uint8).reshape(1, -1)
            if mask.shape != available.shape or not (mask.any() or final):
                raise RuntimeError(
                    f"{self._where()} gave the action_mask {info['action_mask']}: expected "
                    f"{self.spec.n_actions} entries, of which one at least is 1."
                )
            if mask.any():  # else the episode is over: nothing will be chosen
                available = mask
        return Observation(seen[None], available, NO_STATE)

    def _where(self) -> str:
        return f"{self.name} at step {self._t} of the episode with seed {self._seed}"


def need_spaces(env: gymnasium.Env, name: str) -> None:
    """ValueError unless the environment says what its actions and observations are."""
    for attribute, example in (("action_space", "Discrete(2)"), ("observation_space", "Box(…)")):
        found = getattr(env, attribute, None)
        if not isinstance(found, spaces.Space):
            said = "has no" if found is None else f"has the {type(found).__name__} {found!r} as"
            raise ValueError(
                f"{name} {said} {attribute}: expected a gymnasium.spaces.Space. Set "
                f"self.{attribute} = gymnasium.spaces.{example} in its constructor."
            )


def told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def is_finite(x: np.ndarray) -> bool:
    """Whether every element is; a finite sum says so at once."""
    return math.isfinite(x.sum()) or bool(np.isfinite(x).all())


def gymnasium_env(
    *,
    id: str,
    n_envs: int,
    training: bool,
    record: bool,
    kwargs: Mapping[str, Any],
    time_limit: Literal["bootstrap", "terminal"],
    max_episode_steps: Count | None,
    frame_stack: Count,
    reward_clip: Positive | None,
) -> SyncVectorEnv:
    """``n_envs`` copies of a registered Gymnasium environment, made to be drawn for a ``record``;
    rewards are clipped in training only.

    Raises:
        ValueError: an unknown id, a missing package, or spaces that do not fit.
    """
    made_with = dict(kwargs)

    def make() -> GymnasiumEnv:
        try:
            own_module = beside_user() if ":" in id else nullcontext()
            with own_module, warnings.catch_warnings():  # said in our words if it cannot be made
                warnings.filterwarnings("ignore", ".*is out of date", DeprecationWarning)
                env = gymnasium.make(
                    id, max_episode_steps=max_episode_steps, disable_env_checker=True, **made_with
                )
        except (gymnasium.error.Error, ImportError, TypeError, AttributeError) as error:
            raise ValueError(f"env.id={id} cannot be made: {advice(id, error)}") from error
        except Exception as error:
            raise ValueError(f"env.id={id} cannot be made: {told(error)}") from error
        return GymnasiumEnv(env, frame_stack, reward_clip if training else None)

    if record and "rgb_array" in make().env.metadata.get("render_modes", ()):
        made_with.setdefault("render_mode", "rgb_array")
        draw_without_display()
        try_to_draw(make(), id)
    return SyncVectorEnv(make=make, n_envs=n_envs, time_limit=time_limit)


def draw_without_display() -> None:
    """Let pygame draw into memory, without a word; it reads this when it is imported."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")


def try_to_draw(env: GymnasiumEnv, id: str) -> None:
    """Draw a first image.

    Raises:
        ValueError: what drawing needs is missing.
    """
    try:
        env.reset(0)
        env.render()
    except (gymnasium.error.Error, ImportError) as error:
        needed = missing_packages(error)
        told = f"it needs packages that are not installed. {needed}" if needed else str(error)
        raise ValueError(f"record=true: env.id={id} cannot be drawn: {told}") from error
    finally:
        env.close()


def from_class(
    maker: str | Callable[..., gymnasium.Env],
    *,
    n_envs: int,
    training: bool,
    record: bool,
    kwargs: Mapping[str, Any],
    time_limit: Literal["bootstrap", "terminal"],
    max_episode_steps: Count | None,
    frame_stack: Count,
    reward_clip: Positive | None,
) -> SyncVectorEnv:
    """Copies of a Gymnasium class or factory, made with ``kwargs``; one with a keyword ``training``
    is told whether its copies are for learning or for tests, one with ``render_mode`` when they
    are to be drawn. A saved run knows its maker by name, ``module:Name``.

    Raises:
        ValueError: what it makes is no Gymnasium environment, or has spaces that do not fit.
    """
    maker = named(maker) if isinstance(maker, str) else maker
    known = inspect.signature(maker).parameters
    purpose = {"training": training} if "training" in known else {}
    drawn = {"render_mode": "rgb_array"} if record and "render_mode" in known else {}
    arguments = {**drawn, **purpose, **kwargs}
    try:
        inspect.signature(maker).bind(**arguments)
    except TypeError as error:
        raise ValueError(
            f"{maker!r} cannot make an environment: {error}. Give it with env=gymnasium "
            "env.kwargs={name: value}, or hand over a function that knows it."
        ) from error

    def make() -> GymnasiumEnv:
        try:
            env: Any = maker(**arguments)
        except Exception as error:
            raise ValueError(f"{maker!r} cannot make an environment: {told(error)}") from error
        if not isinstance(env, gymnasium.Env):
            raise ValueError(
                f"{maker!r} made {type(env).__name__}: expected a gymnasium.Env, or a class or "
                "factory of one."
            )
        if max_episode_steps is not None:
            env = gymnasium.wrappers.TimeLimit(env, max_episode_steps)
        clip = reward_clip if training else None
        return GymnasiumEnv(env, frame_stack, clip, max_episode_steps)

    return SyncVectorEnv(make=make, n_envs=n_envs, time_limit=time_limit)


def named(maker: str) -> Callable[..., gymnasium.Env]:
    """The class or factory ``module:Name``.

    Raises:
        ValueError: there is none by that name (a lambda, or a class inside a function).
    """
    module, _, name = maker.partition(":")
    try:
        with beside_user():
            found: Callable[..., gymnasium.Env] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"The environment {maker} was handed over from Python and cannot be found by that name "
            f"({error}). Hand it over again: rltrain.evaluate(RUN_FOLDER, env=YOUR_CLASS)."
        ) from error
    return found
