"""Two teams of one parallel environment: one learns, and opponents play the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, cast

import numpy as np

from rltrain.common.number_types import saved_array
from rltrain.env.env_options import TeamOptions
from rltrain.env.team.adapter import TeamEnv
from rltrain.env.team.opponents import FixedOpponents
from rltrain.env.team.team_names import Teams
from rltrain.env.third_party import shown_name
from rltrain.env.vector import Observation, SyncVectorEnv
from rltrain.types import Info, StateDict

SIZES = ("n_agents", "n_actions", "obs_shape", "obs_dtype", "obs_sizes", "action_sizes")


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
