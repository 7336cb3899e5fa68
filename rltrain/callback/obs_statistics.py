"""Running statistics of the observations of training."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from rltrain.callback.hooks import Callback
from rltrain.types import Steps

if TYPE_CHECKING:
    from rltrain.trainer import Trainer


class ObsStatistics(Callback):
    """Every collected observation counts once in the network's running mean and variance; nothing
    else moves them: neither tests nor what is sampled again.
    """

    def __init__(self, *, update: Callable[[np.ndarray], None]) -> None:
        self.update = update

    def on_collect(self, trainer: Trainer, value: Steps) -> Steps:
        self.update(value.obs)
        return value
