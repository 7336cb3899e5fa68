"""Published benchmarks for teams: MPE, Level-Based Foraging, RWARE and MAgent.

To add one: a function that a YAML can name, and its package in the extra ``marl``.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium

from rltrain.common.install import install_extra
from rltrain.common.keywords import flat_keywords
from rltrain.common.number_types import Count
from rltrain.env.adapt import adapted
from rltrain.env.env_options import Reward, TimeLimit
from rltrain.env.gymnasium_advice import advice
from rltrain.env.make_gymnasium import draw_without_display
from rltrain.env.vector import SyncVectorEnv
from rltrain.errors import reason

MPE = {
    "spread": "simple_spread_v3",
    "speaker_listener": "simple_speaker_listener_v4",
    "adversary": "simple_adversary_v3",
    "tag": "simple_tag_v3",
    "reference": "simple_reference_v3",
}
"""Modules of mpe2 by game."""
OPPONENTS = {"adversary": ("adversary_", "follow"), "tag": ("agent_", "flee")}
"""How the names of a game's agents that do not learn begin, and their scripted policy."""
MAGENT = {
    "battle": ("battle_v4", "blue"),
    "battlefield": ("battlefield_v5", "blue"),
    "adversarial_pursuit": ("adversarial_pursuit_v4", "prey"),
}
"""Modules of magent2 by game, and the team that does not learn."""


@dataclass(frozen=True, kw_only=True)
class SharedOptions:
    """Options of all environments here."""

    n_envs: int
    kwargs: Mapping[str, Any]
    reward: Reward
    time_limit: TimeLimit
    max_episode_steps: Count


@flat_keywords
def mpe_env(
    *,
    game: Literal["spread", "speaker_listener", "adversary", "tag", "reference"],
    opponent: Literal["scripted", "random"],
    record: bool,
    options: SharedOptions,
) -> SyncVectorEnv:
    """``n_envs`` multi-particle environments (Lowe et al., 2017).

    Raises:
        ValueError: mpe2 is missing, or keywords that it does not have.
    """
    need("mpe", "mpe2")
    draw_without_display()
    from rltrain.env.team import opponents

    maker = importlib.import_module(f"mpe2.{MPE[game]}").parallel_env
    drawn = {"render_mode": "rgb_array"} if record else {}
    side, policy = OPPONENTS.get(game, (None, ""))
    choose = opponents.random_action if opponent == "random" else getattr(opponents, policy, None)

    def make() -> Any:
        env = maker(**{"max_cycles": options.max_episode_steps, **drawn, **options.kwargs})
        if choose is None or side is None:
            return env
        others = [agent for agent in env.possible_agents if agent.startswith(side)]
        return opponents.FixedOpponents(env, others, choose)

    return lockstep("mpe", make, options, options.max_episode_steps)


@flat_keywords
def magent_env(
    *,
    game: Literal["battle", "battlefield", "adversarial_pursuit"],
    record: bool,
    options: SharedOptions,
) -> SyncVectorEnv:
    """``n_envs`` grid worlds of many agents (Zheng et al., 2018) against a random team.

    Raises:
        ValueError: magent2 is missing, or keywords that it does not have.
    """
    need("magent", "magent2")
    draw_without_display()
    from rltrain.env.team.opponents import FixedOpponents, random_action

    module, other = MAGENT[game]
    maker = importlib.import_module(f"magent2.environments.{module}").parallel_env
    drawn = {"render_mode": "rgb_array"} if record else {}

    def make() -> Any:
        env = maker(**{"max_cycles": options.max_episode_steps, **drawn, **options.kwargs})
        names = [agent for agent in env.possible_agents if agent.startswith(other)]
        return FixedOpponents(env, names, random_action)

    return lockstep("magent", make, options, options.max_episode_steps)


class NoTraces(gymnasium.Wrapper):
    """Foraging whose episodes follow from their seeds alone: lbforaging places agents and food
    where no agent of the episode before ended.
    """

    def reset(self, **options: Any) -> Any:
        """A new episode, from an empty field."""
        game: Any = self.unwrapped
        for player in game.players:
            player.position = None
        return self.env.reset(**options)


@flat_keywords
def lbf_env(
    *,
    id: str,
    options: SharedOptions,
) -> SyncVectorEnv:
    """``n_envs`` environments of Level-Based Foraging (Christianos et al., 2020). Its own time
    limit, which it reports as termination, is off: ``max_episode_steps`` truncates.

    Raises:
        ValueError: lbforaging is missing, or has no such id.
    """
    need("lbf", "lbforaging")
    from rltrain.env.team.drawn import Drawn, view_foraging

    def make() -> gymnasium.Env:
        env = registered("lbforaging", id, options.max_episode_steps, options.kwargs)
        env.unwrapped._max_episode_steps = math.inf  # type: ignore[attr-defined]
        return Drawn(NoTraces(env), view_foraging)

    return lockstep("lbf", make, options)


@flat_keywords
def rware_env(
    *,
    id: str,
    options: SharedOptions,
) -> SyncVectorEnv:
    """``n_envs`` multi-robot warehouses (Papoudakis et al., 2021). Their own time limit, which they
    report as termination, is off: ``max_episode_steps`` truncates.

    Raises:
        ValueError: rware is missing, or has no such id.
    """
    need("rware", "rware")
    from rltrain.env.team.drawn import Drawn, view_warehouse

    def make() -> gymnasium.Env:
        env = registered(
            "rware", id, options.max_episode_steps, {"max_steps": None, **options.kwargs}
        )
        return Drawn(env, view_warehouse)

    return lockstep("rware", make, options)


def need(env: str, package: str) -> None:
    """ValueError unless a package is installed."""
    if importlib.util.find_spec(package) is None:
        raise ValueError(
            f"env={env} needs the package {package}, which is not installed. Type "
            f"{install_extra('marl')} (the extra marl of rltrain)."
        )


def registered(
    package: str, id: str, max_episode_steps: int, kwargs: Mapping[str, Any]
) -> gymnasium.Env:
    """An environment that a package registers with Gymnasium.

    Raises:
        ValueError: there is no such id.
    """
    importlib.import_module(package)
    try:
        if ":" in id:
            raise gymnasium.error.UnregisteredEnv
        return gymnasium.make(
            id, max_episode_steps=max_episode_steps, disable_env_checker=True, **kwargs
        )
    except (gymnasium.error.Error, TypeError, AssertionError) as error:
        raise ValueError(f"env.id={id} cannot be made: {advice(id, error)}") from error


def lockstep(
    name: str,
    make: Callable[[], Any],
    options: SharedOptions,
    max_episode_steps: int | None = None,
) -> SyncVectorEnv:
    """``n_envs`` environments that ``make`` makes.

    Raises:
        ValueError: it cannot.
    """

    def made() -> Any:
        try:
            env = make()
        except (TypeError, AssertionError) as error:
            raise ValueError(f"env={name} cannot be made: {reason(error)}.") from error
        return adapted(env, max_episode_steps=max_episode_steps, reward=options.reward)

    return SyncVectorEnv(make=made, n_envs=options.n_envs, time_limit=options.time_limit)
