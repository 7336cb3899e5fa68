"""The self-play pool in the run folder, for matches and evaluations of past weights, and its battle
results, for reports.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from rltrain.callback.hooks import Callback, Due
from rltrain.callback.training import Training
from rltrain.common import checkpoint
from rltrain.common.checkpoint.opponent_files import RESULTS
from rltrain.common.files import put_text
from rltrain.common.number_types import saved_array
from rltrain.common.stateful import all_or_nothing
from rltrain.types import StateDict, Steps

POOL = "pool"
"""The pool's folder in the run folder."""


class SaveSnapshots(Callback):
    """Writes the weights of self-play snapshots to ``pool/<env_steps>``, and keeps the newest.

    They are for other commands; opponents are restored from the checkpoint.
    """

    state_names = ("due", "newest", "results")

    def __init__(self, *, interval: int, pool_size: int) -> None:
        self.due, self.pool_size, self.newest = Due(interval), pool_size, 0
        self.results: dict[str, dict[str, list[int]]] = {}

    def load_state_dict(self, state: StateDict) -> None:
        super().load_state_dict(state)
        for of_now in self.results.values():
            for counts in of_now.values():
                saved_array("results", counts, np.zeros(3, np.int64), 0)

    def on_train_start(self, trainer: Training, value: None = None) -> None:
        now, pool = trainer.clock.env_steps, trainer.run_dir / POOL
        lost = [step for step in checkpoint.list_steps(pool) if step > now]
        checkpoint.remove(pool, lost)
        self.on_iteration(trainer)

    def on_iteration(self, trainer: Training, value: None = None) -> None:
        pool = trainer.run_dir / POOL
        env_steps = trainer.clock.env_steps
        if self.due.reached(env_steps):
            with all_or_nothing(self, self.due):
                self.due(env_steps)
                self.on_train_end(trainer)
                self.newest = env_steps
                trainer.disk.attempt("a snapshot", lambda: self.write(trainer, pool))
                checkpoint.remove(pool, checkpoint.list_steps(pool)[self.pool_size :])

    def write(self, trainer: Training, pool: Path) -> None:
        """Write the weights, unless the run folder is gone: a deleted one is not made again."""
        pool.mkdir(exist_ok=True)
        trainer.export(pool, replace=True)

    def on_collect(self, trainer: Training, value: Steps) -> Steps:
        for info in (episode.info for episode in value.episodes):
            if "snapshot" in info and "win" in info:
                of_now = self.results.setdefault(str(self.newest), {})
                counts = of_now.setdefault(str(info["snapshot"]), [0, 0, 0])
                counts[0 if info["win"] else 1 if info.get("draw") else 2] += 1
        return value

    def on_train_end(self, trainer: Training, value: None = None) -> None:
        path, text = trainer.run_dir / RESULTS, json.dumps(self.results)
        trainer.disk.attempt(RESULTS, lambda: put_text(path, text))
