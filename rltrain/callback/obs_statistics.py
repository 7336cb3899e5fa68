"""Running statistics of training observations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rltrain.callback.hooks import Callback
from rltrain.callback.training import Training
from rltrain.types import Steps


@dataclass(kw_only=True, eq=False)
class ObsStatistics(Callback):
    """Updates the network's running mean and variance with each collected observation once; tests,
    sampled batches and a team's absent agents do not change them.
    """

    update: Callable[[np.ndarray], None]

    def on_collect(self, trainer: Training, value: Steps) -> Steps:
        obs = value.obs
        if obs.shape[2] > 1:  # absent agents see zeros and have one action
            sees = obs.any(axis=tuple(range(3, obs.ndim)))
            obs = obs[sees | (value.avail_actions.sum(-1) > 1)]
        self.update(obs)
        return value
