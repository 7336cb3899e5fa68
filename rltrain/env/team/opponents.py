"""Agents of an environment that do not learn: a fixed policy chooses their actions, and the others
are the team.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from pettingzoo.utils import BaseParallelWrapper

from rltrain.env.team.team_names import Choose


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
