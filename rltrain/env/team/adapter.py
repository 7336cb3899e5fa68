"""A PettingZoo parallel environment as an ``Env`` of its agents."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rltrain.common.env_values import finite_reward, flag, read_outcome
from rltrain.common.number_types import is_finite
from rltrain.env.actions import as_mask
from rltrain.env.drawings import has_particles, particle_drawing
from rltrain.env.env_options import USUAL, TeamOptions
from rltrain.env.team.agent_spaces import MASK, Agent, agents_record, find_spaces, team_spaces
from rltrain.env.team.first_episode import first_episode, hides_state, saves_state
from rltrain.env.team.gymnasium_team import GymnasiumTeam
from rltrain.env.third_party import NO_STATE, RESET, STEP, ThirdPartyEnv, shown_name, unpacked
from rltrain.env.vector import Observation
from rltrain.errors import Containment, EnvError, reason
from rltrain.types import EnvSpec, Info, StateDict

HIDDEN = (
    "{} has an attribute state, which hides PettingZoo's method state(): the global state is all "
    "observations, one after the other. To give another one, rename the attribute and define the "
    "method."
)
CYCLE = (
    ". PettingZoo makes an AEC environment parallel if agents end only when all have acted, at "
    "the end of a cycle"
)
PARTS = ("observations", "rewards", "terminated", "truncated", "infos")
"""Values by agent, returned by ``step``."""


class TeamEnv(ThirdPartyEnv):
    """One PettingZoo parallel environment: N = ``possible_agents``, in that order.

    An agent that has left has zero observations, reward 0 and only action 0. One that terminated or
    was truncated stays out, also if the environment keeps it in ``agents``, until it was absent
    there once: then it may return. The episode ends when no agent is left: it is truncated if one
    of the last ones was, else terminated. Actions that an
    agent's ``action_mask`` (in its Dict observation or its info) excludes, and those beyond its own
    number of actions, are not available. The global state is the environment's ``state()``, or else
    all observations one after the other; images without ``state()`` have none.

    Args:
        env: the environment.
        options: the reward of the team is the ``sum`` or ``mean`` over the agents that acted, or
            ``individual``, each agent's own.

    Raises:
        ValueError: spaces that do not fit.
    """

    least = 1  # agents that an episode begins with

    def __init__(self, env: Any, options: TeamOptions = USUAL) -> None:
        super().__init__(env, shown_name(env))
        self._contained = Containment(message=self._failure)
        self._options = options
        # some know their spaces only from their first episode on
        names, self._masks, self._state_dim = first_episode(env, self.name)
        self._lay_out(names)
        self.seed_bits = int(getattr(self.inner, "seed_bits", self.seed_bits))
        self._present, self._kept = list[str](), set[str]()
        self.cut_early: tuple[str, int] | None = None  # first agent truncated before the others
        self.kept: tuple[str, int, bool] | None = None  # first agent that ended and was kept in
        # ``agents``, at which step, and whether others continued
        self.remarks = (HIDDEN.format(self.name),) if hides_state(env) else ()
        if self._drawing is None and has_particles(self.inner):
            self._drawing = lambda: particle_drawing(self.inner.world, list(self._index))
            self.has_drawing = True

    def order_agents(self, names: Sequence[str]) -> None:
        """Give the agents another order than ``possible_agents`` has, if these are their names."""
        own = {str(name): name for name in self._index}
        if [*map(str, names)] != [*own] and sorted(map(str, names)) == sorted(own):
            self._lay_out([own[str(name)] for name in names])

    def _lay_out(self, names: Sequence[str]) -> None:
        """The spec of agents in this order."""
        env, n, options = self.env, len(names), self._options
        own = find_spaces(env, names, self.name)
        agents, fields = team_spaces(own, self.name, options.channels)
        self._agents = dict(zip(names, agents, strict=True))
        self._index = {name: i for i, name in enumerate(names)}
        self._shape = (n, *fields["obs_shape"])
        state_dim = self._state_dim
        if state_dim is None:  # all observations one after the other; images are not a global state
            sizes = [math.prod(agent.view.shape) for agent in agents]
            state_dim = 0 if len(self._shape) > 3 else sum(sizes)
        fields["masks_actions"] |= self._masks
        joint = env.joint if isinstance(env, GymnasiumTeam) else None
        self.spec = EnvSpec(
            n_agents=n,
            state_dim=state_dim,
            n_rewards=n if options.reward == "individual" else 1,
            max_steps=options.max_episode_steps,
            frame_stack=options.frame_stack,
            agents=agents_record(own, options.channels),
            joint=joint,
            action_dtype=str(env.env.action_space.dtype) if joint == "components" else "int64",
            channels=options.channels,
            masks_in_info=self._masks,
            **fields,
        )

    def reset(self, seed: int) -> Observation:
        """Raises EnvError where the environment fails or shows what is not in its spaces."""
        self.seed, self.t = seed % 2**self.seed_bits, 0
        self.begin_task()
        with self._contained:
            obs, infos = unpacked(self.env.reset(seed=self.seed), RESET, self.where)
        self._require_names("observations", obs)
        self._present, self._kept = [name for name in self._index if name in obs], set()
        if len(self._present) < self.least:
            raise EnvError(f"{self.where()} began without an agent: expected at least one.")
        return self._observation(obs, infos, self._present, final=False)

    def step(self, action: np.ndarray) -> tuple[Observation, np.ndarray, bool, bool, Info]:
        """Raises EnvError where the environment fails, or what it returns is not in its spaces."""
        self.t += 1
        acting = self._present
        with self._contained:
            happened: Any = self.env.step(self.given(action))
        if not isinstance(happened, tuple) or len(happened) != len(PARTS):
            raise EnvError(f"{self.where()}: {STEP}, got {happened!r}.")
        self._require_by_agent(acting, happened)
        obs, rewards, terminated, truncated, infos = happened
        self._require_names("observations", obs)
        self._require_names("agents", self.env.agents)
        reward = self._rewarded(rewards, acting)
        ended = {name for name in acting if flag(terminated[name], "terminated", self.where)}
        cut = {name for name in acting if flag(truncated[name], "truncated", self.where)} - ended
        self._kept = (self._kept | ended | cut).intersection(self.env.agents)
        self._present = [n for n in self._index if n in self.env.agents and n not in self._kept]
        over = not self._present
        if self._kept and (self.kept is None or not (self.kept[2] or over)):
            self.kept = min(self._kept, key=self._index.__getitem__), self.t, not over
        if cut and not over and self.cut_early is None:
            self.cut_early = min(cut, key=self._index.__getitem__), self.t
        timeout = not over and self.t == self._options.max_episode_steps
        shown = set(self._present) | (cut if over else set())
        if over and not cut:  # nothing bootstraps from what they see, if they see anything
            shown = {name for name in acting if obs.get(name) is not None}
        final = over or timeout
        outcome = outcome_of_team(
            [self._info(infos, name) for name in acting] if final else [], self.where
        )
        observation = self._observation(obs, infos, shown, final=final)
        return observation, reward, over and not cut, (over and bool(cut)) or timeout, outcome

    def given(self, action: np.ndarray) -> dict[str, object]:
        """``action`` [N] of the agents that are there, as the environment takes them."""
        each = {name: int(action[self._index[name]]) for name in self._present}
        return {name: self._agents[name].actions.own(chosen) for name, chosen in each.items()}

    def state_dict(self) -> StateDict | None:
        """The environment's own state, if it has ``state_dict`` and ``load_state_dict``."""
        own = vars(self.env).get("aec_env", self.env)  # below PettingZoo's conversion
        if own is not self.inner or not saves_state(self.inner):
            return None  # a wrapper may have a state, too
        names = {"present": list(self._present), "kept": sorted(self._kept, key=str)}
        return {"env": self.inner.state_dict(), **names, "seed": self.seed, "t": self.t}

    def load_state_dict(self, state: StateDict) -> None:
        self.begin_task()
        self.inner.load_state_dict(state["env"])
        if self.env is not self.inner:  # the conversion's only state
            self.env.agents = self.inner.agents
        self._present, self._kept = list(state["present"]), set(state["kept"])
        self.seed, self.t = int(state["seed"]), int(state["t"])

    def _failure(self, error: BaseException) -> str:
        """What failed; of an agent that ended within a cycle, with PettingZoo's condition."""
        within = "the only valid action is None" in str(error)
        return f"{self.where()} failed: {reason(error)}{CYCLE if within else ''}"

    def _rewarded(self, rewards: object, acting: list[str]) -> np.ndarray:
        """Rewards [R] of one step; a number in place of one per agent is the team's."""
        if not isinstance(rewards, Mapping):
            return np.full(self.spec.n_rewards, finite_reward(rewards, self.where), np.float32)
        self._require_names("rewards", rewards)
        each = np.zeros(len(self._index))
        for name in acting:
            each[self._index[name]] = finite_reward(rewards[name], self.where)
        if self._options.reward == "individual":
            return each.astype(np.float32)
        total = math.fsum(each) / (max(len(acting), 1) if self._options.reward == "mean" else 1)
        return np.array([total], np.float32)

    def _observation(
        self, obs: Mapping[str, object], infos: Info, shown: Iterable[str], *, final: bool
    ) -> Observation:
        """Observations and states of the agents in ``shown``; zeros and action 0 for the others."""
        seen = np.zeros(self._shape, self.spec.obs_dtype)
        available = np.zeros((len(self._index), self.spec.n_actions), np.uint8)
        available[:, 0] = 1
        sizes = (math.prod(agent.view.shape) for agent in self._agents.values())
        own = [np.zeros(size, np.float32) for size in sizes]
        for name in sorted(shown, key=lambda name: self._index.get(name, -1)):
            agent, i = self._agents[name], self._index[name]
            if name not in obs:
                raise EnvError(
                    f"{self.where()} returned no observation for the agent {name}: expected one "
                    "of every agent that acted, also in the last step of one that was truncated."
                )
            row = self.converted(agent.view.convert, obs[name], name)
            seen[i, : len(row)] = row
            if self._state_dim is None:
                own[i] = row.reshape(-1)
            mask = self._mask(agent, obs[name], self._info(infos, name), final=final)
            available[i, : mask.size] = mask
        return Observation(seen, available, self._state(own))

    def _state(self, own: list[np.ndarray]) -> np.ndarray:
        """The global state [S]."""
        if not self.spec.state_dim:
            return NO_STATE
        if self._state_dim is None:
            return np.concatenate(own).astype(np.float32)
        failed = "{} failed in state(): {}"
        with Containment(message=lambda error: failed.format(self.where(), reason(error))):
            state = np.asarray(given := self.env.state(), np.float32).reshape(-1)
        if state.size != self.spec.state_dim or not is_finite(state) or np.ma.is_masked(given):
            raise EnvError(
                f"{self.where()} returned the state {given}, {state.size} numbers: expected "
                f"{self.spec.state_dim} finite ones."
            )
        return state

    def _mask(
        self, agent: Agent, obs: Any, info: Mapping[str, object], *, final: bool
    ) -> np.ndarray:
        """Which of an agent's own actions are available; all where a final mask has none."""
        given = obs[MASK] if agent.has_mask else info.get(MASK)
        if given is None:
            return np.ones(agent.actions.n, np.uint8)
        mask = as_mask(given, agent.actions)
        if mask is None or not (mask.any() or final):
            raise EnvError(
                f"{self.where()} gave {agent.name} the {MASK} {given}: expected "
                f"{agent.actions.mask_words}. An agent that can do nothing needs an action for "
                "that, or leaves (terminated)."
            )
        return mask if mask.any() else np.ones_like(mask)

    def _info(self, infos: Mapping[str, object], name: str) -> Mapping[str, object]:
        info = infos.get(name, {})
        if isinstance(info, Mapping):
            return info
        raise EnvError(f"{self.where()} gave {name} the info {info!r}: expected a dictionary.")

    def _require_names(self, what: str, names: Iterable[str]) -> None:
        """EnvError if agents appear that ``possible_agents`` does not name."""
        unknown = [name for name in names if name not in self._index]
        if unknown:
            raise EnvError(
                f"{self.where()} returned {what} of {unknown}: expected names among "
                f"possible_agents {list(self._index)}, which stay the same in all episodes. A new "
                "agent needs a name in that list from the start."
            )

    def _require_by_agent(self, acting: Sequence[str], returned: Sequence[object]) -> None:
        """EnvError if one of ``PARTS`` is not a dictionary, or lacks the reward or end of an agent
        that acted; a reward that is not is the team's.
        """
        for what, by_agent in zip(PARTS, returned, strict=True):
            if not isinstance(by_agent, Mapping):
                if what == "rewards":
                    continue
                raise EnvError(
                    f"{self.where()} returned {what} as {type(by_agent).__name__}: expected a "
                    "dictionary by agent."
                )
            missing = [name for name in acting if name not in by_agent]
            if missing and what in ("rewards", "terminated", "truncated"):
                raise EnvError(
                    f"{self.where()} returned {what} of {list(by_agent)}, without {missing}: "
                    f"expected them for each of {list(acting)}, the agents that acted."
                )


def outcome_of_team(infos: list[Mapping[str, object]], where: Callable[[], str]) -> Info:
    """``win`` (SMAC's ``battle_won`` as well) and ``metrics`` of the first agent whose final info
    has them; EnvError for what is neither a truth value nor numbers.
    """
    outcome: Info = {}
    for info in infos:
        won = {"win": info["battle_won"]} if "battle_won" in info else {}
        outcome = {**read_outcome({**won, **info}, where), **outcome}
    return outcome
