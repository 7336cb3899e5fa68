"""Running statistics of the observations of training."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rltrain.callback.hooks import Callback
from rltrain.callback.training import Training
from rltrain.types import Steps


class ObsStatistics(Callback):
    """Updates the network's running mean and variance with every collected observation once;
    neither tests nor sampled batches change them.
    """

    def __init__(self, *, update: Callable[[np.ndarray], None]) -> None:
        self.update = update

    def on_collect(self, trainer: Training, value: Steps) -> Steps:
        self.update(value.obs)
        return value
