"""Early stopping."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from rltrain.callback.hooks import Callback
from rltrain.callback.training import Training


@dataclass(kw_only=True, eq=False)
class Stop(Callback):
    """Ends the run when a metric has risen (``mode`` max) or fallen (min) to a value, or this many
    hours after it was started or resumed.
    """

    metric: str | None
    mode: Literal["max", "min"]
    value: float | None
    hours: float | None

    def on_iteration(self, trainer: Training, value: None = None) -> None:
        if self.metric is not None and self.value is not None:
            now = trainer.latest.get(self.metric, math.nan)
            if now >= self.value if self.mode == "max" else now <= self.value:
                trainer.stop(f"{self.metric} reached {now:g}")
        seconds = trainer.seconds - trainer.usage.seconds_before
        if self.hours is not None and seconds >= 3600 * self.hours:
            trainer.stop(f"{self.hours:g} hours are over")
