"""Loggers that take seconds to start."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict
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
        self.waiting: list[tuple[int, dict[str, float]]] = []
        self.starter = Thread(target=self._start, name=self.NAME, daemon=True)

    @abstractmethod
    def begin(self) -> Any:
        """Start the run; called in the thread."""

    @abstractmethod
    def send(self, env_steps: int, row: dict[str, float]) -> None:
        """Log one row to the run."""

    def write(self, clock: Clock, seconds: float, row: Mapping[str, float]) -> None:
        self.waiting.append((clock.env_steps, {**row, **asdict(clock), "seconds": seconds}))
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
            env_steps, row = self.waiting.pop(0)
            if self.run is not None:
                self.send(env_steps, row)

    def _start(self) -> None:
        try:
            self.run = self.begin()
        except Exception as error:
            text = "%s could not start (%s); the run goes on without it"
            log.warning(text, self.NAME, error, exc_info=True)
