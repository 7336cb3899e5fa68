"""Published benchmarks for teams: MPE, Level-Based Foraging, RWARE and MAgent, and the scripted
opponents in them.

To add one: a function that a YAML can name, and its package in the extra ``marl``.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium
import numpy as np

from rltrain.common.keywords import flat_keywords
from rltrain.common.machine.install import require_extra
from rltrain.common.number_types import Count
from rltrain.env.drawings import GridView, draw_grid, grid_drawing, view_foraging, view_warehouse
from rltrain.env.env_options import EnvOptions, Names, Reward, TimeLimit
from rltrain.env.gymnasium_advice import advice
from rltrain.env.make_gymnasium import draw_without_display, in_lockstep
from rltrain.env.team.make_pettingzoo import needs_opponent
from rltrain.env.team.team_names import Choose, Teams
from rltrain.env.team.two_teams import FixedOpponents
from rltrain.env.vector import SyncVectorEnv
from rltrain.errors import reason
from rltrain.types import Drawing

MPE = {
    "spread": "simple_spread_v3",
    "speaker_listener": "simple_speaker_listener_v4",
    "adversary": "simple_adversary_v3",
    "tag": "simple_tag_v3",
    "reference": "simple_reference_v3",
}
"""Modules of mpe2 by game."""
MAGENT = {
    "battle": ("battle_v4", "red"),
    "battlefield": ("battlefield_v5", "red"),
    "adversarial_pursuit": ("adversarial_pursuit_v4", "predator"),
}
"""Modules of magent2 by game, and the team that learns."""


def random_action(env: Any, agent: str, rng: np.random.Generator) -> int:
    """Any action."""
    return int(rng.integers(env.action_space(agent).n))


def flee(env: object, agent: str, rng: np.random.Generator) -> int:
    """MPE's prey: away from the predators, the nearer the more, and from the edge."""
    me, others = positions(env, agent)
    away = me - others  # [agents, 2]
    wanted = (away / (np.square(away).sum(1, keepdims=True) + 1e-6)).sum(0)
    wanted -= 10 * np.sign(me) * np.maximum(np.abs(me) - 0.9, 0)
    return toward(wanted)


def follow(env: Any, agent: str, rng: np.random.Generator) -> int:
    """MPE's adversary: to the landmark that an agent of the team is nearest to."""
    me, others = positions(env, agent)
    landmarks = np.stack([each.state.p_pos for each in env.unwrapped.world.landmarks])
    apart = np.square(landmarks[:, None] - others).sum(2).min(1)  # [landmarks]
    return toward(landmarks[apart.argmin()] - me)


def positions(env: Any, agent: str) -> tuple[np.ndarray, np.ndarray]:
    """Where an agent of MPE is, [2], and where those of the other side are, [agents, 2]."""
    agents = env.unwrapped.world.agents
    me = next(each for each in agents if each.name == agent)
    others = [each.state.p_pos for each in agents if each.adversary != me.adversary]
    return me.state.p_pos, np.stack(others)


def toward(direction: np.ndarray) -> int:
    """MPE's action (1 left, 2 right, 3 down, 4 up) along the longer axis of a direction."""
    axis = int(np.abs(direction).argmax())
    return 2 * axis + (2 if direction[axis] > 0 else 1)


TEAMS = {"adversary": ("agent_", follow), "tag": ("adversary_", flee)}
"""How the names of a game's agents that learn begin, and the scripted policy of the others."""


@dataclass(frozen=True, kw_only=True)
class SharedOptions:
    """Options of all environments here."""

    n_envs: int
    kwargs: Mapping[str, Any]
    reward: Reward
    time_limit: TimeLimit
    max_episode_steps: Count


@dataclass(frozen=True, kw_only=True)
class TwoTeamOptions(SharedOptions):
    """Options of games that have two teams.

    Attributes:
        record: made for rendering.
        team: the agents that learn; None = those against a scripted team.
        training: for learning, not for tests.
        two_sided: opponents play the others.
    """

    record: bool
    team: Names | None = None
    training: bool = True
    two_sided: bool = False


@flat_keywords
def mpe_env(
    *,
    game: Literal["spread", "speaker_listener", "adversary", "tag", "reference"],
    options: TwoTeamOptions,
) -> SyncVectorEnv:
    """``n_envs`` multi-particle environments (Lowe et al., 2017).

    Raises:
        ValueError: mpe2 is missing, keywords that it does not have, or no such team.
    """
    usual, policy = TEAMS.get(game, (None, None))
    if usual is None and (options.two_sided or options.team is not None):
        raise ValueError(
            f"env.game={game} has one team and therefore no opponent: leave out env.team "
            "and opponents, or type env.game=tag or env.game=adversary."
        )
    return make_teams("mpe", f"mpe2.{MPE[game]}", options, usual, policy)


@flat_keywords
def magent_env(
    *,
    game: Literal["battle", "battlefield", "adversarial_pursuit"],
    options: TwoTeamOptions,
) -> SyncVectorEnv:
    """``n_envs`` grid worlds of many agents (Zheng et al., 2018), by default against a random team.

    Raises:
        ValueError: magent2 is missing, keywords that it does not have, or no such team.
    """
    module, usual = MAGENT[game]
    return make_teams("magent", f"magent2.environments.{module}", options, usual, random_action)


