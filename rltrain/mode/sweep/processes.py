"""The jobs of a sweep as processes, several at once, and how the cores or GPUs of a machine are
divided among them. A process has one job, or a batch of jobs that take turns.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from itertools import chain, islice
from types import FrameType
from typing import IO, Literal

import torch
from rich.console import Console

from rltrain.assemble.env import n_threads
from rltrain.common.imports import import_path
from rltrain.config.schema import Settings
from rltrain.errors import SIGNAL_CODES
from rltrain.hardware.device import available_cores
from rltrain.mode.signals import TYPED, handling
from rltrain.mode.sweep.job import BETWEEN, FAIL_FAST
from rltrain.mode.sweep.plan import SweepJob, record_failure

Batch = tuple[SweepJob, ...]
CRASHES = (1, 4)
"""Exit codes of jobs that are tried again, as those that a signal has killed."""
THREADS = "hardware.threads"
VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass
class Processes:
    """Runs jobs until all have ended, or a signal ends them.

    Attributes:
        screen, errors: where the lines go that jobs print to standard output and standard error.
        command: the overrides of a job, of its single run or of its resumption.
        environment: environment variables of the job in one of ``at_once`` places.
        program: what runs a job, given ``n_jobs`` and its command.
        lock: a file descriptor that the jobs inherit, so that it is open while one of them runs.
        stopped: the signal that ended the sweep.
        broken: why lines could not be printed.
        refused: the exit codes of jobs that left the record of their run as it was.
        guard: held while processes start and end; the handler of signals may hold it twice.
    """

    n_jobs: int
    at_once: int
    retries: int
    fail_fast: bool
    screen: Console
    errors: Console
    command: Callable[[SweepJob], Sequence[str]]
    environment: Callable[[int], Mapping[str, str]]
    program: Sequence[str] = (sys.executable, "-m", "rltrain.mode.sweep.job")
    lock: int | None = None
    stopped: str | None = None
    running: dict[Batch, subprocess.Popen[str]] = field(default_factory=dict)
    signals: list[int] = field(default_factory=list)
    failed_fast: bool = False
    broken: Exception | None = None
    refused: list[int] = field(default_factory=list)
    tries: Counter[SweepJob] = field(default_factory=Counter)
    guard: threading.RLock = field(default_factory=threading.RLock)

    def run(self, batches: Iterable[Batch]) -> None:
        """Run the batches in order, ``at_once`` of them side by side."""
        waiting = deque(batches)
        with handling(self.forward), ThreadPoolExecutor(self.at_once) as threads:
            places = range(self.at_once)
            futures = [threads.submit(self.work, place, waiting) for place in places]
            try:
                for future in as_completed(futures):
                    future.result()
            except BaseException:
                self.fail()
                raise
        if self.broken is not None:
            raise self.broken

    @property
    def stopping(self) -> bool:
        return self.failed_fast or self.stopped is not None

    def work(self, place: int, waiting: deque[Batch]) -> None:
        """Run by a thread: one waiting batch after the other, in its place."""
        while True:
            with self.guard:
                if self.stopping or not waiting:
                    return
                batch = waiting.popleft()
                self.tries.update(batch)
                process = self.start(batch, place)
            code, again = self.wait(batch, process), []
            for job in batch:
                own = code if len(batch) == 1 else own_code(job, code, process.pid)
                crashed = own in CRASHES or own < 0 or (own == 0 and not job.finished)
                if crashed and self.tries[job] <= self.retries and not self.stopping:
                    self.note(f"{job.name}: {reason(job, own)}. It is tried again.")
                    again.append(job)
                else:
                    self.close(job, own, process.pid)
            if again:
                waiting.appendleft(tuple(again))

    def start(self, batch: Batch, place: int) -> subprocess.Popen[str]:
        """Start a batch in a process group of its own, so that Ctrl-C reaches it through us only,
        and not before it can handle it.
        """
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # the job inherits this
        commands = chain.from_iterable((BETWEEN, *self.command(job)) for job in batch)
        last = all(self.tries[job] > self.retries for job in batch)
        failures = [str(code) for code in range(1, 6) if last or code not in CRASHES]
        options = [FAIL_FAST + ",".join(failures)] if self.fail_fast and len(batch) > 1 else []
        try:
            self.running[batch] = process = subprocess.Popen(
                [*self.program, str(self.n_jobs), *islice(commands, 1, None), *options],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="replace",
                env={**os.environ, **import_path(), **self.environment(place)},
                process_group=0,
                pass_fds=() if self.lock is None else (self.lock,),
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return process

    def wait(self, batch: Batch, process: subprocess.Popen[str]) -> int:
        """Pass on what a batch prints until it has ended; returns its exit code."""
        streams = ((process.stdout, self.screen), (process.stderr, self.errors))
        readers = [
            threading.Thread(target=self.pass_on, args=each, daemon=True) for each in streams
        ]
        for thread in readers:
            thread.start()
        code = process.wait()
        for thread in readers:
            thread.join(timeout=1.0)  # a process that the job left behind may keep a pipe open
        assert process.stdin is not None
        process.stdin.close()
        with self.guard:
            del self.running[batch]
        return code

    def pass_on(self, stream: IO[str], console: Console) -> None:
        """Run by a thread: print the lines of a job; where that fails, the jobs save and end."""
        try:
            with stream:
                for line in stream:
                    console.print(line.rstrip("\n"), soft_wrap=True)
        except Exception as error:
            self.broken = error
            self.fail()

    def note(self, text: str) -> None:
        """Print a message about the sweep."""
        self.errors.print(text, soft_wrap=True)

    def close(self, job: SweepJob, code: int, process: int) -> None:
        """Record how a job ended, unless it did so itself; with ``fail_fast`` a failed one ends the
        others.
        """
        if code == 0 and job.finished:
            return
        status = job.record.get("status")
        began = status is not None or self.broken is not None or not self.stopping
        exit_code = (code or 1) if code >= 0 else 128 - code
        if status in ("running", None) and began:
            record_failure(job.folder, reason(job, code), exit_code, process)
        if not (job.record and exit_code == job.exit_code):
            self.refused.append(exit_code)
        if self.fail_fast and not self.stopping and code not in SIGNAL_CODES.values():
            self.note(f"{job.name} failed: the other runs stop and save.")
            self.fail()

    def fail(self) -> None:
        """Let the running jobs save and end, and start no others."""
        with self.guard:
            self.failed_fast = True
            for process in self.running.values():
                process.terminate()

    def forward(self, number: int, frame: FrameType | None) -> None:
        """The handler of signals: pass them on to the jobs; the third kills them."""
        name = signal.Signals(number).name
        with self.guard:
            self.signals.append(number)
            self.stopped = self.stopped or name
            for process in self.running.values():
                if len(self.signals) > 2:
                    process.kill()
                else:
                    process.send_signal(number)
        typed, count = TYPED[name], len(self.signals)
        what = "exit immediately" if count == 2 else "are killed"
        if count == 1:
            what = (
                f"stop after their current iteration and save. {typed} again: they exit "
                "immediately, keeping their last checkpoint"
            )
        self.note(f"{typed}: the runs {what}.")


def own_code(job: SweepJob, code: int, process: int) -> int:
    """The exit code of a job of a batch, given that of its process, which a job has that did not
    begin, or did not end, there.
    """
    ended = job.record.get("process") == process and job.status != "running"
    return job.exit_code if ended else code


def reason(job: SweepJob, code: int) -> str:
    """Why a job has ended."""
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    ended = f"exit code {code}" if code else "its process ended with exit code 0 before the run"
    return str(job.record.get("error", ended))


@dataclass(frozen=True)
class Shares:
    """The threads and GPUs that every job gets.

    Attributes:
        at_once: jobs that run side by side.
        gpus: identifiers of the GPUs, which jobs take in turn; empty on the CPU.
        threads: at most this many per job.
    """

    at_once: int
    gpus: tuple[str, ...]
    threads: int

    def overrides(self, settings: Settings) -> list[str]:
        """The threads of a job, where it would take more than its share by itself."""
        typed = settings.hardware.threads != "auto"
        return [] if typed or n_threads(settings) <= self.threads else [f"{THREADS}={self.threads}"]

    def environment(self, slot: int) -> dict[str, str]:
        """Environment variables of the job that takes place ``slot``."""
        return {VISIBLE: self.gpus[slot % len(self.gpus)]} if self.gpus else {}


def shares(jobs: int | Literal["auto"], settings: Sequence[Settings]) -> Shares:
    """Divide this machine.

    Args:
        jobs: ``sweep.jobs``; ``auto`` is one job per GPU, or as many as there are cores for the
            typed threads.
        settings: of every job.
    """
    gpus: tuple[str, ...] = ()
    if torch.cuda.is_available() and any(s.hardware.device != "cpu" for s in settings):
        named = os.environ.get(VISIBLE)
        listed = named.split(",") if named else map(str, range(torch.cuda.device_count()))
        gpus = tuple(name.strip() for name in listed)
    cores = available_cores()
    numbers = [s.hardware.threads for s in settings]
    typed = max(1 if n == "auto" else n for n in numbers)
    fit = len(gpus) or max(1, cores // typed)
    at_once = min(len(settings), fit if jobs == "auto" else jobs)
    return Shares(at_once, gpus, max(1, cores // at_once))
