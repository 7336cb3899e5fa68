"""A worker process as its parent uses it: start it, exchange messages, end it.

Workers are forked from multiprocessing's fork server: a process without threads that has imported
rltrain once and holds nothing of the run. Spawning each of them would cost every worker, and every
replacement, the seconds and the memory of importing torch; forking the run's own process would copy
locks that its threads hold.
"""

from __future__ import annotations

import logging
import pickle
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from rltrain.common.machine.child_processes import EXIT_TIMEOUT, kill_group, without_main
from rltrain.errors import Interrupted
from rltrain.hardware.env_share import Share
from rltrain.hardware.process.shared_memory import SharedExchange
from rltrain.hardware.process.worker import MakeRollout, packed, serve

ENDS_WITH_RUN = "rltrain.hardware.process.fork_server"
"""Module that lets the fork server end with the thread that has started it."""
POLL = 0.2
"""Seconds between looks at a worker's progress."""


class WorkerLost(Exception):
    """A worker that died, hung, or whose environment failed; the message is the reason."""


def value_of(answer: tuple[str, Any, tuple[Any, ...]]) -> Any:
    """The value of an answer of ``Answers``; what the worker logged is logged.

    Raises:
        WorkerLost: its environment failed.
        Exception: the worker raised it.
    """
    kind, value, records = answer
    for name, level, text in records:
        logging.getLogger(name).log(level, "%s", text)
    if kind == "failed":
        raise WorkerLost(value)
    if kind == "raised":
        raise value
    return value


class WorkerProcess:
    """A process that runs ``serve``, and the connection to it.

    Args:
        preload: module that the fork server imports before the first worker is forked.
        make, exchange: arguments of ``Answers`` that are the same for all workers.
        share, replaced, episodes: … of this one.
    """

    def __init__(
        self,
        preload: str,
        make: MakeRollout,
        exchange: SharedExchange,
        share: Share,
        replaced: int,
        episodes: int,
    ) -> None:
        self.seconds = exchange.seconds[share.number]
        context = get_context("forkserver")
        # a thread that ends before the run would take the fork server with it
        stays = threading.current_thread() is threading.main_thread()
        context.set_forkserver_preload([ENDS_WITH_RUN, preload] if stays else [preload])
        self.connection: Connection
        self.connection, theirs = context.Pipe()
        self.process = context.Process(
            target=serve, args=(theirs, make, share, replaced, episodes, exchange)
        )  # no daemon: may have children
        with without_main():
            self.process.start()
        theirs.close()

    def send(self, *question: Any) -> None:
        """Raises WorkerLost if the worker is gone."""
        try:
            self.connection.send_bytes(packed(question))
        except OSError as error:
            raise WorkerLost("it died") from error

    def receive(self, timeout: float, stop: Callable[[], bool] = lambda: False) -> Any:
        """The value of the next answer.

        Args:
            timeout: seconds in which an answer must come, or the worker's clock must continue.

        Raises:
            WorkerLost: there is none.
            Interrupted: ``stop`` returned True.
            Exception: the worker raised it.
        """
        seen, until = self.seconds.copy(), time.monotonic() + timeout
        try:
            while not self.connection.poll(min(POLL, timeout)):
                if stop():
                    raise Interrupted
                now = self.seconds.copy()
                if (now != seen).any():
                    seen, until = now, time.monotonic() + timeout
                elif time.monotonic() > until:
                    raise WorkerLost(f"it did not answer within {timeout:g} seconds")
            answer = pickle.loads(self.connection.recv_bytes())
        except (EOFError, OSError) as error:
            raise WorkerLost(self._end()) from error
        return value_of(answer)

    def close(self) -> None:
        """Let the worker close its environments and end; ``kill`` follows."""
        self.connection.close()

    def kill(self, timeout: float = 0.0) -> None:
        """End the worker within this many seconds, and what its environments started."""
        self.connection.close()
        self.process.join(timeout)
        kill_group(self.process)

    def _end(self) -> str:
        self.process.join(EXIT_TIMEOUT)
        code = self.process.exitcode
        if code is None or code >= 0:
            return f"it ended with exit code {code}"
        return f"it was killed by {signal.Signals(-code).name}"
