"""The pool of self-play in the run folder, for matches and evaluations of past weights."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rltrain.callback.hooks import Callback, Due
from rltrain.callback.training import Training
from rltrain.common import checkpoint

POOL = "pool"
"""The folder in a run's."""


class SaveSnapshots(Callback):
    """Writes the weights of self-play's snapshots to ``pool/<env_steps>``, and keeps the newest.

    Opponents have theirs from the checkpoint; these are for other commands.
    """

    def __init__(self, *, interval: int, pool_size: int) -> None:
        self.due, self.pool_size = Due(interval), pool_size

    def on_train_start(self, trainer: Training, value: None = None) -> None:
        now, pool = trainer.clock.env_steps, trainer.run_dir / POOL
        delete(pool, [step for step in checkpoint.steps_of(pool) if step > now])  # of a lost end
        self.on_iteration(trainer)

    def on_iteration(self, trainer: Training, value: None = None) -> None:
        pool = trainer.run_dir / POOL
        if self.due(trainer.clock.env_steps):
            trainer.disk.attempt("a snapshot", lambda: trainer.export(pool))
            delete(pool, checkpoint.steps_of(pool)[self.pool_size :])

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.due.at}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.due.at = int(state["at"])


def delete(pool: Path, steps: Sequence[int]) -> None:
    """Delete the snapshots of these env steps."""
    for step in steps:
        shutil.rmtree(pool / str(step), ignore_errors=True)
