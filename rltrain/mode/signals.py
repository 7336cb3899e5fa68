"""Signals that end a run: Ctrl-C and SIGTERM."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

from rltrain.trainer import Trainer

SIGNAL_CODES = {"SIGINT": 130, "SIGTERM": 143}


class Interrupts:
    """The first Ctrl-C or SIGTERM ends the run after the present iteration, the second at once.

    Before there is a trainer the first one stops at once: nothing has been learned yet.
    """

    def __init__(self) -> None:
        self.trainer: Trainer | None = None
        self.caught: list[str] = []
        self.before: dict[signal.Signals, Any] = {}

    @property
    def exit_code(self) -> int:
        return SIGNAL_CODES[self.caught[0]] if self.caught else SIGNAL_CODES["SIGINT"]

    def handle(self, number: int, frame: FrameType | None) -> None:
        self.caught.append(signal.Signals(number).name)
        if self.trainer is None or len(self.caught) > 1:
            raise KeyboardInterrupt
        self.trainer.stop(self.caught[0], interrupted=True)

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            both = (signal.SIGINT, signal.SIGTERM)
            self.before = {s: signal.signal(s, self.handle) for s in both}
        return self

    def __exit__(self, *about: object) -> None:
        for s, handler in self.before.items():
            signal.signal(s, handler)
