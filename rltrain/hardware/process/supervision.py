"""Supervision of workers: what is lost is replaced, up to a limit."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from multiprocessing.util import Finalize
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rltrain.common.machine.child_processes import EXIT_TIMEOUT
from rltrain.errors import EnvError, Interrupted
from rltrain.hardware.env_share import Share
from rltrain.hardware.process.process import WorkerLost, WorkerProcess
from rltrain.hardware.process.worker import Beginning
from rltrain.types import StateDict

if TYPE_CHECKING:
    from rltrain.hardware.ray.cluster import WorkerActor

log = logging.getLogger("rltrain")
HOUR = 3600.0
START_TIMEOUT = 300.0
"""Seconds for a worker's start, its first collect, which may compile, and its state."""
STEPPING = ("collect", "run_episodes")
"""Questions whose answer takes env steps."""
IN_A_ROW = 3
"""Losses of one worker, while a question is answered, at which the run fails."""


WorkerHandle: TypeAlias = "WorkerProcess | WorkerActor"
"""A worker elsewhere, as the run uses it."""
StartWorker: TypeAlias = "Callable[[Beginning], WorkerHandle]"


class Supervision:
    """The worker processes of a run: asks each a question and waits for all answers.

    A worker that is lost meanwhile is replaced by one that begins new episodes with what outlived
    the old ones, and asked again. After an exception anywhere (Ctrl-C), ``receive`` continues where
    it was, and ``send`` drops the answers to the question before.

    Args:
        start_worker: starts a worker.
        timeout: seconds that a time step may take.
        max_restarts: workers replaced within an hour.
        advice: what to do where workers are lost again and again.
    """

    def __init__(
        self,
        start_worker: StartWorker,
        shares: Sequence[Share],
        *,
        timeout: float,
        max_restarts: int,
        advice: str,
    ) -> None:
        self.start_worker, self.shares, self.advice = start_worker, shares, advice
        self.timeout, self.max_restarts = timeout, max_restarts
        self.replaced = 0  # workers since the run began
        self.broken = False  # replaced too often
        self.episodes = [0] * len(shares)  # of each worker: the number of its next episode
        self.carried: list[StateDict | None] = [None] * len(shares)  # … what outlives them
        self._replaced_at: list[float] = []
        self._lost = np.zeros(shares[0].total, np.bool_)  # [E] environments of replaced workers
        self._processes: dict[int, WorkerHandle] = {}
        self._tried: set[int] = set()  # workers that have collected, so their kernels are loaded
        self._question: list[tuple[object, ...]] = []  # of each worker
        self._answers: dict[int, Any] = {}  # to it, as far as they were read
        self._undelivered: dict[int, WorkerLost] = {}  # why a worker did not get it
        Finalize(self, _kill_all, (self._processes,), exitpriority=0)  # before they are joined

    def send(self, method: str, args: Sequence[tuple[object, ...]]) -> None:
        """Ask every worker with arguments of its own; ``receive`` waits for the answers."""
        for share in self.shares:
            if share.number not in self._processes:
                self._start(share)
        self._question, self._answers = [(method, *each) for each in args], {}
        for share in self.shares:
            self._deliver(share)

    def ask(self, method: str, args: Sequence[tuple[object, ...]]) -> list[Any]:
        """The answer of every worker to a question with arguments of its own."""
        self.send(method, args)
        return self.receive()

    def receive(self, stop: Callable[[], bool] = lambda: False) -> list[Any]:
        """The answers of all workers.

        Raises:
            EnvError: workers were lost too often.
            Interrupted: ``stop`` returned True.
            Exception: what a worker raised first, once all have answered.
        """
        raised = []
        for share in self.shares:
            try:
                if share.number not in self._answers:
                    self._answers[share.number] = self._answer(share, stop)
            except Exception as error:
                if self.broken or isinstance(error, Interrupted):
                    raise
                raised.append(error)
        if raised:
            raise raised[0]
        answers = [self._answers[share.number] for share in self.shares]
        if self._question[0][0] in STEPPING:
            self._tried |= {share.number for share in self.shares}
        if self._question[0][0] == "collect":
            self.episodes = [used for _, _, used, *_ in answers]
        return answers

    def take_lost(self) -> np.ndarray:
        """The environments [E] whose worker was replaced since the last call."""
        lost = self._lost.copy()
        self._lost[:] = False
        return lost

    def close(self) -> None:
        """Let all workers close their environments, and end them."""
        for process in self._processes.values():
            process.close()
        _kill_all(self._processes, EXIT_TIMEOUT)
        self._undelivered.clear()

    def _deliver(self, share: Share) -> None:
        """Send a worker its question once it has started, or answered the one before."""
        number = share.number
        try:
            if self._processes[number].owes:
                self._read(number, self.timeout if number in self._tried else START_TIMEOUT)
            self._processes[number].send(*self._question[number])
        except WorkerLost as lost:
            self._undelivered[number] = lost

    def _answer(self, share: Share, stop: Callable[[], bool]) -> Any:
        """A worker's answer, or that of the one that replaces it."""
        for attempt in range(1, IN_A_ROW + 1):
            try:
                return self._receive(share.number, stop)
            except WorkerLost as lost:
                self._drop(share, lost, attempt)
            self._start(share)
            self._deliver(share)
        raise AssertionError("the last attempt raises")

    def _receive(self, number: int, stop: Callable[[], bool]) -> Any:
        if number in self._undelivered:
            raise self._undelivered.pop(number)
        if number not in self._processes or not self._processes[number].owes:
            raise WorkerLost("an exception came between")
        strict = self._question[number][0] in STEPPING and number in self._tried
        timeout = self.timeout if strict else max(self.timeout, START_TIMEOUT)
        kind, value = self._read(number, timeout, stop)
        if kind == "raised":
            raise value
        return value

    def _read(self, number: int, timeout: float, *stop: Callable[[], bool]) -> tuple[str, Any]:
        """Kind and value of a worker's next answer; what the worker logged is logged.

        Raises:
            WorkerLost: there is none, or its environment failed.
        """
        kind, value, records, carried = self._processes[number].receive(timeout, *stop)
        for name, level, text in records:
            logging.getLogger(name).log(level, "%s", text)
        self.carried[number] = carried or self.carried[number]
        if kind == "failed":
            raise WorkerLost(value)
        return kind, value

    def _start(self, share: Share) -> None:
        number = share.number
        begin = Beginning(share, self.replaced, self.episodes[number], self.carried[number])
        self._processes[number] = self.start_worker(begin)
        self._tried.discard(number)

    def _drop(self, share: Share, why: WorkerLost, attempt: int) -> None:
        """End a lost worker and count it.

        Raises:
            EnvError: it was one too many.
        """
        if worker := self._processes.pop(share.number, None):
            worker.kill()
        self._lost[share.envs] = True
        self.replaced += 1
        now = time.monotonic()
        self._replaced_at = [then for then in self._replaced_at if now - then < HOUR] + [now]
        count = len(self._replaced_at)
        if attempt == IN_A_ROW or count > self.max_restarts:
            self.broken = True
            self.close()
            often = (
                f"{IN_A_ROW} times in a row"
                if attempt == IN_A_ROW
                else f"as number {count} within an hour, of at most {self.max_restarts}"
            )
            raise EnvError(
                f"Worker process {share.number} (of {len(self.shares)}) was lost {often}: {why}. "
                f"{self.advice}"
            )
        log.log(
            logging.WARNING if self.replaced == 1 else logging.INFO,
            "worker process %d was lost (%s) and is replaced; the open episodes of its "
            "environments are dropped (replacement %d; later ones are in train.log only)",
            *(share.number, why, self.replaced),
        )


def _kill_all(processes: dict[int, WorkerHandle], timeout: float = 0.0) -> None:
    until = time.monotonic() + timeout
    while processes:
        processes.popitem()[1].kill(max(until - time.monotonic(), 0.0))
