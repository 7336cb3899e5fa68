"""Loggers that take seconds to start."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

from rltrain.logger.loggers import Logger
from rltrain.types import Clock

log = logging.getLogger("rltrain")


class InBackground(Logger):
    """Starts in a thread at the first row, and keeps rows until it has started. A start that fails
    is logged, and the rows are dropped.

    Attributes:
        run: of the library, once it has started.
    """

    NAME: str

    def __init__(self) -> None:
        self.run: Any = None
        self.waiting: list[Callable[[], None]] = []
        self.starter = Thread(target=self._start, name=self.NAME, daemon=True)

    @abstractmethod
    def begin(self) -> Any:
        """Start the run; called in the thread."""

    @abstractmethod
    def send(self, env_steps: int, row: dict[str, float]) -> None:
        """Log one row to the run."""

    @abstractmethod
    def send_video(self, clock: Clock, path: Path) -> None:
        """Log a GIF to the run."""

    def write(self, clock: Clock, seconds: float, row: Mapping[str, float]) -> None:
        whole = {**row, **asdict(clock), "seconds": seconds}
        self._send(partial(self.send, clock.env_steps, whole))

    def video(self, clock: Clock, path: Path) -> None:
        self._send(partial(self.send_video, clock, path))

    def _send(self, call: Callable[[], None]) -> None:
        """Send now, or once the run has started."""
        self.waiting.append(call)
        if self.starter.ident is None:
            self.starter.start()
        if not self.starter.is_alive():
            self._send_waiting()

    def summarize(self, summary: Mapping[str, Any]) -> None:
        if self.starter.ident is not None:
            self.starter.join()
            self._send_waiting()

    def close(self) -> None:
        if self.run is not None:
            self.run.finish()

    def _send_waiting(self) -> None:
        while self.waiting:
            send = self.waiting.pop(0)
            if self.run is not None:
                send()

    def _start(self) -> None:
        try:
            self.run = self.begin()
        except Exception as error:
            text = "%s could not start (%s); the run goes on without it"
            log.warning(text, self.NAME, error, exc_info=True)
