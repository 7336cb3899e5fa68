"""One-step and repeated matrix games, and the two-step game, with known solutions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from rltrain.common.number_types import Count
from rltrain.env.games.lockstep import GameEnv
from rltrain.types import EnvSpec

PAYOFFS: Mapping[str, list[list[float]]] = {
    "qtran": [[8, -12, -12], [-12, 0, 0], [-12, 0, 0]],  # Son et al. (2019), table 1
    "qtran_12": [[12, -12, -12], [-12, 0, 0], [-12, 0, 0]],
    "wqmix": [[12, 0, 10], [0, 0, 10], [10, 10, 10]],  # Rashid et al. (2020)
    "small_penalty": [[12, -0.1, -0.1], [-0.1, 0, 0], [-0.1, 0, 0]],
    "qplex": [[10.4, 0, 10], [0, 10, 10], [10, 10, 10]],  # Wang et al. (2021)
    "climbing": [[11, -30, 0], [-30, 7, 0], [0, 6, 5]],  # Claus and Boutilier (1998)
    **{f"penalty_{k}": [[-k, 0, 10], [0, 2, 0], [10, 0, -k]] for k in (0, 25, 50, 75, 100)},
}
"""Team rewards by name, square tables: rows are the first agent's actions, columns the second's."""


class MatrixGames(GameEnv):
    """Two agents act ``length`` times for the team reward ``payoff[first][second]``; observations
    are a constant 1. The end of the game is termination, as in EPyMARL.
    """

    remembers = ("_t",)

    def __init__(
        self,
        *,
        game: Literal[
            "qtran",
            "qtran_12",
            "wqmix",
            "small_penalty",
            "qplex",
            "climbing",
            "penalty_0",
            "penalty_25",
            "penalty_50",
            "penalty_75",
            "penalty_100",
        ],
        length: Count,
        n_envs: int,
    ) -> None:
        self.payoff, self.length = np.array(PAYOFFS[game], np.float32), length
        spec = EnvSpec(
            n_agents=2, n_actions=len(self.payoff), obs_shape=(1,), state_dim=1, max_steps=length
        )
        super().__init__(spec, n_envs)
        self.obs[:], self.state[:] = 1, 1
        self.limits = {"_t": (0, length)}
        self._t = np.zeros(n_envs, np.int64)

    def _begin(self, envs: np.ndarray, seeds: np.ndarray) -> None:
        self._t[envs] = 0

    def _advance(
        self, action: np.ndarray, playing: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        self._t += playing
        reward = self.payoff[action[:, 0], action[:, 1]]
        return reward, self._t == self.length, np.zeros(self.n_envs, np.bool_)


class TwoStepGames(GameEnv):
    """The two-step game of Rashid et al. (2018), section 5: a safe branch (7) or coordination (8).

    In state 0, the first agent's action chooses state 1 (action 0) or 2 (action 1), for reward 0.
    State 1 pays 7 for any actions, state 2 pays [[0, 1], [1, 8]]; then the game ends. Observations
    and state are the one-hot state, all zero after the end.
    """

    remembers, limits = ("_place",), {"_place": (0, 3)}
    PAYOFF = np.array([[[0, 0], [0, 0]], [[7, 7], [7, 7]], [[0, 1], [1, 8]]], np.float32)
    END = 3
    SHOWN = np.eye(4, 3, dtype=np.float32)

    def __init__(self, *, n_envs: int) -> None:
        spec = EnvSpec(n_agents=2, n_actions=2, obs_shape=(3,), state_dim=3, max_steps=2)
        super().__init__(spec, n_envs)
        self._place = np.zeros(n_envs, np.int64)  # 0 … 3

    def _begin(self, envs: np.ndarray, seeds: np.ndarray) -> None:
        self._place[envs] = 0
        self._show()

    def _advance(
        self, action: np.ndarray, playing: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        first = self._place == 0
        place = np.minimum(self._place, 2)
        reward = self.PAYOFF[place, action[:, 0], action[:, 1]]
        self._place[:] = np.where(first, 1 + (action[:, 0] > 0), self.END)
        self._show()
        return reward, ~first, np.zeros(self.n_envs, np.bool_)

    def _show(self) -> None:
        self.state[:] = self.SHOWN[self._place]
        self.obs[:] = self.state[:, None]
