"""What ends a run early: a metric, the time, and undone updates, since learning diverges; and
warnings of these, and of a categorical support that is too narrow.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field
from typing import Any, Literal

from rltrain.callback.hooks import Callback
from rltrain.callback.training import Training
from rltrain.common import checkpoint
from rltrain.common.number_types import saved_number
from rltrain.errors import DivergedError
from rltrain.types import StateDict, UpdateResult

log = logging.getLogger("rltrain")

WARN_AFTER, STOP_AFTER = 100, 1_000
"""Undone updates in a row."""
CLIPPED = 0.1
"""Fraction of the target mass outside a categorical support that triggers a warning."""
UNDONE = 0.5
"""Fraction of the updates between two log rows whose undoing triggers a warning."""
ADVICE = (
    "Lower algo.optimizer.lr or set algo.max_grad_norm, and look for infinite or very large "
    "observations and rewards."
)


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


@dataclass(eq=False)
class Health(Callback):
    """Warns when all recent updates were undone, and ends the run if this continues; warns once if
    most of those between two log rows were, and if targets exceed a categorical support.

    Undone updates are counted on the device; the count is read every ``WARN_AFTER`` updates.
    """

    only_counts = True
    state_names = ("read_at", "warned_of_support", "warned_of_undone")
    undone: Any = 0.0  # consecutive; a tensor after the first update
    read_at: int = 0  # updates
    warned_of_support: bool = False
    warned_of_undone: bool = False

    # twin: kernels/learning.py
    def on_update(self, trainer: Training, value: UpdateResult) -> UpdateResult:
        undone = value.metrics.get("skipped_updates", 0.0)
        self.undone = (self.undone + undone) * undone
        return value

    def on_iteration(self, trainer: Training, value: None = None) -> None:
        updates = trainer.clock.updates
        if updates - self.read_at >= WARN_AFTER:
            self.read_at = updates
            self.check(trainer, int(self.undone))

    def check(self, trainer: Training, undone: int) -> None:
        """Warn about undone updates; DivergedError after too many in a row."""
        if undone >= STOP_AFTER:
            kept = checkpoint.pointed(trainer.run_dir / "checkpoints", "latest")
            raise DivergedError(
                f"Learning diverged: the last {undone:,} updates were undone, since their loss or "
                "their gradient was not finite. "
                + ("" if kept is None else f"The checkpoint of env step {kept:,} is from before. ")
                + ADVICE
            )
        if undone >= WARN_AFTER and not trainer.diverging:
            log.warning(
                f"the last {undone:,} updates were undone, since their loss or their gradient was "
                "not finite: nothing is learned. The run ends after "
                f"{STOP_AFTER:,} in a row."
            )
        trainer.diverging = undone >= WARN_AFTER

    def on_log(self, trainer: Training, value: dict[str, float]) -> dict[str, float]:
        undone = value.get("learn/skipped_updates", 0.0)
        if undone > UNDONE and not (trainer.diverging or self.warned_of_undone):
            self.warned_of_undone = True
            log.warning(
                f"{undone:.0%} of the updates since the last log row were undone, since their loss "
                f"or their gradient was not finite. {ADVICE}"
            )
        clipped = value.get("learn/clipped_target_mass", 0.0)
        if clipped > CLIPPED and not self.warned_of_support:
            self.warned_of_support = True
            log.warning(
                f"{clipped:.0%} of the targets' probability lies outside algo.distribution.v_min … "
                "v_max and was moved to an edge, where returns cannot be distinguished. Set both "
                "to the least and the greatest discounted return to expect."
            )
        return value

    def state_dict(self) -> StateDict:
        return {**super().state_dict(), "undone": float(self.undone)}

    def load_state_dict(self, state: StateDict) -> None:
        super().load_state_dict(state)
        self.undone = saved_number("undone", state["undone"], 0.0)
