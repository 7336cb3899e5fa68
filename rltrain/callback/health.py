"""Warnings about undone updates and a categorical support that is too narrow."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

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
