"""``algo=scripted``: players that nobody trained, usable wherever a policy is.

``random`` plays everywhere; the others belong to environments (``types.Script``). A new one is a
script of an environment and its name here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from rltrain.algo.exploration.choice import explore, likelihood
from rltrain.algo.policy import copied
from rltrain.common.number_types import Probability
from rltrain.interfaces import Script, VectorEnv
from rltrain.types import Clock


class Scripted:
    """Plays by a script of its environment; with probability ``epsilon`` an agent acts at random.

    Args:
        policy: the script's name, or ``random``.
        env: what is played: ``act`` is about its current slot.
        epsilon: 0 = the script alone; ``random`` is 1 whatever is given.
        rng: this policy's own stream.

    Raises:
        ValueError: ``env`` has no such script.
    """

    def __init__(
        self,
        *,
        policy: Literal[
            "random", "stop", "closest", "focus", "heuristic", "kite", "spread", "alternate"
        ],
        env: VectorEnv,
        epsilon: Probability,
        rng: np.random.Generator,
    ) -> None:
        self.rng = rng
        self.hidden = np.zeros((env.n_envs, env.spec.n_agents, 0), np.float32)  # no memory
        self._epsilon = 1.0 if policy == "random" else epsilon
        self._script = Chance(env) if policy == "random" else script_of(env, policy)
        self._acted: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    def act(
        self, obs: np.ndarray, avail_actions: np.ndarray, last: np.ndarray, clock: Clock
    ) -> np.ndarray:
        """Actions [E, N] int64 of the environment's current slot, available ones."""
        action = self._script()
        available = avail_actions.astype(bool, copy=False)
        planned = action.copy()
        explore(action, available, self._epsilon, self.rng)
        self._acted = planned, available, action
        return action

    def probability(self) -> np.ndarray:
        """[E, N]: how likely the last ``act`` was to choose what it chose."""
        assert self._acted is not None, "nothing was chosen yet"
        return likelihood(*self._acted, self._epsilon)

    def reset(self) -> None:
        """Nothing: a script sees where an episode begins."""

    def forget(self, copies: np.ndarray) -> None:
        """Nothing: a script sees where an episode begins."""

    def state_dict(self) -> dict[str, Any]:
        """What the script remembers, and where the random stream is."""
        return {"script": self._script.state_dict(), "rng": copied(self.rng.bit_generator.state)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state_dict`` said."""
        self._script.load_state_dict(state["script"])
        self.carry_on(state)

    def carry_on(self, state: Mapping[str, Any]) -> None:
        """Of what ``state_dict`` said only what outlives an episode: where the random stream is."""
        self.rng.bit_generator.state = copied(state["rng"])


class Chance:
    """No plan at all: zeros [E, N], for exploration to overwrite."""

    def __init__(self, env: VectorEnv) -> None:
        self._shape = env.n_envs, env.spec.n_agents

    def __call__(self) -> np.ndarray:
        return np.zeros(self._shape, np.int64)

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Nothing to remember."""


def script_of(env: VectorEnv, name: str) -> Script:
    """The script ``name`` of an environment.

    Raises:
        ValueError: it has none.
    """
    return env.scripted(name)
