"""Which parts of training the time goes to."""

from __future__ import annotations

import time
from typing import Literal

import numpy as np

Part = Literal["collecting", "sampling", "learning", "other"]


class Stopwatch:
    """Wall-clock seconds in the parts of a training loop, as shares since they were last taken."""

    def __init__(self) -> None:
        self.seconds: dict[Part, float] = {}
        self.at = self.begun = time.perf_counter()
        self.collected = np.zeros(2)

    def lap(self, part: Part) -> None:
        """The time since the last call went to ``part``."""
        now = time.perf_counter()
        self.seconds[part] = self.seconds.get(part, 0.0) + now - self.at
        self.at = now

    def take(self, collecting: np.ndarray) -> dict[str, float]:
        """The shares of all time since the last call by ``env_share``, ``acting_share``,
        ``sampling_share`` and ``learning_share``.

        Args:
            collecting: [..., 2] seconds of rollouts, acting and in environments, in all. Their
                ratio divides the time that training spent collecting, or waiting for it.
        """
        now, collected = time.perf_counter(), collecting.reshape(-1, 2).sum(0)
        passed = max(now - self.begun, 1e-9)
        spent = collected - self.collected
        acting = spent[0] / max(spent.sum(), 1e-9)
        share = {part: seconds / passed for part, seconds in self.seconds.items()}
        self.seconds, self.begun, self.collected = {}, now, collected
        return {
            "acting_share": float(share.get("collecting", 0.0) * acting),
            "env_share": float(share.get("collecting", 0.0) * (1 - acting)),
            "sampling_share": share.get("sampling", 0.0),
            "learning_share": share.get("learning", 0.0),
        }
