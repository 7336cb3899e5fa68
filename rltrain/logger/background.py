"""Loggers of libraries that take seconds to start and may not answer."""

from __future__ import annotations

import logging
import re
from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextvars import copy_context
from dataclasses import asdict
from functools import partial
from pathlib import Path
from queue import Queue
from secrets import token_hex
from threading import Thread
from typing import Any

from rltrain.common.files import TRIALS
from rltrain.logger.loggers import Failures, Logger
from rltrain.types import Clock, StateDict

log = logging.getLogger("rltrain")
Call = Callable[[], None]
ID_LENGTH = 128
"""Characters that wandb allows in the ID of a run."""


class InBackground(Logger):
    """Makes all calls of a library in a thread, started with the first row: training never waits
    for them, and ``close`` waits at most ``CLOSING`` seconds. Rows are dropped where the start has
    failed, and after ``patience`` failures in a row.

    Attributes:
        run: of the library, once it has started.
        folder: the name of the folder of runs that this one is in: a sweep, a search, or
            ``<algo>-<env>``.
        own_id: of the run, no other's, and the same after a resume.
    """

    NAME: str
    CLOSING = 15.0

    def __init__(self, run_dir: Path) -> None:
        self.run: Any = None
        above = run_dir.parent
        self.folder = (above.parent if above.name == TRIALS else above).name
        name = re.sub(r"[:;,#?/']", "-", f"{self.folder}-{run_dir.name}")  # wandb refuses
        self.own_id = f"{name}-{token_hex(4)}"[-ID_LENGTH:]
        self.calls: Queue[Call | None] = Queue()
        self.failures = Failures(self.NAME, self.patience)
        context = copy_context()  # messages are for the train.log of this run
        self.thread = Thread(target=context.run, args=[self._work], name=self.NAME, daemon=True)

    def state_dict(self) -> StateDict:
        return {"own_id": self.own_id}

    def load_state_dict(self, state: StateDict) -> None:
        self.own_id = state["own_id"]

    @abstractmethod
    def begin(self) -> object:
        """Start the run; called in the thread, as are all below."""

    @abstractmethod
    def send(self, env_steps: int, row: dict[str, float]) -> None:
        """Log one row to the run."""

    @abstractmethod
    def send_video(self, clock: Clock, path: Path) -> None:
        """Log a GIF to the run."""

    def send_summary(self, summary: Mapping[str, object]) -> None:
        """Log the result of the run."""

    def finish(self) -> None:
        """End the run."""
        self.run.finish()

    def abandon(self) -> None:
        """Let this process end although the run was not ended."""

    def write(self, clock: Clock, seconds: float, row: Mapping[str, float]) -> None:
        whole = {**row, **asdict(clock), "seconds": seconds}
        self._send(partial(self.send, clock.env_steps, whole))

    def video(self, clock: Clock, path: Path) -> None:
        self._send(partial(self.send_video, clock, path))

    def summarize(self, summary: Mapping[str, object]) -> None:
        if self.thread.ident is not None:
            self._send(partial(self.send_summary, summary))

    def close(self) -> None:
        if self.thread.ident is None:
            return
        self.calls.put(None)
        self.thread.join(self.CLOSING)
        if self.thread.is_alive():
            log.warning("%s did not answer in time; the run ends without it", self.NAME)
            self.failures.shown = True
            self.abandon()

    def _send(self, call: Call) -> None:
        """Let the thread make a call, in order."""
        if self.thread.ident is None:
            self.thread.start()
        self.calls.put(call)

    def _work(self) -> None:
        """Start the run, make its calls, end it."""
        with self.failures.outlived("start", n=self.patience):
            self.run = self.begin()
        while (call := self.calls.get()) is not None:
            if not self.failures.off:
                with self.failures.outlived("write a row"):
                    call()
                    self.failures.in_row = 0
        if self.run is None:
            return
        with self.failures.outlived("be closed"):
            self.finish()
            return
        self.abandon()
