"""Games with known solutions. To add one: its ``Env``, and a function that a YAML can name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from rltrain.common.number_types import Real
from rltrain.env.vector import Env, Observation, SyncVectorEnv
from rltrain.types import EnvSpec

PAYOFFS: Mapping[str, list[list[float]]] = {
    "qtran": [[8, -12, -12], [-12, 0, 0], [-12, 0, 0]],  # Son et al. (2019), table 1
    "penalty": [[12, -12, -12], [-12, 0, 0], [-12, 0, 0]],
    "wqmix": [[12, 0, 10], [0, 0, 10], [10, 10, 10]],  # Rashid et al. (2020)
    "small_penalty": [[12, -0.1, -0.1], [-0.1, 0, 0], [-0.1, 0, 0]],
    "climbing": [[11, -30, 0], [-30, 7, 0], [0, 6, 5]],  # Claus and Boutilier (1998)
    "qplex": [[10.4, 0, 10], [0, 10, 10], [10, 10, 10]],  # Wang et al. (2021)
}
"""Team rewards by name: rows are the first agent's actions, columns the second's."""


class MatrixGame(Env):
    """Two agents act once for the team reward ``payoff[first][second]``; all they see is a 1.

    Raises:
        ValueError: ``payoff`` is not a square table.
    """

    def __init__(self, *, payoff: list[list[Real]]) -> None:
        if not payoff or any(len(row) != len(payoff) for row in payoff):
            raise ValueError(
                f"A matrix game needs a square payoff table, got {len(payoff)} rows of "
                f"{[len(row) for row in payoff]}: give both agents the same number of actions."
            )
        self.payoff = np.array(payoff, np.float32)
        self.spec = EnvSpec(
            n_agents=2, n_actions=len(payoff), obs_shape=(1,), state_dim=1, max_steps=1
        )
        self._observation = Observation(
            np.ones((2, 1), np.float32), np.ones((2, len(payoff)), np.uint8), np.ones(1, np.float32)
        )

    def reset(self, seed: int) -> Observation:
        return self._observation

    def step(
        self, action: np.ndarray
    ) -> tuple[Observation, np.ndarray, bool, bool, Mapping[str, Any]]:
        return self._observation, self.payoff[action[0], action[1]].reshape(1), True, False, {}

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Nothing: the game has no state."""

    def close(self) -> None:
        """Nothing to close."""


class TwoStep(Env):
    """The two-step game of Rashid et al. (2018), section 5: a safe branch (7) or coordination (8).

    In state 0 the first agent's action chooses state 1 (action 0) or 2 (action 1), for reward 0.
    State 1 pays 7 whatever is done, state 2 pays [[0, 1], [1, 8]]; then the game ends. Observations
    and state are the one-hot of these three; all zero once the game has ended.
    """

    FIRST, SAFE, COORDINATED, END = range(4)
    PAYOFFS: Mapping[int, list[list[float]]] = {
        SAFE: [[7, 7], [7, 7]],
        COORDINATED: [[0, 1], [1, 8]],
    }

    def __init__(self) -> None:
        self.spec = EnvSpec(n_agents=2, n_actions=2, obs_shape=(3,), state_dim=3, max_steps=2)
        self._state = self.FIRST

    def reset(self, seed: int) -> Observation:
        self._state = self.FIRST
        return self._observation()

    def step(
        self, action: np.ndarray
    ) -> tuple[Observation, np.ndarray, bool, bool, Mapping[str, Any]]:
        if self._state == self.FIRST:
            self._state = self.SAFE if action[0] == 0 else self.COORDINATED
            return self._observation(), np.zeros(1, np.float32), False, False, {}
        reward = np.array([self.PAYOFFS[self._state][action[0]][action[1]]], np.float32)
        self._state = self.END
        return self._observation(), reward, True, False, {}

    def state_dict(self) -> dict[str, Any]:
        return {"state": self._state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._state = int(state["state"])

    def close(self) -> None:
        """Nothing to close."""

    def _observation(self) -> Observation:
        seen = np.eye(4, 3, dtype=np.float32)[self._state]  # [S]
        return Observation(np.stack([seen, seen]), np.ones((2, 2), np.uint8), seen)


def matrix_game(
    *,
    game: Literal["qtran", "penalty", "wqmix", "small_penalty", "climbing", "qplex"],
    n_envs: int,
) -> SyncVectorEnv:
    """``n_envs`` environments of the named one-shot game."""
    return SyncVectorEnv(make=lambda: MatrixGame(payoff=PAYOFFS[game]), n_envs=n_envs)


def two_step_game(*, n_envs: int) -> SyncVectorEnv:
    """``n_envs`` environments of the two-step game."""
    return SyncVectorEnv(make=TwoStep, n_envs=n_envs)