class NoTraces(gymnasium.Wrapper):
    """Foraging whose episodes follow only from their seeds: lbforaging places agents and food
    where no agent of the episode before ended.
    """

    def reset(self, **options: Any) -> Any:
        """A new episode, from an empty field."""
        game: Any = self.unwrapped
        for player in game.players:
            player.position = None
        return self.env.reset(**options)


class Drawn(gymnasium.Wrapper):
    """An environment with images and drawings of ``view(env.unwrapped)``."""

    render_mode = "rgb_array"

    def __init__(self, env: gymnasium.Env, view: Callable[[Any], GridView]) -> None:
        super().__init__(env)
        self._view = view
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 5}

    def render(self) -> Any:
        view = self._view(self.unwrapped)
        return draw_grid(view.shape, view.pieces)

    def drawing(self) -> Drawing:
        """Units and positions of the current time step."""
        view = self._view(self.unwrapped)
        return grid_drawing(view.shape, view.pieces, view.sight, actions=view.actions)


@flat_keywords
def lbf_env(*, id: str, options: SharedOptions) -> SyncVectorEnv:
    """``n_envs`` environments of Level-Based Foraging (Christianos et al., 2020). Its own time
    limit, which it reports as termination, is off: ``max_episode_steps`` truncates.

    Raises:
        ValueError: lbforaging is missing, or has no such id.
    """
    require_extra("marl", "lbforaging", "env=lbf")

    def make() -> gymnasium.Env:
        env = registered("lbforaging", id, options)
        env.unwrapped._max_episode_steps = math.inf  # type: ignore[attr-defined]
        return Drawn(NoTraces(env), view_foraging)

    return lockstep("lbf", make, options)


@flat_keywords
def rware_env(*, id: str, options: SharedOptions) -> SyncVectorEnv:
    """``n_envs`` multi-robot warehouses (Papoudakis et al., 2021). Their own time limit, which they
    report as termination, is off: ``max_episode_steps`` truncates.

    Raises:
        ValueError: rware is missing, or has no such id.
    """
    require_extra("marl", "rware", "env=rware")

    def make() -> gymnasium.Env:
        return Drawn(registered("rware", id, options, max_steps=None), view_warehouse)

    return lockstep("rware", make, options)


def registered(package: str, id: str, options: SharedOptions, **usual: Any) -> gymnasium.Env:
    """An environment that a package registers with Gymnasium, with ``usual`` keywords.

    Raises:
        ValueError: there is no such id.
    """
    importlib.import_module(package)
    try:
        if ":" in id:
            raise gymnasium.error.UnregisteredEnv
        limit, kwargs = options.max_episode_steps, {**usual, **options.kwargs}
        return gymnasium.make(id, max_episode_steps=limit, disable_env_checker=True, **kwargs)
    except (gymnasium.error.Error, TypeError, AssertionError) as error:
        raise ValueError(f"env.id={id} cannot be created: {advice(id, error)}") from error


def make_teams(
    name: str,
    module: str,
    options: TwoTeamOptions,
    usual: str | None,
    policy: Choose | None,
) -> SyncVectorEnv:
    """``n_envs`` environments of a module with ``parallel_env``.

    Args:
        usual: the team that learns if none is chosen; None: there is one only.
        policy: the scripted policy of the others then.

    Raises:
        ValueError: the package is missing, or opponents play the others of a chosen team, and there
            are none.
    """
    require_extra("marl", module.partition(".")[0], f"env={name}")
    draw_without_display()
    if options.team is not None and not options.two_sided:
        raise ValueError(needs_opponent(options.training, f"env.team={options.team}"))
    maker = importlib.import_module(module).parallel_env
    drawn = {"render_mode": "rgb_array"} if options.record else {}
    own = options.team or usual
    teams = None if own is None else Teams(own, choose=None if options.team else policy)

    def make() -> Any:
        return maker(**{"max_cycles": options.max_episode_steps, **drawn, **options.kwargs})

    return lockstep(name, make, options, teams, options.two_sided)


def lockstep(
    name: str,
    make: Callable[[], object],
    options: SharedOptions,
    teams: Teams | None = None,
    two_sided: bool = False,
) -> SyncVectorEnv:
    """``n_envs`` environments that ``make`` makes.

    Args:
        teams: of games of two; the second one is part of the environment, unless ``two_sided``.

    Raises:
        ValueError: it cannot.
    """

    def made() -> Any:
        try:
            env = make()
        except (TypeError, AssertionError) as error:
            raise ValueError(f"env={name} cannot be created: {reason(error)}.") from error
        if teams is None or two_sided:
            return env
        return FixedOpponents(env, teams.others(env), teams.choose)

    limit, reward = options.max_episode_steps, options.reward  # Gymnasium's own have the same
    seen = EnvOptions(time_limit=options.time_limit, max_episode_steps=limit, reward=reward)
    return in_lockstep(made, options.n_envs, seen, teams=teams if two_sided else None)
