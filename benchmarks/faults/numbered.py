"""Environments with numbered, failing steps, for the worker processes of ``workers``.

Workers import this when they are replaced, so it imports little.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

EVERY = 137  # env steps of a worker
HANGS = 20
FILE = "RLTRAIN_FAULTS"
"""Environment variable: a file that receives a byte per fault."""


class Numbered(gymnasium.Env[np.ndarray, int]):
    """Episodes of nine steps, which show their seed and their step."""

    observation_space = gymnasium.spaces.Box(0, 1e6, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    length = 9

    def __init__(self) -> None:
        self.steps = 0  # of this process

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.number, self.t = float((seed or 0) % 10**6), 0
        return self.observation(), {}

    def step(self, action: int) -> Any:
        self.t += 1
        self.steps += 1
        if self.steps == EVERY:
            self.fail()
        return self.observation(), 1.0, self.t == self.length, False, {}

    def fail(self) -> None:
        """What happens in a step of this number."""

    def observation(self) -> np.ndarray:
        return np.array([self.number, self.t], np.float32)


class Killed(Numbered):
    """Its process is killed."""

    def fail(self) -> None:
        note()
        os.kill(os.getpid(), signal.SIGKILL)


class KilledAsOften(Killed):
    """Its process is killed, as often as others hang."""

    def fail(self) -> None:
        if n_noted() < HANGS:
            super().fail()


class Hangs(Numbered):
    """A step that does not return, in so many processes."""

    def fail(self) -> None:
        if n_noted() < HANGS:
            note()
            time.sleep(1000)


def note() -> None:
    """Count a fault."""
    with open(os.environ[FILE], "ab") as file:
        file.write(b".")


def n_noted() -> int:
    """The faults that were counted."""
    return Path(os.environ[FILE]).stat().st_size
