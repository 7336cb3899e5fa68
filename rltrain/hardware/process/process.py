"""A worker process as its parent uses it: start it, exchange messages, end it.

Workers are forked from multiprocessing's fork server: a process without threads that has imported
rltrain once and holds nothing of the run. Spawning each of them would cost every worker, and every
replacement, the seconds and the memory of importing torch; forking the run's own process would copy
locks that its threads hold.
"""

from __future__ import annotations

import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import cast

from rltrain.common.machine.child_processes import EXIT_TIMEOUT, kill_group, without_main
from rltrain.errors import Interrupted
from rltrain.hardware.process.shared_memory import SharedExchange
from rltrain.hardware.process.worker import Answer, Beginning, MakeRollout, serve

ENDS_WITH_RUN = "rltrain.hardware.process.fork_server"
"""Module that lets the fork server end with the thread that has started it."""
POLL = 0.2
"""Seconds between looks at a worker's progress."""


class WorkerLost(Exception):
    """A worker that died, hung, or whose environment failed; the message is the reason."""


class WorkerProcess:
    """A process that runs ``serve``, and the connection to it.

    Args:
        preload: module that the fork server imports before the first worker is forked.
        make, exchange, begin: arguments of ``Answers``.
    """

    def __init__(
        self, preload: str, make: MakeRollout, exchange: SharedExchange, begin: Beginning
    ) -> None:
        self.owes = True  # an answer that was not read; the first one comes without a question
        self.seconds = exchange.seconds[begin.share.number]
        context = get_context("forkserver")
        # a thread that ends before the run would take the fork server with it
        stays = threading.current_thread() is threading.main_thread()
        context.set_forkserver_preload([ENDS_WITH_RUN, preload] if stays else [preload])
        self.connection: Connection
        self.connection, theirs = context.Pipe()
        self.process = context.Process(
            target=serve, args=(theirs, exchange, make, pickle.dumps(begin))
        )  # no daemon: may have children
        with without_main():
            self.process.start()
        theirs.close()

    def send(self, *question: object) -> None:
        """Ask a question, a method of ``Worker`` and its arguments. Raises WorkerLost if the worker
        is gone.
        """
        message = pickle.dumps(question)
        try:
            with self._whole():
                self.connection.send_bytes(message)
                self.owes = True
        except OSError as error:
            raise WorkerLost("it died") from error

    def receive(self, timeout: float, stop: Callable[[], bool] = lambda: False) -> Answer:
        """The next answer.

        Args:
            timeout: seconds in which an answer must come, or the worker's clock must continue.

        Raises:
            WorkerLost: there is none.
            Interrupted: ``stop`` returned True.
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
            with self._whole():
                message = self.connection.recv_bytes()
                self.owes = False
        except (EOFError, OSError) as error:
            raise WorkerLost(self._end()) from error
        return cast(Answer, pickle.loads(message))

    def close(self) -> None:
        """Let the worker close its environments and end; ``kill`` follows."""
        self.connection.close()

    def kill(self, timeout: float = 0.0) -> None:
        """End the worker within this many seconds, and what its environments started."""
        self.connection.close()
        self.process.join(timeout)
        kill_group(self.process)

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Context that passes a message; after half of one (Ctrl-C) the connection is useless."""
        try:
            yield
        except BaseException:
            self.connection.close()
            raise

    def _end(self) -> str:
        self.process.join(EXIT_TIMEOUT)
        code = self.process.exitcode
        if code is None or code >= 0:
            return f"it ended with exit code {code}"
        return f"it was killed by {signal.Signals(-code).name}"
