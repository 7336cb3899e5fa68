"""Periodic checkpoints."""

from __future__ import annotations

from collections.abc import Sequence

from rltrain.callback.hooks import Callback, Due
from rltrain.callback.training import Training
from rltrain.common import checkpoint
from rltrain.common.conformance import require_savable
from rltrain.common.stateful import all_or_nothing
from rltrain.errors import EnvError, StorageError


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
        with all_or_nothing(self):
            self.saved_at = now  # part of the saved state
            saved = trainer.disk.attempt(
                "a checkpoint", lambda: trainer.save("full", with_replay=self.replay_buffer)
            )
        self.saved_at = now if saved else before
        return saved


def require_folder(trainer: Training) -> None:
    """Raise StorageError if the run folder is gone."""
    if not trainer.run_dir.is_dir():
        raise StorageError(f"The run folder {trainer.run_dir} was deleted or moved during the run.")
