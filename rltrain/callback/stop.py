"""Early stopping."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field
from typing import Literal

from rltrain.callback.hooks import Callback
from rltrain.callback.training import Training

log = logging.getLogger("rltrain")


@dataclass(kw_only=True, eq=False)
class Stop(Callback):
    """Ends the run when a metric rises (``mode`` max) or falls (min) to a value, or a number of
    hours after the start or last resume.
    """

    metric: str | None
    mode: Literal["max", "min"]
    value: float | None
    hours: float | None
    warned: bool = field(default=False, init=False)

    def on_train_start(self, trainer: Training, value: None = None) -> None:
        if trainer.clock.env_steps > 0:  # resumed
            self._compare(trainer)

    def on_iteration(self, trainer: Training, value: None = None) -> None:
        self._compare(trainer)
        seconds = trainer.seconds - trainer.usage.seconds_before
        if self.hours is not None and seconds >= 3600 * self.hours:
            trainer.stop(f"{self.hours:g} hours are over")

    def _compare(self, trainer: Training) -> None:
        """End the run if the latest value of the metric has reached ``value``; warn once if
        episodes were reported without it, since an environment may not count it.
        """
        metric, latest = self.metric, trainer.latest
        if metric is None or self.value is None:
            return
        now = latest.get(metric, math.nan)
        if now >= self.value if self.mode == "max" else now <= self.value:
            trainer.stop(f"{metric} reached {now:g}")
        episodes = f"{metric.partition('/')[0]}/return_mean" in latest
        if metric.endswith("_mean") and episodes and metric not in latest and not self.warned:
            self.warned = True
            log.warning(
                "The run will not stop on stop.metric=%s: the environment does not report it. "
                "There are %s.",
                metric,
                ", ".join(sorted(name for name in latest if name.endswith("_mean"))),
            )
