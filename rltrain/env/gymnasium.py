"""A Gymnasium environment with discrete actions as an ``Env`` of one agent."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium import spaces

from rltrain.common.env_values import finite_reward, flag, read_outcome
from rltrain.common.spec_record import action_parts
from rltrain.env.actions import as_mask, numbered
from rltrain.env.env_options import USUAL, EnvOptions
from rltrain.env.spaces import require_numbers, to_record, viewed
from rltrain.env.third_party import NO_STATE, RESET, STEP, ThirdPartyEnv, reset_reason, unpacked
from rltrain.env.vector import Observation
from rltrain.errors import Containment, EnvError, reason
from rltrain.types import EnvSpec, Info


class GymnasiumEnv(ThirdPartyEnv):
    """One Gymnasium environment: N = 1, no global state.

    Observations: Box unchanged (images channel-first, gray images with one channel, byte images
    scaled to 0 … 1 by the networks), Discrete one-hot; MultiBinary, MultiDiscrete, Tuple and Dict
    are flattened, their byte images scaled (and stored as bytes).
    Actions: Discrete, or all combinations of a MultiDiscrete or MultiBinary.
    ``info["action_mask"]`` marks available actions; at an episode's end, ``info["win"]`` and the
    numbers in ``info["metrics"]`` are reported with its return.

    Args:
        env: the environment, including its time limit.
        options: ``max_episode_steps`` is that limit.

    Raises:
        ValueError: actions that are not discrete, or observations without a fixed, bounded shape.
    """

    def __init__(self, env: gymnasium.Env, options: EnvOptions = USUAL) -> None:
        name = getattr(env.spec, "id", type(env.unwrapped).__name__)
        need_spaces(env, name)
        self._actions = numbered(env.action_space, name, "Type env.factored=true: an agent each.")
        super().__init__(env, name)
        channels = options.channels
        self._view = viewed(env.observation_space, name, channels)
        require_numbers(self._view.shape, name, env.observation_space)
        discrete = isinstance(env.action_space, spaces.Discrete)
        self.spec = EnvSpec(
            n_agents=1,
            n_actions=self._actions.n,
            obs_shape=self._view.shape,
            max_steps=options.max_episode_steps,
            obs_dtype=self._view.dtype,
            obs_scale=self._view.scale,
            frame_stack=options.frame_stack,
            obs_space=to_record(env.observation_space, channels),
            channels=channels,
            obs_bytes=self._view.byte_columns,
            first_action=int(getattr(env.action_space, "start", 0)) if discrete else 0,
            masks_actions=bool(getattr(self.inner, "masks_actions", False)),
            action_components=None if discrete else action_parts(to_record(env.action_space)),
            action_dtype=str(env.action_space.dtype),
        )
        self._all = np.ones((1, self.spec.n_actions), np.uint8)

    def reset(self, seed: int) -> Observation:
        self.seed, self.t = seed % 2**self.seed_bits, 0
        self.begin_task()
        with Containment(message=lambda error: f"{self.where()} failed: {reset_reason(error)}"):
            returned = self.env.reset(seed=self.seed)
        obs, info = unpacked(returned, RESET, self.where)
        return self._observation(obs, info, final=False)

    def step(self, action: np.ndarray) -> tuple[Observation, np.ndarray, bool, bool, Info]:
        """Raises EnvError if the environment fails, a reward or observation is not finite, an
        observation has the wrong shape, or no action is available.
        """
        self.t += 1
        try:
            happened = self.env.step(self._actions.own(int(action[0])))
        except BaseException:
            with Containment(message=lambda error: f"{self.where()} failed: {reason(error)}"):
                raise
        obs, reward, terminated, truncated, info = unpacked(happened, STEP, self.where)
        reward = np.array([finite_reward(reward, self.where)], np.float32)
        terminated = flag(terminated, "terminated", self.where)
        truncated = flag(truncated, "truncated", self.where)
        final = terminated or truncated
        outcome = read_outcome(info, self.where) if final else {}
        return self._observation(obs, info, final=final), reward, terminated, truncated, outcome

    def _observation(self, obs: object, info: Info, *, final: bool) -> Observation:
        seen = self.converted(self._view.convert, obs)
        available = self._all
        if "action_mask" in info:
            mask = as_mask(info["action_mask"], self._actions)
            if mask is None or not (mask.any() or final):
                raise EnvError(
                    f"{self.where()} returned the action_mask {info['action_mask']}: expected "
                    f"{self._actions.mask_words}."
                )
            if mask.any():  # otherwise the episode is over, and bootstrapping may choose any action
                available = mask.reshape(1, -1)
        return Observation(seen[None], available, NO_STATE)


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
