"""Signals that end a run: Ctrl-C, SIGTERM, SIGHUP, and SIGUSR1 of a cluster that requeues it."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

from rltrain.common import checkpoint
from rltrain.errors import SIGNAL_CODES
from rltrain.logger.train_log import NOTICE
from rltrain.trainer import Trainer

log = logging.getLogger("rltrain")
TYPED = {name: name for name in SIGNAL_CODES} | {"SIGINT": "Ctrl-C"}
"""Their names in messages."""


@dataclass
class Interrupts:
    """The first signal ends the runs of this process after the current iteration, the second
    immediately.

    Before there is a trainer the first one stops it immediately: nothing has been learned yet.
    """

    trainers: list[Trainer] = field(default_factory=list)
    caught: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        return SIGNAL_CODES[self.caught[0]] if self.caught else SIGNAL_CODES["SIGINT"]

    def follow(self, trainer: Trainer) -> None:
        """Stop this trainer from now on; at once if a signal came before, and what it raised was
        dropped, as Python does in a ``__del__``.
        """
        self.trainers.append(trainer)
        if self.caught:
            trainer.stop(self.caught[0], interrupted=True)

    def handle(self, number: int, frame: FrameType | None) -> None:
        """The signal handler. Another thread prints the message: this one may hold the locks of
        the screen or of the log.
        """
        name = signal.Signals(number).name
        self.caught.append(name)
        if not self.trainers or len(self.caught) > 1:
            raise KeyboardInterrupt(self.exit_code)
        for trainer in self.trainers:
            trainer.stop(name, interrupted=True)
        threading.Thread(target=self.announce, args=[name], name="signal").start()

    def announce(self, name: str) -> None:
        """Print what happens now, and what a second signal does."""
        steps = [checkpoint.newest_full(each.run_dir / "checkpoints") for each in self.trainers]
        kept = [step for step in steps if step is not None]
        log.log(
            NOTICE,
            "%s: stopping after this iteration and saving. %s again: exit immediately, %s.",
            TYPED[name],
            TYPED[name],
            f"keeping the last checkpoint (env step {min(kept):,})"
            if kept
            else "with no checkpoint, since there is none yet",
        )


@contextmanager
def handling(handle: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Let ``handle`` handle the signals of ``SIGNAL_CODES``, in the main thread only; not SIGHUP
    where it was switched off, as ``nohup`` does.
    """
    numbers = set(map(signal.Signals.__getitem__, SIGNAL_CODES))
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        numbers.discard(signal.SIGHUP)
    if threading.current_thread() is not threading.main_thread():
        numbers.clear()
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
