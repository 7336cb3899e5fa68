"""Environments of Gymnasium and PettingZoo as ``Env``; those of a team are adapted in ``team/``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec as Registered

from rltrain.common.env_values import finite_reward, flag, read_outcome
from rltrain.common.spec_record import action_parts
from rltrain.env.actions import as_mask, component_sizes, numbered
from rltrain.env.env_options import USUAL, EnvOptions
from rltrain.env.spaces import require_numbers, to_record, viewed
from rltrain.env.third_party import NO_STATE, RESET, STEP, ThirdPartyEnv, reset_reason, unpacked
from rltrain.env.vector import Env, Observation
from rltrain.errors import Containment, EnvError, reason
from rltrain.types import EnvSpec, Info

if TYPE_CHECKING:
    from rltrain.env.team.team_names import Teams


def adapted(env: object, options: EnvOptions = USUAL, teams: Teams | None = None) -> Env:
    """Adapt an environment to ``Env``.

    Args:
        env: a Gymnasium environment, or a parallel or AEC environment of PettingZoo.
        options: all options but ``time_limit`` are used.
        teams: teams of a PettingZoo environment, if opponents play one of them.

    Raises:
        ValueError: another kind of object, or unsupported spaces.
    """
    refuse_vector(env)
    if not isinstance(env, gymnasium.Env):
        return team(env, options, teams)
    space = getattr(env, "action_space", None)
    if isinstance(env.spec, Registered):  # an environment may call something else so
        options = replace(options, max_episode_steps=env.spec.max_episode_steps)
    if isinstance(space, spaces.Tuple):
        from rltrain.env.team.gymnasium_team import TupleTeam

        return team(TupleTeam(env), options)
    if options.factored:
        if component_sizes(space) is None:
            numbered(space, type(env.unwrapped).__name__)  # refuses non-discrete actions
            raise ValueError(
                f"env.factored=true: {type(env.unwrapped).__name__} has actions {space}, which "
                "have no components. Type env.factored=false."
            )
        from rltrain.env.team.gymnasium_team import FactoredActions

        return team(FactoredActions(env, options.channels), options)
    return GymnasiumEnv(env, options)


def refuse_vector(env: object) -> None:
    """ValueError for a vector environment of Gymnasium, or its class."""
    kind = env if isinstance(env, type) else type(env)
    if issubclass(kind, gymnasium.vector.VectorEnv):
        raise ValueError(
            f"{kind.__name__} is a vector environment of Gymnasium, which is not taken: expected a "
            "single one. Pass a function that makes one, such as lambda: gymnasium.make(...); "
            "hardware.n_envs sets how many are stepped together."
        )


def team(env: object, options: EnvOptions, teams: Teams | None = None) -> Env:
    """Adapt a parallel environment, or an AEC environment that PettingZoo can make parallel."""
    from pettingzoo import AECEnv
    from pettingzoo.utils.conversions import aec_to_parallel

    from rltrain.env.team.adapter import TeamEnv

    name = type(env).__name__
    if options.reward_clip is not None:
        raise ValueError(
            f"env.reward_clip={options.reward_clip:g}: the rewards of {name}, a team, are not "
            "clipped. Type env.reward_clip=null."
        )
    if isinstance(env, AECEnv):
        names = list(getattr(env, "possible_agents", ()))
        if not all(isinstance(each, str) for each in names):
            raise ValueError(
                f"{name} has the possible_agents {names}: PettingZoo makes an AEC environment "
                "parallel only if its agents are named by strings."
            )
        try:
            env = aec_to_parallel(env)
        except (AssertionError, AttributeError) as error:  # … without metadata
            raise ValueError(
                f"{name} has agents that act in turns, and PettingZoo cannot make it parallel: "
                f"{str(error).rstrip('. ')}."
            ) from error
    lacks = [
        member
        for member in ("reset", "step", "observation_space", "action_space")
        if not callable(getattr(env, member, None))
    ]
    if lacks:
        raise ValueError(
            f"{name} is not an environment: it has no {', '.join(lacks)}. Expected a "
            "gymnasium.Env, or a ParallelEnv or AECEnv of PettingZoo."
        )
    if teams is not None:
        from rltrain.env.team.two_teams import TwoTeamEnv

        return TwoTeamEnv(env, options, teams)
    return TeamEnv(env, options)


def is_team_class(maker: object) -> bool:
    """Whether it is a PettingZoo class."""
    from pettingzoo import AECEnv, ParallelEnv

    return isinstance(maker, type) and issubclass(maker, (AECEnv, ParallelEnv))


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
