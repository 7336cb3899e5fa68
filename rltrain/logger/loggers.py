"""Several loggers as one. A logger gets one row at a time: the clock plus means by name."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from rltrain.common.stateful import Stateful, named

if TYPE_CHECKING:
    from rltrain.types import Clock, StateDict

log = logging.getLogger("rltrain")
VIDEO = "test/video"
"""The name of videos of tests."""
OUTLIVED = (Exception, SystemExit)
"""Exceptions of loggers that end no run; wandb calls ``sys.exit``."""


class Logger(Stateful):
    """A destination of metrics. A subclass has ``write``, and the others if it needs them."""

    patience: float = 3
    """Failures in a row after which it is switched off."""

    def sync(self) -> None:
        """Write to the disk what a checkpoint counts on."""

    def start(self) -> None:
        """Begin, or remove what was written after the state that was loaded; before each row."""

    @abstractmethod
    def write(self, clock: Clock, seconds: float, row: Mapping[str, float]) -> None:
        """Write a row."""

    def video(self, clock: Clock, path: Path) -> None:
        """Add the video (GIF) of a test episode, as ``VIDEO``."""

    def summarize(self, summary: Mapping[str, object]) -> None:
        """Record the end of a run, before ``close``: ``status``, ``final`` and ``best`` tests."""

    def close(self) -> None:
        """Write what is left; called once, at the end of a run."""


def append(path: Path, content: bytes) -> None:
    """Add to a file, which is made; what does not fit on the disk is not there in part either.

    Raises:
        OSError: it cannot be written.
    """
    with path.open("ab", buffering=0) as file:
        before = file.tell()
        try:
            while content:
                content = content[file.write(content) :]
        except OSError:
            file.truncate(before)
            raise


@dataclass
class Failures:
    """The failures of one logger, which training outlives: the first one is a warning, and after
    ``patience`` in a row it is switched off.
    """

    name: str
    patience: float
    in_row: float = 0
    shown: bool = False  # whether one was

    @property
    def off(self) -> bool:
        """Whether the logger is switched off."""
        return self.in_row >= self.patience

    @contextmanager
    def outlived(
        self, what: str, kinds: tuple[type[BaseException], ...] = OUTLIVED, n: float = 1
    ) -> Iterator[None]:
        """Context in which a failure is reported and ends there.

        Args:
            what: that the logger could not do, as in "write a row".
            kinds: exceptions that are failures.
            n: failures that it counts as.
        """
        try:
            yield
        except kinds as error:
            self.in_row += n
            off = " without it" if self.off else ""
            text = f"{self.name} could not {what} ({str(error) or type(error).__name__})"
            level = logging.INFO if self.shown else logging.WARNING
            log.log(level, "%s; the run continues%s", text, off, exc_info=True)
            self.shown = True


class Loggers:
    """Several loggers; training continues whatever happens to one."""

    def __init__(self, loggers: Sequence[Logger]) -> None:
        self.loggers = list(loggers)
        self.failures = [Failures(type(each).__name__, each.patience) for each in loggers]

    def write(self, clock: Clock, seconds: float, row: Mapping[str, float]) -> None:
        self.start()
        self._each(lambda logger: logger.write(clock, seconds, dict(row)), "write a row")

    def video(self, clock: Clock, path: Path) -> None:
        """Add the video (GIF) of a test episode."""
        self._each(lambda logger: logger.video(clock, path), "add a video")

    def _each(self, call: Callable[[Logger], None], what: str) -> None:
        """Call ``call`` with every logger that is not switched off."""
        for logger, failures in zip(self.loggers, self.failures, strict=True):
            if not failures.off:
                with failures.outlived(what):
                    call(logger)
                    failures.in_row = 0

    def start(self) -> None:
        """Remove what was written after the state that was loaded, before the run continues."""
        for logger, failures in zip(self.loggers, self.failures, strict=True):
            with failures.outlived("remove what came after the checkpoint"):
                logger.start()

    def close(self, summary: Mapping[str, object] = MappingProxyType({})) -> None:
        self._each(lambda logger: logger.summarize(summary), "record the end of the run")
        for logger, failures in zip(self.loggers, self.failures, strict=True):
            with failures.outlived("be closed", (*OUTLIVED, KeyboardInterrupt)):  # Ctrl-C skips one
                logger.close()

    def state_dict(self) -> StateDict:
        state: StateDict = {}
        for (name, logger), failures in zip(named(self.loggers), self.failures, strict=True):
            with failures.outlived("sync"):
                logger.sync()
            with failures.outlived("save its state"):
                state[name] = logger.state_dict()
        return state

    def load_state_dict(self, state: StateDict) -> None:
        """Restore the loggers; ``start`` removes what they wrote after the state was saved."""
        for (name, logger), failures in zip(named(self.loggers), self.failures, strict=True):
            if name in state:
                with failures.outlived("restore its state"):
                    logger.load_state_dict(state[name])
