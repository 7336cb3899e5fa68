"""``train.log``: every message, every traceback and the rows of metrics."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rltrain.types import Clock

log = logging.getLogger("rltrain")


class TrainLog:
    """The rows in ``train.log``, beside messages and tracebacks."""

    def write(self, clock: Clock, seconds: float, row: Mapping[str, float]) -> None:
        numbers = ", ".join(f"{k} {v:.5g}" for k, v in row.items())
        log.info("env_steps %d updates %d: %s", clock.env_steps, clock.updates, numbers)

    def close(self) -> None:
        """The file belongs to the logging set-up."""


@contextmanager
def train_log(run_dir: Path) -> Iterator[None]:
    """``train.log`` takes every message; warnings also reach the screen."""
    handler = logging.FileHandler(run_dir / "train.log", encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    screen = logging.StreamHandler()
    screen.setLevel(logging.WARNING)
    screen.addFilter(lambda record: record.levelno < logging.ERROR)
    screen.setFormatter(ShortFormatter("%(levelname)s: %(message)s"))
    level, propagate = log.level, log.propagate
    log.setLevel(logging.INFO)
    log.propagate = False
    log.addHandler(handler)
    log.addHandler(screen)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.removeHandler(screen)
        handler.close()
        log.setLevel(level)
        log.propagate = propagate


class ShortFormatter(logging.Formatter):
    """Messages without their traceback, which ``train.log`` keeps."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{record.levelname.lower()}: {record.getMessage()}"
