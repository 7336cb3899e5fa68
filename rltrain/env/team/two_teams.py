"""Two teams of one parallel environment: one learns, and opponents play the other, or a policy that
is part of the environment.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NoReturn, cast

import numpy as np
from pettingzoo.utils import BaseParallelWrapper

from rltrain.common.number_types import saved_array
from rltrain.env.env_options import TeamOptions
from rltrain.env.team.adapter import TeamEnv
from rltrain.env.team.team_names import Choose, Teams
from rltrain.env.third_party import shown_name
from rltrain.env.vector import Observation, SyncVectorEnv
from rltrain.types import Info, StateDict

SIZES = ("n_agents", "n_actions", "obs_shape", "obs_dtype", "obs_sizes", "action_sizes")


class FixedOpponents(BaseParallelWrapper):
    """An environment without the agents in ``names``, for which ``choose`` acts, unless their
    actions are ``given``. ``of_others`` is what they saw in the last step. What an environment
    returns in place of dictionaries by agent is returned as it is, for the adapter to refuse.
    """

    def __init__(self, env: Any, names: Collection[str], choose: Choose | None) -> None:
        super().__init__(env)
        self._names, self._choose = frozenset(names), choose
        self.given: dict[str, object] | None = None
        self.of_others: tuple[Any, ...] = ()
        self.possible_agents = [a for a in env.possible_agents if a not in self._names]
        self._rng, self._kept = np.random.default_rng(0), set[str]()

    @property
    def agents(self) -> list[str]:
        """The agents of the team that are there; none once the episode is over for them all."""
        return [agent for agent in self.env.agents if agent not in self._names]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._kept = set()
        return self._split(self.env.reset(seed=seed, options=options))

    def step(self, actions: dict[str, object]) -> Any:
        others = [a for a in self.env.agents if a in self._names and a not in self._kept]
        chosen = self.given
        if chosen is None:
            assert self._choose is not None, "the actions of the others are given"
            chosen = {agent: self._choose(self.env, agent, self._rng) for agent in others}
        returned = self._split(self.env.step({**actions, **chosen}))
        ends = [each for each in self.of_others[2:4] if isinstance(each, Mapping)]
        ended = {agent for agent in others if any(each.get(agent) for each in ends)}
        self._kept = (self._kept | ended).intersection(self.env.agents)
        return returned

    def _split(self, returned: Any) -> Any:
        """What is returned for the team; what is for the others becomes ``of_others``."""
        if not isinstance(returned, tuple):
            return returned
        own, self.of_others = (
            tuple(
                {agent: x for agent, x in each.items() if (agent in self._names) == others}
                if isinstance(each, Mapping)
                else each
                for each in returned
            )
            for others in (False, True)
        )
        return own


class OtherTeam:
    """The parallel environment that the second team sees: what ``game`` returned for it."""

    def __init__(self, game: FixedOpponents, names: Sequence[str]) -> None:
        self.game, self.possible_agents = game, list(names)
        self.metadata = {"name": shown_name(game)}
        self.observation_space, self.action_space = game.observation_space, game.action_space

    @property
    def agents(self) -> list[str]:
        return [agent for agent in self.game.env.agents if agent in self.possible_agents]

    def reset(self, seed: int) -> tuple[object, ...]:
        """The return value of the game's last ``reset``."""
        return self.game.of_others

    def step(self, actions: Mapping[str, object]) -> tuple[object, ...]:
        """The return value of the game's last ``step``."""
        return self.game.of_others


class TwoTeamEnv(TeamEnv):
    """The environment of the first team. ``step`` takes the actions of both teams, [N + N']; those
    of the second are -1 where the environment's own opponent plays it.
    """

    def __init__(self, env: Any, options: TeamOptions, teams: Teams) -> None:
        others = teams.others(env)
        self.builtin = teams.choose is not None
        self.game = FixedOpponents(env, others, teams.choose)
        super().__init__(self.game, options)
        self.other = TeamEnv(OtherTeam(self.game, others), options)
        self.other.least = 0  # they may come later
        self.seen_by_others: Observation | None = None

    def reset(self, seed: int) -> Observation:
        observation = super().reset(seed)
        self.seen_by_others = self.other.reset(seed)
        return observation

    def step(self, action: np.ndarray) -> tuple[Observation, np.ndarray, bool, bool, Info]:
        own, others = np.split(action, [self.spec.n_agents])
        commanded = others[0] >= 0
        if not commanded:  # without a policy: where an export tries a network
            assert self.seen_by_others is not None, "step before reset"
            others = self.seen_by_others.avail_actions.argmax(-1)
        self.game.given = self.other.given(others) if commanded or not self.builtin else None
        returned = super().step(own)
        self.seen_by_others = self.other.step(others)[0]
        return returned


class OtherTeamSide:
    """The other side of ``TwoTeamVectorEnv``; see ``rltrain.interfaces.OtherSide``."""

    policies = "random"

    def __init__(self, env: TwoTeamEnv, n_envs: int) -> None:
        self.n_envs, self.builtin, self.spec = n_envs, env.builtin, env.other.spec
        spec = self.spec
        self.obs = np.zeros((n_envs, spec.n_agents, *spec.obs_shape), spec.obs_dtype)
        self.avail_actions = np.zeros((n_envs, spec.n_agents, spec.n_actions), np.uint8)
        self.state = np.zeros((n_envs, spec.state_dim), np.float32)
        self.action = np.zeros((n_envs, spec.n_agents), np.int64)
        self.commanded = np.zeros(n_envs, np.bool_)
        self.same_team = all(getattr(spec, name) == getattr(env.spec, name) for name in SIZES)
        self.equal_teams = "have as many agents, with the same observations and actions"

    def scripted(self, name: str) -> NoReturn:
        """Raises ValueError: ``random`` is the only one, and needs no decisions."""
        raise ValueError(f"teams of this environment have the scripted policy {self.policies} only")


class TwoTeamVectorEnv(SyncVectorEnv):
    """``n_envs`` environments of two teams, with the second one as ``other_side``."""

    def __init__(self, *, make: Callable[[], TwoTeamEnv], **options: Any) -> None:
        super().__init__(make=make, **options)
        self._games = cast(list[TwoTeamEnv], self.envs)
        self.other_side: OtherTeamSide = OtherTeamSide(self._games[0], self.n_envs)
        for game in self._games[1:]:
            game.other.order_agents([str(name) for name, *_ in self.other_side.spec.agents or ()])
        spec = self.other_side.spec
        self.n_acting += spec.n_agents
        self.teams = [*self.teams, (spec.n_agents, -1, spec.n_actions - 1)]  # -1: its own opponent

    def step(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``action`` [E, N], next to that of ``other_side``."""
        side = self.other_side
        others = np.where(side.commanded[:, None], side.action, -1)
        return super().step(np.concatenate([action, others], 1))

    def state_dict(self) -> StateDict:
        return {**super().state_dict(), "commanded": self.other_side.commanded.copy()}

    def load_state_dict(self, state: StateDict) -> None:
        commanded = self.other_side.commanded
        commanded[:] = saved_array("env.commanded", state["commanded"], commanded)
        super().load_state_dict(state)

    def _show(self, e: int, observation: Observation, *, last: bool, info: Info) -> None:
        super()._show(e, observation, last=last, info=info)
        seen, side = self._games[e].seen_by_others, self.other_side
        assert seen is not None
        side.obs[e], side.avail_actions[e] = seen.obs, seen.avail_actions
