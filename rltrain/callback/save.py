"""Periodic checkpoints, and the self-play pool in the run folder: past weights for matches and
evaluations, and battle results for reports.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rltrain.callback.hooks import Callback, Due
from rltrain.callback.training import Training
from rltrain.common import checkpoint
from rltrain.common.checkpoint.opponent_files import RESULTS
from rltrain.common.conformance import require_savable
from rltrain.common.files import put_text
from rltrain.common.number_types import saved_array
from rltrain.common.stateful import all_or_nothing
from rltrain.errors import EnvError, StorageError
from rltrain.types import StateDict, Steps

POOL = "pool"
"""The pool's folder in the run folder."""


class Save(Callback):
    """Saves checkpoints at every multiple of ``interval`` env steps, at the end and on an
    interruption.

    Args:
        parts: parts that may be the user's own, by their names in a configuration; the first
            iteration, or the first one with an update, ends with a ValueError if their state, the
            trainer's or the learner's cannot be saved.
    """

    state_names = ("due", "saved_at")

    def __init__(
        self, *, interval: int, replay_buffer: bool, parts: Sequence[tuple[str, object]] = ()
    ) -> None:
        self.due, self.replay_buffer = Due(interval, interval), replay_buffer
        self.saved_at, self.parts, self.checked = -1, parts, set[bool]()

    def on_iteration(self, trainer: Training, value: None = None) -> None:
        begun = trainer.clock.updates > 0  # most optimizers make their state in the first one
        if begun not in self.checked:
            env = getattr(trainer.rollout, "env", None)  # None: those of workers are elsewhere
            update = trainer.learner.target_update
            own = ("algo.target_update", update), ("buffer", trainer.buffer), ("env", env)
            for name, part in (*own, *self.parts, ("algo", trainer.learner), ("run", trainer)):
                require_savable(part, name, begun=True)
            self.checked.add(begun)
        env_steps = trainer.clock.env_steps
        if self.due.reached(env_steps):
            with all_or_nothing(self.due):
                self.due(env_steps)
                if not trainer.diverging:
                    self.save(trainer)
                    require_folder(trainer)

    def on_train_end(self, trainer: Training, value: None = None) -> None:
        if not self.save(trainer):
            require_folder(trainer)
            latest = checkpoint.newest_full(trainer.run_dir / "checkpoints")
            goes_on = "there is no other, so it begins again at env step 0"
            if latest is not None:
                goes_on = f"it goes on from env step {latest:,}"
            raise StorageError(
                "The last checkpoint could not be written. Free space in the run folder, then "
                f"resume the run: {goes_on}."
            )

    def on_exception(self, trainer: Training, value: BaseException) -> BaseException:
        """Save a run with a broken environment."""
        if isinstance(value, EnvError) and trainer.clock.env_steps > 0 and not trainer.diverging:
            trainer.tests.drop()
            self.saved_at = -1  # saving may be what failed
            self.save(trainer)
        return value

    def save(self, trainer: Training) -> bool:
        """Write a full checkpoint unless this env step has one; return whether it has one."""
        before, now = self.saved_at, trainer.clock.env_steps
        if before == now:
            return True
        with all_or_nothing(self), trainer.disk.attempt("a checkpoint"):
            self.saved_at = now  # part of the saved state
            trainer.save("full", with_replay=self.replay_buffer)
            return True
        self.saved_at = before
        return False


def require_folder(trainer: Training) -> None:
    """Raise StorageError if the run folder is gone."""
    if not trainer.run_dir.is_dir():
        raise StorageError(f"The run folder {trainer.run_dir} was deleted or moved during the run.")


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
                with trainer.disk.attempt("a snapshot"):
                    self.write(trainer, pool)
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
        with trainer.disk.attempt(RESULTS):
            put_text(trainer.run_dir / RESULTS, json.dumps(self.results))
