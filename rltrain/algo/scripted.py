"""``algo=scripted``: policies without parameters.

``random`` runs in every environment; the others belong to an environment
(``VectorEnv.scripted``). To add one: a decision function of an environment, and its name here.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from rltrain.algo.exploration.epsilon import explore, likelihood
from rltrain.common.number_types import Probability
from rltrain.common.stateful import Stateful
from rltrain.interfaces import VectorEnv
from rltrain.types import Clock, StateDict


class Scripted:
    """A scripted policy; with probability ``epsilon`` an agent takes a random action.

    Args:
        policy: name of the decision function, or ``random``.
        env: the environments that ``act`` chooses actions for.
        epsilon: probability of a random action; ``random`` has 1.
        rng: draws the random actions.

    Raises:
        ValueError: ``env`` has no such decision function.
    """

    q = None  # no values

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
        self._decide = NoDecisions(env) if policy == "random" else env.scripted(policy)
        self._acted: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    def act(
        self, obs: np.ndarray, avail_actions: np.ndarray, last: np.ndarray, clock: Clock
    ) -> np.ndarray:
        """Available actions [E, N] int64 for the environment's current time step."""
        planned = self._decide()
        available = avail_actions.astype(bool, copy=False)
        action = planned.copy()  # which the decision function may keep
        explore(action, available, self._epsilon, self.rng)
        self._acted = planned, available, action
        return action

    def probability(self) -> np.ndarray:
        """[E, N]: probability of the last ``act``'s actions."""
        assert self._acted is not None, "nothing was chosen yet"
        return likelihood(*self._acted, self._epsilon)

    def reset(self) -> None:
        """Do nothing: decision functions see in the state where an episode begins."""

    def forget(self, envs: np.ndarray) -> None:
        """Do nothing: decision functions see in the state where an episode begins."""

    def state_dict(self) -> StateDict:
        """The memory of the decision function, and the generator."""
        return {"decisions": self._decide.state_dict(), "rng": self.rng.bit_generator.state}

    def load_state_dict(self, state: StateDict) -> None:
        """Load what ``state_dict`` returned."""
        self._decide.load_state_dict(state["decisions"])
        self.carry_on(state)

    def carry_on(self, state: StateDict) -> None:
        """Load what outlives an episode: the generator."""
        self.rng.bit_generator.state = state["rng"]


class NoDecisions(Stateful):
    """Zeros [E, N], which a random policy overwrites."""

    def __init__(self, env: VectorEnv) -> None:
        self._shape = env.n_envs, env.spec.n_agents

    def __call__(self) -> np.ndarray:
        return np.zeros(self._shape, np.int64)
