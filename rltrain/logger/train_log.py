"""``train.log``: every message, every traceback and the rows of metrics."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from itertools import chain
from logging.handlers import MemoryHandler
from pathlib import Path

from rich.console import Console as RichConsole

from rltrain.common.machine.streams import Lenient
from rltrain.errors import printable
from rltrain.logger.loggers import Logger
from rltrain.logger.screen import Screen, shown_metrics
from rltrain.types import Clock

log = logging.getLogger("rltrain")
NOTICE = logging.INFO + 5
"""Level of messages that are shown although they are not warnings."""
CURRENT = ContextVar[logging.Handler | None]("CURRENT", default=None)
"""Of the run whose turn it is, where several take turns; threads without one log for all."""


class TrainLog(Logger):
    """The rows as text in ``train.log``, next to messages and tracebacks; ``metrics.jsonl`` has all
    of their numbers.
    """

    def write(self, clock: Clock, seconds: float, row: Mapping[str, float]) -> None:
        texts = [f"{name} {value}" for name, value in chain(*shown_metrics(row))]
        log.info("%s env steps: %s", f"{clock.env_steps:,}", ", ".join(texts))


@contextmanager
def train_log(screen: RichConsole, job: str | None = None) -> Iterator[Callable[[Path], None]]:
    """Show notices and warnings, those of a sweep's ``job`` with its name before them; yields a
    function that keeps all messages, those so far included, in the ``train.log`` of a folder.
    """
    waiting = MemoryHandler(capacity=10_000, flushLevel=logging.CRITICAL + 1)
    handlers: list[logging.Handler] = [waiting, ScreenHandler(screen, job)]

    def of_run(record: logging.LogRecord) -> bool:
        return CURRENT.get() in (None, waiting)

    def keep_in(run_dir: Path) -> None:
        file = LogFile(run_dir / "train.log", encoding="utf-8", errors="backslashreplace")
        file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        for record in waiting.buffer:
            file.handle(record)
        log.removeHandler(waiting)
        file.addFilter(of_run)
        log.addHandler(file)
        handlers.append(file)

    level, propagate, outer = log.level, log.propagate, CURRENT.get()
    log.setLevel(logging.INFO)
    log.propagate = False
    CURRENT.set(waiting)
    for handler in handlers:
        handler.addFilter(of_run)
        log.addHandler(handler)
    try:
        yield keep_in
    finally:
        CURRENT.set(outer)
        for handler in handlers:
            log.removeHandler(handler)
            handler.close()
        log.setLevel(level)
        log.propagate = propagate


class LogFile(logging.FileHandler):
    """A file of messages; those that do not fit on the disk are lost."""

    def emit(self, record: logging.LogRecord) -> None:
        stream = Lenient(self.stream)
        stream.write(printable(self.format(record)) + "\n")
        stream.flush()

    def close(self) -> None:
        with suppress(OSError):
            super().close()


class ScreenHandler(logging.Handler):
    """Notices and warnings without their tracebacks, which ``train.log`` keeps; errors are shown
    where the run ends.

    They go to standard error, wrapped at words in a terminal; where a live panel is on the same
    terminal, above it.
    """

    def __init__(self, screen: RichConsole, job: str | None) -> None:
        super().__init__(NOTICE)
        self.prefix = f"[{job}] " if job else ""
        self.addFilter(lambda record: record.levelno < logging.ERROR)
        errors = Screen(stderr=True)
        shared = screen.is_terminal and errors.is_terminal and not screen.quiet
        self.console = screen if shared else errors

    def emit(self, record: logging.LogRecord) -> None:
        kind = "" if record.levelno == NOTICE else f"{record.levelname.lower()}: "
        text = self.prefix + kind + printable(record.getMessage())
        self.console.print(text, soft_wrap=not self.console.is_terminal)
