"""The two-step game of one environment, written out: what the arrays are compared with."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from rltrain.env.vector import Env, Observation
from rltrain.types import EnvSpec


class TwoStep(Env):
    """The two-step game of Rashid et al. (2018), section 5: a safe branch (7) or coordination (8).

    In state 0 the first agent's action chooses state 1 (action 0) or 2 (action 1), for reward 0.
    State 1 pays 7 whatever is done, state 2 pays [[0, 1], [1, 8]]; then the game ends. Observations
    and state are the one-hot of these three; all zero once the game has ended.
    """

    FIRST, SAFE, COORDINATED, END = range(4)
    PAYOFFS: ClassVar[Mapping[int, list[list[float]]]] = {
        SAFE: [[7, 7], [7, 7]],
        COORDINATED: [[0, 1], [1, 8]],
    }

    def __init__(self) -> None:
        self.spec = EnvSpec(n_agents=2, n_actions=2, obs_shape=(3,), state_dim=3, max_steps=2)
        self._state = self.FIRST

    def reset(self, seed: int) -> Observation:
        self._state = self.FIRST
        return self._observation()

    def step(self, action: np.ndarray) -> tuple[Observation, np.ndarray, bool, bool, Mapping]:
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
