"""Several loggers as one. A logger gets one row at a time: the clock plus means by name.

To add one: a subclass of ``Logger``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from rltrain.types import Clock

log = logging.getLogger("rltrain")


class Logger(Protocol):
    """A destination of metrics. A subclass has ``write``, and the others if it needs them."""

    @property
    def offset(self) -> int | None:
        """Bytes written so far, where a resumed run cuts off what a checkpoint did not see."""
        return None

    def cut(self, offset: int) -> None:
        """Remove what was written after ``offset``."""
        return

    def write(self, clock: Clock, seconds: float, row: Mapping[str, float]) -> None: ...

    def close(self) -> None:
        """Write what is left; called once, at the end of a run."""
        return


class Loggers:
    """Several loggers; one that fails three times in a row is switched off; training continues."""

    PATIENCE = 3

    def __init__(self, loggers: Sequence[Logger]) -> None:
        self.loggers: list[Logger] = []
        self.failures: list[int] = []  # in a row, of each logger
        for logger in loggers:
            self.add(logger)

    def add(self, logger: Logger) -> None:
        self.loggers.append(logger)
        self.failures.append(0)

    def write(self, clock: Clock, seconds: float, row: Mapping[str, float]) -> None:
        for i, logger in enumerate(self.loggers):
            if self.failures[i] >= self.PATIENCE:
                continue
            try:
                logger.write(clock, seconds, row)
                self.failures[i] = 0
            except Exception:
                self.failures[i] += 1
                off = ", which is now switched off" if self.failures[i] == self.PATIENCE else ""
                log.warning("%s could not write a row%s", type(logger).__name__, off, exc_info=True)

    def close(self) -> None:
        for logger in self.loggers:
            try:
                logger.close()
            except (Exception, KeyboardInterrupt):  # Ctrl-C skips this one
                log.warning("%s could not be closed", type(logger).__name__, exc_info=True)

    def state_dict(self) -> dict[str, Any]:
        return {"offsets": [logger.offset for logger in self.loggers]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for logger, offset in zip(self.loggers, state["offsets"], strict=False):
            if offset is not None:
                logger.cut(offset)
