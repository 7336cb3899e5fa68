"""Other people's environments as an ``Env``: Gymnasium's of one agent or a team, PettingZoo's."""

from __future__ import annotations

from typing import Any, Literal

import gymnasium
from gymnasium import spaces

from rltrain.env.actions import component_sizes
from rltrain.env.gymnasium import GymnasiumEnv
from rltrain.env.spaces import Channels
from rltrain.env.vector import Env


def adapted(
    env: Any,
    *,
    max_episode_steps: int | None = None,
    frame_stack: int = 1,
    reward_clip: float | None = None,
    reward: Literal["sum", "mean", "individual"] = "sum",
    factored: bool = False,
    channels: Channels = "auto",
) -> Env:
    """An environment as rltrain steps it.

    Args:
        env: a Gymnasium environment, or a parallel or AEC environment of PettingZoo.
        max_episode_steps: time steps after which an episode is truncated; None: its own limit.
        frame_stack: observations that the network sees together.
        reward_clip: rewards of a single agent are clipped to ± this; None = not at all.
        reward: of a team.
        factored: every component of MultiDiscrete actions is an agent of its own.
        channels: the axis of images with their channels.

    Raises:
        ValueError: no environment of these, or spaces that do not fit.
    """
    if isinstance(env, gymnasium.vector.VectorEnv):
        raise ValueError(
            f"{type(env).__name__} is a vector environment of Gymnasium: expected a single one. "
            "Hand over its class; hardware.n_envs sets how many are stepped together."
        )
    if not isinstance(env, gymnasium.Env):
        return team(env, max_episode_steps, frame_stack, reward, reward_clip, channels)
    space = getattr(env, "action_space", None)
    limit = env.spec.max_episode_steps if env.spec is not None else max_episode_steps
    if isinstance(space, spaces.Tuple):
        from rltrain.env.team.gymnasium_team import TupleTeam

        return team(TupleTeam(env), limit, frame_stack, reward, reward_clip, channels)
    sizes = component_sizes(space)
    if factored:
        if sizes is None:
            raise ValueError(
                f"env.factored=true: {type(env.unwrapped).__name__} has actions {space}, which "
                "have no components. Type env.factored=false."
            )
        from rltrain.env.team.gymnasium_team import FactoredActions

        return team(
            FactoredActions(env, sizes, channels), limit, frame_stack, reward, reward_clip, channels
        )
    return GymnasiumEnv(env, frame_stack, reward_clip, limit, channels)


def team(
    env: Any,
    max_episode_steps: int | None,
    frame_stack: int,
    reward: Literal["sum", "mean", "individual"],
    reward_clip: float | None,
    channels: Channels,
) -> Env:
    """A parallel environment, or an AEC environment that PettingZoo can make parallel."""
    from pettingzoo import AECEnv
    from pettingzoo.utils.conversions import aec_to_parallel

    from rltrain.env.team.adapter import TeamEnv

    name = type(env).__name__
    if reward_clip is not None:
        raise ValueError(
            f"env.reward_clip={reward_clip:g}: the rewards of {name}, a team, are not clipped. "
            "Type env.reward_clip=null."
        )
    if isinstance(env, AECEnv):
        try:
            env = aec_to_parallel(env)
        except AssertionError as error:
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
            f"{name} is no environment: it has no {', '.join(lacks)}. Expected a gymnasium.Env, or "
            "a ParallelEnv or AECEnv of PettingZoo."
        )
    return TeamEnv(
        env,
        reward=reward,
        max_episode_steps=max_episode_steps,
        frame_stack=frame_stack,
        channels=channels,
    )


def is_team_class(maker: Any) -> bool:
    """Whether it is a class of PettingZoo's."""
    from pettingzoo import AECEnv, ParallelEnv

    return isinstance(maker, type) and issubclass(maker, (AECEnv, ParallelEnv))
