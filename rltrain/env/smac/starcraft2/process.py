"""One worker process as its parent uses it: start it, send and receive messages, end it and its
game."""

from __future__ import annotations

import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from rltrain.common.machine.child_processes import kill_group, without_main
from rltrain.env.smac.starcraft2.worker import Recipe, play


class Crash(Exception):
    """A game that crashed, hung or ended; the message is the reason."""


class GameProcess:
    """A worker process and the connection to it."""

    def __init__(self, recipe: Recipe, seed: int) -> None:
        context = get_context("spawn")
        self.connection: Connection
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=play, args=(theirs, recipe, seed), daemon=True)
        with without_main():
            self.process.start()
        theirs.close()

    def send(self, *message: Any) -> None:
        """Raises Crash if the worker is gone."""
        try:
            self.connection.send(message)
        except OSError as error:
            raise Crash("its process died") from error

    def receive(self, until: float) -> tuple[str, Any]:
        """The next answer, before the monotonic time ``until``. Raises Crash, also for a call that
        failed."""
        try:
            if not self.connection.poll(max(0.0, until - time.monotonic())):
                raise Crash("it gave no answer in time")
            kind, value = self.connection.recv()
        except (EOFError, OSError) as error:
            raise Crash("its process died") from error
        if kind in ("crash", "error"):
            raise Crash(value)
        return kind, value

    def kill(self) -> None:
        """End the worker and the game it launched, which is in the same process group."""
        self.connection.close()
        kill_group(self.process)
