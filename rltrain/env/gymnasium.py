"""A Gymnasium environment with discrete actions as an ``Env`` of one agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from rltrain.common.number_types import is_finite
from rltrain.env.actions import as_mask, components, numbered
from rltrain.env.env_options import USUAL, EnvOptions
from rltrain.env.spaces import to_record, viewed
from rltrain.env.tasks import begin_task, require_task
from rltrain.env.vector import Env, Observation
from rltrain.errors import STOPS, Containment, EnvError, reason
from rltrain.types import EnvSpec, Info

NO_STATE = np.zeros(0, np.float32)
FRAMES_PER_SECOND = 30.0  # of videos, where an environment does not define it
LARGEST = float(np.finfo(np.float32).max)
FINITE = f"finite numbers, at most {LARGEST:.1g}"


class GymnasiumEnv(Env):
    """One Gymnasium environment: N = 1, no global state.

    Observations: Box as it is (images channels first, gray ones with one channel, those of bytes
    scaled to 0 … 1 by the networks), Discrete as one-hot, MultiBinary, MultiDiscrete, Tuple and
    Dict flattened, images of bytes in them scaled (and stored as bytes).
    Actions: Discrete, or every combination of a MultiDiscrete or MultiBinary.
    ``info["action_mask"]`` says which actions are available; at an episode's end ``info["win"]``
    and the numbers in ``info["metrics"]`` are reported with its return.

    Args:
        env: the environment, time limit included.
        options: with ``reward_clip`` the return before clipping is reported as ``game_return``;
            ``max_episode_steps`` is the limit where the environment's own ``spec`` does not say.

    Raises:
        ValueError: actions that are not discrete, or observations without a fixed, bounded shape.
    """

    def __init__(self, env: gymnasium.Env, options: EnvOptions = USUAL) -> None:
        name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
        need_spaces(env, name)
        self._actions = numbered(env.action_space, name, "Type env.factored=true: an agent each.")
        self.env, self.name, self.reward_clip = env, name, options.reward_clip
        channels = options.channels
        self._view = viewed(env.observation_space, name, channels)
        if 0 in self._view.shape:
            raise ValueError(
                f"{name} has observations {env.observation_space}, which have no numbers: expected "
                "at least one, such as Box(0, 1, (1,))."
            )
        limit = options.max_episode_steps if env.spec is None else env.spec.max_episode_steps
        discrete = isinstance(env.action_space, spaces.Discrete)
        self.spec = EnvSpec(
            n_agents=1,
            n_actions=self._actions.n,
            obs_shape=self._view.shape,
            max_steps=limit,
            obs_dtype=self._view.dtype,
            obs_scale=self._view.scale,
            frame_stack=options.frame_stack,
            obs_space=to_record(env.observation_space, channels),
            channels=channels,
            obs_bytes=self._view.byte_columns,
            first_action=int(getattr(env.action_space, "start", 0)) if discrete else 0,
            masks_actions=bool(getattr(env.unwrapped, "masks_actions", False)),
            action_components=None if discrete else components(env.action_space),
        )
        self._seed, self.t, self._return = 0, 0, 0.0
        if env.render_mode == "rgb_array":
            self.frames_per_second = float(env.metadata.get("render_fps") or FRAMES_PER_SECOND)
        self._all = np.ones((1, self.spec.n_actions), np.uint8)

    def reset(self, seed: int) -> Observation:
        self._seed, self.t, self._return = seed % 2**32, 0, 0.0
        begin_task(self.env.unwrapped, self.task)
        with Containment(message=lambda error: f"{self.where()} failed: {reset_reason(error)}"):
            returned = self.env.reset(seed=self._seed)
        if not returns(returned, 2):
            raise EnvError(
                f"{self.where()}: reset must return (observation, info), got {returned!r}."
            )
        obs, info = returned
        return self._observation(obs, info, final=False)

    def step(self, action: np.ndarray) -> tuple[Observation, np.ndarray, bool, bool, Info]:
        """Raises EnvError where the environment fails, a reward or an observation is not a
        finite number, an observation has the wrong shape, or no action is available.
        """
        self.t += 1
        try:
            happened = self.env.step(self._actions.own(int(action[0])))
        except STOPS:
            raise
        except BaseException as error:
            raise EnvError(f"{self.where()} failed: {reason(error)}") from error
        if not returns(happened, 5):
            raise EnvError(
                f"{self.where()}: step must return (observation, reward, terminated, truncated, "
                f"info), got {happened!r}."
            )
        obs, reward, terminated, truncated, info = happened
        reward = finite_reward(reward, self.where)
        self._return += reward
        terminated = flag(terminated, "terminated", self.where)
        truncated = flag(truncated, "truncated", self.where)
        final = terminated or truncated
        outcome = outcome_of(info, self.where) if final else {}
        if self.reward_clip is not None:
            reward = min(max(reward, -self.reward_clip), self.reward_clip)
            if final:
                metrics = outcome.setdefault("metrics", {})
                if "game_return" in metrics:
                    raise EnvError(
                        f"{self.where()} returned info['metrics'] with game_return, under which "
                        "env.reward_clip reports the return before clipping: give it another name."
                    )
                metrics["game_return"] = self._return
        observation = self._observation(obs, info, final=final)
        return observation, np.array([reward], np.float32), terminated, truncated, outcome

    def render(self) -> Any:
        """The environment's image, if it was made with ``render_mode: rgb_array``."""
        return self.env.render()

    def call(self, method: str, *args: Any) -> Any:
        """Call a method of the unwrapped environment; ``set_task`` is the one below."""
        target = self if method == "set_task" else self.env.unwrapped
        return getattr(target, method)(*args)

    def set_task(self, task: object) -> None:
        """Change the task from the next episode on; see ``rltrain.env.tasks``."""
        require_task(self.env.unwrapped, task, self.name)
        self.task = task

    def close(self) -> None:
        self.env.close()

    def _observation(self, obs: object, info: Info, *, final: bool) -> Observation:
        try:
            seen = self._view.convert(obs)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise EnvError(
                f"{self.where()} returned the observation {obs}, which is not in its space "
                f"({reason(error)})."
            ) from error
        if seen.dtype != np.uint8 and not is_finite(seen):
            raise EnvError(f"{self.where()} returned the observation {obs}: expected {FINITE}.")
        available = self._all
        if "action_mask" in info:
            mask = as_mask(info["action_mask"], self._actions)
            if mask is None or not (mask.any() or final):
                raise EnvError(
                    f"{self.where()} returned the action_mask {info['action_mask']}: expected "
                    f"{self._actions.mask_words}."
                )
            if mask.any():  # else the episode is over; bootstrapping may choose any action
                available = mask.reshape(1, -1)
        return Observation(seen[None], available, NO_STATE)

    def where(self) -> str:
        """The environment, step and episode, for messages."""
        return f"{self.name} at step {self.t} of the episode with seed {self._seed}"


