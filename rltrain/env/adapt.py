"""Gymnasium environments of one agent or a team, and PettingZoo environments, as ``Env``."""

from __future__ import annotations

from dataclasses import replace

import gymnasium
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec as Registered

from rltrain.env.actions import component_sizes, numbered
from rltrain.env.env_options import USUAL, EnvOptions
from rltrain.env.gymnasium import GymnasiumEnv
from rltrain.env.team.team_names import Teams
from rltrain.env.vector import Env


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
    sizes = component_sizes(space)
    if options.factored:
        if sizes is None:
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
