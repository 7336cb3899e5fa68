"""Running statistics of the observations of training."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rltrain.callback.hooks import Callback
from rltrain.interfaces import Training
from rltrain.types import Steps


class ObsStatistics(Callback):
    """Every collected observation counts once in the network's running mean and variance; nothing
    else moves them: neither tests nor what is sampled again.
    """

    def __init__(self, *, update: Callable[[np.ndarray], None]) -> None:
        self.update = update

    def on_collect(self, trainer: Training, value: Steps) -> Steps:
        self.update(value.obs)
        return value
