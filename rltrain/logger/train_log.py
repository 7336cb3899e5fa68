"""``train.log``: every message, every traceback and the rows of metrics."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console as RichConsole

from rltrain.logger.console import added_metrics, shown_metrics
from rltrain.types import Clock

log = logging.getLogger("rltrain")
NOTICE = logging.INFO + 5
"""Level of messages that a person should see and that are no warnings."""


class TrainLog:
    """The rows in ``train.log`` in words, beside messages and tracebacks; ``metrics.jsonl`` has all
    of their numbers.
    """

    def write(self, clock: Clock, seconds: float, row: Mapping[str, float]) -> None:
        words = [f"{name} {value}" for name, value in shown_metrics(row) + added_metrics(row)]
        log.info("%s env steps: %s", f"{clock.env_steps:,}", ", ".join(words))

    def close(self) -> None:
        """The file belongs to the logging set-up."""


@contextmanager
def train_log(run_dir: Path, screen: RichConsole, job: str | None = None) -> Iterator[None]:
    """``train.log`` takes every message; notices and warnings also reach the screen, where those
    of a sweep's ``job`` begin with its name.
    """
    handlers: list[logging.Handler] = [
        logging.FileHandler(run_dir / "train.log", encoding="utf-8"),
        ScreenHandler(screen, job),
    ]
    handlers[0].setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    level, propagate = log.level, log.propagate
    log.setLevel(logging.INFO)
    log.propagate = False
    for handler in handlers:
        log.addHandler(handler)
    try:
        yield
    finally:
        for handler in handlers:
            log.removeHandler(handler)
            handler.close()
        log.setLevel(level)
        log.propagate = propagate


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
        errors = RichConsole(stderr=True, highlight=False)
        shared = screen.is_terminal and errors.is_terminal and not screen.quiet
        self.console = screen if shared else errors

    def emit(self, record: logging.LogRecord) -> None:
        kind = "" if record.levelno == NOTICE else f"{record.levelname.lower()}: "
        text = self.prefix + kind + record.getMessage()
        self.console.print(text, markup=False, soft_wrap=not self.console.is_terminal)
