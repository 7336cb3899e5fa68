"""Which agents of a parallel environment are a team, and which are the other one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rltrain.env.env_options import Names
from rltrain.env.team.first_episode import first_episode
from rltrain.env.third_party import shown_name

Choose = Callable[[Any, str, np.random.Generator], int]
"""(environment, agent, random stream) to an action."""


@dataclass(frozen=True)
class Teams:
    """The agents of two teams, and what plays the second one where no opponent does.

    Attributes:
        team: how the names of the agents that learn begin, or the list of these names.
        opponent_team: the same of the others; None = all others.
        choose: actions of the environment's own opponent; None: it has none.
    """

    team: Names
    opponent_team: Names | None = None
    choose: Choose | None = None

    def others(self, env: Any) -> list[Any]:
        """The second team in an environment, as its agents are called there: by text or numbers.

        Raises:
            ValueError: there is no such team, or the two are not all agents of the environment.
        """
        name = shown_name(env)
        possible, *_ = first_episode(env, name)  # some know their agents only from then on
        named = {str(agent): agent for agent in possible}
        everyone = list(named)
        own = members(self.team, everyone, "env.team", name)
        if len(own) == len(everyone):
            raise ValueError(
                f"env.team={shown(self.team)} are all agents of {name} ({', '.join(everyone)}), "
                "which therefore has one side: expected the names of one of two teams."
            )
        if self.opponent_team is None:
            return [agent for text, agent in named.items() if text not in own]
        others = members(self.opponent_team, everyone, "env.opponent_team", name)
        if both := [agent for agent in own if agent in others]:
            raise ValueError(
                f"env.team={shown(self.team)} and env.opponent_team={shown(self.opponent_team)} "
                f"share {', '.join(both)}: expected two teams of different agents."
            )
        if left := [agent for agent in everyone if agent not in own + others]:
            raise ValueError(
                f"{', '.join(left)} of {name} are neither in env.team={shown(self.team)} nor in "
                f"env.opponent_team={shown(self.opponent_team)}: expected every agent in one of "
                "them. env.opponent_team=null means all that are not in env.team."
            )
        return [named[text] for text in others]


def members(names: Names, everyone: Sequence[str], key: str, env: str) -> list[str]:
    """The agents whose names begin so, or that are listed. Raises ValueError if there are none."""
    if isinstance(names, str):
        found, unknown = [agent for agent in everyone if agent.startswith(names)], [names]
    else:
        found, unknown = [*names], [name for name in names if name not in everyone]
    if not found or (unknown and not isinstance(names, str)):
        raise ValueError(
            f"{key}={shown(names)}: {env} has no agent {', '.join(unknown)}. Expected how names "
            f"begin, or a list of names, among {', '.join(everyone)}."
        )
    return found


def shown(names: Names) -> str:
    """Names as they are typed."""
    return names if isinstance(names, str) else f"[{','.join(names)}]"
