"""Gymnasium environments that fail, in worker processes.

Observation: the seed of the episode (its lowest bits) and the step in it.
"""

import multiprocessing
import os
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np


class Numbered(gymnasium.Env):
    """Episodes of nine steps that show their seed and their step."""

    observation_space = gymnasium.spaces.Box(0, 1e6, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    LENGTH = 9
    mark = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.number, self.t = float((seed or 0) % 10**6), 0
        return self._obs(), {}

    def step(self, action: int) -> Any:
        self.t += 1
        self.happens()
        return self._obs(), 1.0, self.t == self.LENGTH, False, {}

    def happens(self) -> None:
        """What goes wrong in a step."""

    def _obs(self) -> np.ndarray:
        return np.array([self.number, self.t], np.float32)

    def get_mark(self) -> int:
        return self.mark

    def get_pid(self) -> int:
        return os.getpid()


def first_time(name: str) -> bool:
    """Whether this is a worker, and none of this test came here before."""
    if multiprocessing.parent_process() is None:
        return False
    try:
        (Path(os.environ["FAULTS"]) / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


class NoPort(Numbered):
    """Cannot be made in a worker: at first, or as often as one is made."""

    always = True

    def __init__(self) -> None:
        if multiprocessing.parent_process() is not None and (self.always or first_time("made")):
            raise OSError("port 5000 is in use")


class PortAtLast(NoPort):
    always = False


class Dies(Numbered):
    """Its process ends in the fifth step of an episode, once."""

    def happens(self) -> None:
        if self.t == 5 and first_time("died"):
            os._exit(1)


class Hangs(Numbered):
    """It stops in the fifth step of an episode, once."""

    def happens(self) -> None:
        if self.t == 5 and first_time("hung"):
            time.sleep(1000)


class Raises(Numbered):
    """It fails in the fifth step of an episode, once."""

    def happens(self) -> None:
        if self.t == 5 and first_time("raised"):
            raise OSError("no more paper")


class Broken(Numbered):
    """In a worker it fails in its fifteenth step."""

    n_steps = 0

    def happens(self) -> None:
        self.n_steps += 1
        if self.n_steps == 15 and multiprocessing.parent_process() is not None:
            raise OSError("broken for good")
