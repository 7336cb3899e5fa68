"""The stages of a trainer, and which event leads from one to another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from rltrain.errors import UsageError


class Stage(Enum):
    """A stage of a trainer."""

    OCCUPIED = auto()  # its folder holds a run that must be restored first
    NEW = auto()  # on_train_start has not been called
    RUNNING = auto()
    ENDED = auto()  # on_train_end was called at this env step
    CLOSED = auto()


OCCUPIED, NEW, RUNNING, ENDED, CLOSED = Stage
AFTER: Mapping[str, Mapping[Stage, Stage]] = {
    "start": {NEW: RUNNING, RUNNING: RUNNING, ENDED: ENDED},
    "collect": {NEW: NEW, RUNNING: RUNNING, ENDED: RUNNING},
    "write": {NEW: NEW, RUNNING: RUNNING, ENDED: ENDED},
    "end": {NEW: ENDED, RUNNING: ENDED, ENDED: ENDED},
    "restore": {OCCUPIED: NEW, NEW: NEW, RUNNING: RUNNING, ENDED: RUNNING},
    "close": dict.fromkeys(Stage, CLOSED),
}
"""The stage after an event, by the stage before; what is not there is refused."""
REFUSED = {
    OCCUPIED: "{run_dir} already holds a run. Call trainer.restore('{run_dir}') to continue it, "
    "or choose another run_dir.",
    CLOSED: "This trainer is closed. Make another one for {run_dir}, and call its restore() to "
    "continue the run.",
}
"""Why, by the stage before."""


@dataclass(frozen=True)
class StopRequest:
    """A request to end a run after the current iteration; UsageError if ``why`` is no text."""

    why: str
    interrupted: bool  # by a signal: without a last test

    def __post_init__(self) -> None:
        if not isinstance(self.why, str):
            raise UsageError(f"trainer.stop({self.why!r}): expected the reason, such as 'solved'.")