def reset_reason(error: BaseException) -> str:
    """Why a reset failed; for one that takes no seed, what Gymnasium's takes."""
    if not isinstance(error, TypeError) or "argument 'seed'" not in str(error):
        return reason(error)
    return (
        f"{reason(error)}. Gymnasium expects reset(self, *, seed=None, options=None), which "
        "returns (observation, info)"
    )


def need_spaces(env: gymnasium.Env, name: str) -> None:
    """ValueError unless the environment has an action and an observation space."""
    for attribute, example in (("action_space", "Discrete(2)"), ("observation_space", "Box(…)")):
        space = getattr(env, attribute, None)
        if not isinstance(space, spaces.Space):
            has = "has no" if space is None else f"has the {type(space).__name__} {space!r} as"
            raise ValueError(
                f"{name} {has} {attribute}: expected a gymnasium.spaces.Space. Set "
                f"self.{attribute} = gymnasium.spaces.{example} in its constructor."
            )


def returns(returned: object, n: int) -> bool:
    """Whether an environment returned ``n`` values, of which the last is an info."""
    return isinstance(returned, tuple) and len(returned) == n and isinstance(returned[-1], dict)


def outcome_of(info: Info, where: Callable[[], str]) -> Info:
    """``win`` and ``metrics`` of a final info.

    Raises:
        EnvError: something other than a truth value and a dictionary of numbers.
    """
    outcome: dict[str, Any] = {}
    if "win" in info:
        outcome["win"] = bool(number(info["win"], "info['win']", "True or False", where))
    if "metrics" in info:
        metrics, expected = info["metrics"], "a dictionary of numbers by name"
        if not isinstance(metrics, Mapping):
            raise EnvError(f"{where()} returned info['metrics']={metrics!r}: expected {expected}.")
        outcome["metrics"] = {
            str(name): number(x, f"info['metrics'][{name!r}]", "a number", where)
            for name, x in metrics.items()
        }
    return outcome


def number(given: object, name: str, expected: str, where: Callable[[], str]) -> float:
    """One number; EnvError, which names it, for anything else."""
    try:
        array = np.asarray(given)
    except ValueError:  # rows of different lengths
        array = np.empty(0)
    if array.size == 1 and array.dtype.kind in "biuf":
        return float(array.reshape(()))
    raise EnvError(f"{where()} returned {name}={given!r}: expected {expected}.")


def flag(given: object, name: str, where: Callable[[], str]) -> bool:
    """Whether an episode has ended; EnvError, which names ``where``, for text or None."""
    if given is None or isinstance(given, str):
        raise EnvError(f"{where()} returned {name}={given!r}: expected True or False.")
    return bool(given)


def finite_reward(reward: Any, where: Callable[[], str]) -> float:
    """A reward as a number; EnvError, which names ``where``, unless it is a finite one."""
    try:
        if isinstance(reward, str | bytes):
            raise TypeError
        if abs(x := float(reward)) <= LARGEST:
            return x
        expected = f"a finite number, at most {LARGEST:.1g}"
    except (TypeError, ValueError):
        got = "text" if isinstance(reward, str) else type(reward).__name__
        expected = f"one number, such as float(reward), got {got}"
    raise EnvError(f"{where()} returned the reward {reward!r}: expected {expected}.")
