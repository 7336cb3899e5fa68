"""Several loggers as one. A logger gets one row at a time: the clock plus means by name."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from rltrain.common.stateful import Stateful, named

if TYPE_CHECKING:
    from rltrain.types import Clock, StateDict

log = logging.getLogger("rltrain")
VIDEO = "test/video"
"""The name of videos of tests."""


class Logger(Stateful):
    """A destination of metrics. A subclass has ``write``, and the others if it needs them."""

    patience: float = 3
    """Failures in a row after which it is switched off."""

    @property
    def offset(self) -> int | None:
        """Bytes written so far, where a resumed run cuts off what a checkpoint did not see."""
        return None

    def sync(self) -> None:
        """Write to the disk what a checkpoint counts on."""

    def cut(self, offset: int) -> None:
        """Remove what was written after ``offset``."""

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


class Loggers:
    """Several loggers; training continues whatever happens to one. The first failure of a logger is
    shown, and after its ``patience`` it is switched off.
    """

    def __init__(self, loggers: Sequence[Logger]) -> None:
        self.loggers = list(loggers)
        self.failures: Counter[int] = Counter()  # in a row, by id of a logger
        self.shown: set[int] = set()  # ids of loggers whose failure was shown
        self.cuts: dict[int, int] = {}  # offsets to cut to, by id

    def write(self, clock: Clock, seconds: float, row: Mapping[str, float]) -> None:
        self.cut()
        self._each(lambda logger: logger.write(clock, seconds, dict(row)), "write a row")

    def video(self, clock: Clock, path: Path) -> None:
        """Add the video (GIF) of a test episode."""
        self._each(lambda logger: logger.video(clock, path), "add a video")

    def _each(self, write: Callable[[Logger], None], what: str) -> None:
        """Call ``write`` with every logger that is not switched off."""
        for logger in self.loggers:
            if self.failures[id(logger)] >= logger.patience:
                continue
            try:
                write(logger)
                self.failures[id(logger)] = 0
            except (Exception, SystemExit) as error:  # wandb calls sys.exit
                self.failures[id(logger)] += 1
                off = "; it is switched off" if self.failures[id(logger)] == logger.patience else ""
                self.report(logger, f"could not {what} ({error}){off}")

    def close(self, summary: Mapping[str, object] = MappingProxyType({})) -> None:
        for logger in self.loggers:
            try:
                if self.failures[id(logger)] < logger.patience:
                    logger.summarize(summary)
                logger.close()
            except (Exception, SystemExit, KeyboardInterrupt) as error:  # Ctrl-C skips this one
                self.report(logger, f"could not be closed ({type(error).__name__}: {error})")

    def report(self, logger: Logger, problem: str) -> None:
        """Log what is wrong with a logger: a warning the first time."""
        level = logging.INFO if id(logger) in self.shown else logging.WARNING
        self.shown.add(id(logger))
        log.log(level, "%s %s; the run continues", type(logger).__name__, problem, exc_info=True)

    def state_dict(self) -> StateDict:
        state: StateDict = {}
        for name, logger in named(self.loggers):
            own = state[name] = {}
            with self.outlived(logger, "sync"):
                logger.sync()
            with self.outlived(logger, "report its offset"):
                own["offset"] = self.cuts.get(id(logger), logger.offset)
            with self.outlived(logger, "save its state"):
                own["state"] = logger.state_dict()
        return state

    def load_state_dict(self, state: StateDict) -> None:
        """Restore the loggers; what they wrote after the state was saved is removed by ``cut``."""
        for name, logger in named(self.loggers):
            own = state.get(name, {})
            if own.get("offset") is not None:
                self.cuts[id(logger)] = own["offset"]
            with self.outlived(logger, "restore its state"):
                if own.get("state"):
                    logger.load_state_dict(own["state"])

    def cut(self) -> None:
        """Remove what was written after the state that was loaded, before the run continues."""
        for logger in self.loggers:
            if (offset := self.cuts.pop(id(logger), None)) is not None:
                with self.outlived(logger, "truncate it to the checkpoint"):
                    logger.cut(offset)

    @contextmanager
    def outlived(self, logger: Logger, what: str) -> Iterator[None]:
        """Context in which a failure of a logger is reported and ends there."""
        try:
            yield
        except (Exception, SystemExit) as error:
            self.report(logger, f"could not {what} ({error})")
