"""The jobs of a sweep as processes, several at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, Literal

from rich.console import Console

from rltrain.mode.run_folder import record_failure
from rltrain.mode.signals import SIGNAL_CODES, TYPED
from rltrain.mode.sweep.plan import SweepJob

CRASHES = (1, 4)
"""Exit codes of jobs that are tried again, as those that a signal has killed."""


class Lines:
    """Prints every line of every job, which begins with the job's name.

    Args:
        screen, errors: for what jobs print to standard output and standard error.
    """

    def __init__(self, screen: Console, errors: Console) -> None:
        self.screen, self.errors = screen, errors

    def line(self, text: str, stream: Literal["stdout", "stderr"]) -> None:
        """Print a line of a job."""
        console = self.screen if stream == "stdout" else self.errors
        console.print(text, soft_wrap=True)

    def note(self, text: str) -> None:
        """Print a message about the sweep."""
        self.line(text, "stderr")


@dataclass
class Processes:
    """Runs jobs until all have ended, or a signal ends them.

    Attributes:
        command: the overrides of a job, of its single run or of its resumption.
        environment: environment variables of the job in one of ``at_once`` places.
        program: what runs a job, given ``n_jobs`` and its command.
        lock: a file descriptor that the jobs inherit, so that it is open while one of them runs.
        stopped: the signal that ended the sweep.
    """

    n_jobs: int
    at_once: int
    retries: int
    fail_fast: bool
    display: Lines
    command: Callable[[SweepJob], Sequence[str]]
    environment: Callable[[int], Mapping[str, str]]
    program: Sequence[str] = (sys.executable, "-m", "rltrain.mode.sweep.job")
    lock: int | None = None
    stopped: str | None = None
    running: dict[SweepJob, subprocess.Popen[str]] = field(default_factory=dict)
    events: SimpleQueue[tuple[Any, ...]] = field(default_factory=SimpleQueue)
    signals: list[int] = field(default_factory=list)
    places: dict[SweepJob, int] = field(default_factory=dict)
    failed_fast: bool = False

    INTERVAL = 0.5  # seconds

    def run(self, jobs: Sequence[SweepJob]) -> None:
        """Run the jobs in order, ``at_once`` of them side by side."""
        waiting = deque(jobs)
        tries = dict.fromkeys(jobs, 0)
        with self.forwarding_signals():
            try:
                while self.running or (waiting and not self.stopping):
                    while waiting and len(self.running) < self.at_once and not self.stopping:
                        tries[waiting[0]] += 1
                        self.start(waiting.popleft())
                    for job, code in self.ended():
                        if self.crashed(code) and tries[job] <= self.retries and not self.stopping:
                            self.display.note(
                                f"{job.name}: {reason(job, code)}. It is tried again."
                            )
                            waiting.appendleft(job)
                        else:
                            self.close(job, code)
            except BaseException:
                self.stop_all()
                raise

    def stop_all(self) -> None:
        """Let the runs save and end, and record how they did; nothing is shown any more."""
        for process in self.running.values():
            process.terminate()
        for job, process in self.running.items():
            self.record_end(job, process.wait())

    @property
    def stopping(self) -> bool:
        return self.failed_fast or self.stopped is not None

    def start(self, job: SweepJob) -> None:
        """Start a job and pass on what it prints."""
        place = min(set(range(self.at_once)) - {self.places[other] for other in self.running})
        self.places[job] = place
        arguments = [str(self.n_jobs), *self.command(job)]
        self.running[job] = process = self.process(job, arguments)
        readers = [
            threading.Thread(target=self.read, args=(name, stream), daemon=True)
            for name, stream in (("stdout", process.stdout), ("stderr", process.stderr))
        ]
        for thread in readers:
            thread.start()
        threading.Thread(target=self.wait, args=(job, process, readers), daemon=True).start()
        for number in self.signals:  # one that came while the process was being started
            process.send_signal(number)

    def process(self, job: SweepJob, arguments: Sequence[str]) -> subprocess.Popen[str]:
        """Start a job in a process group of its own, so that Ctrl-C reaches it through us only."""
        return subprocess.Popen(
            [*self.program, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            env={**os.environ, **self.environment(self.places[job])},
            process_group=0,
            pass_fds=() if self.lock is None else (self.lock,),
        )

    def read(self, name: str, stream: Iterable[str]) -> None:
        """Run by a thread: pass on the lines of a job."""
        for line in stream:
            self.events.put(("line", line.rstrip("\n"), name))

    def wait(
        self, job: SweepJob, process: subprocess.Popen[str], readers: Sequence[threading.Thread]
    ) -> None:
        """Run by a thread: report the end of a job, after its last lines."""
        code = process.wait()
        for thread in readers:
            thread.join(timeout=1.0)  # a process that the job left behind may keep a pipe open
        self.events.put(("end", job, code))

    def ended(self) -> Iterator[tuple[SweepJob, int]]:
        """Pass on lines and signals until ``INTERVAL`` is over or a job has ended; yields those
        and their exit codes.
        """
        try:
            kind, *about = self.events.get(timeout=self.INTERVAL)
            while True:
                if kind == "line":
                    self.display.line(*about)
                elif kind == "signal":
                    self.display.note(stop_words(*about))
                else:
                    job, code = about
                    process = self.running.pop(job)
                    for stream in (process.stdin, process.stdout, process.stderr):
                        assert stream is not None
                        stream.close()
                    yield job, code
                kind, *about = self.events.get_nowait()
        except Empty:
            return

    def crashed(self, code: int) -> bool:
        return code in CRASHES or code < 0

    def close(self, job: SweepJob, code: int) -> None:
        """Record how a job ended; with ``fail_fast`` a failed one ends the others."""
        self.record_end(job, code)
        if self.fail_fast and not self.stopping and code not in (0, *SIGNAL_CODES.values()):
            self.failed_fast = True
            self.display.note(f"{job.name} failed: the other runs stop and save.")
            for process in self.running.values():
                process.terminate()

    def record_end(self, job: SweepJob, code: int) -> None:
        """Record the failure of a job that did not do so itself."""
        status = job.record.get("status")
        if code != 0 and (status == "running" or (status is None and not self.stopping)):
            record_failure(job.folder, reason(job, code), code if code > 0 else 128 - code)

    @contextmanager
    def forwarding_signals(self) -> Iterator[None]:
        """Pass Ctrl-C, SIGTERM, SIGHUP and SIGUSR1 on to the jobs; the third kills them."""

        def handle(number: int, frame: FrameType | None) -> None:
            self.signals.append(number)
            self.stopped = self.stopped or signal.Signals(number).name
            for process in list(self.running.values()):
                if len(self.signals) > 2:
                    process.kill()
                else:
                    process.send_signal(number)
            self.events.put(("signal", len(self.signals), signal.Signals(number).name))

        before: dict[signal.Signals, Any] = {}
        if threading.current_thread() is threading.main_thread():
            before = {s: signal.signal(s, handle) for s in map(signal.Signals.__getitem__, TYPED)}
        try:
            yield
        finally:
            for s, handler in before.items():
                signal.signal(s, handler)


def reason(job: SweepJob, code: int) -> str:
    """Why a job has ended."""
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return str(job.record.get("error", f"exit code {code}"))


def stop_words(count: int, name: str) -> str:
    """Return the message about the ``count``-th signal and what another one would do."""
    typed = TYPED[name]
    if count == 1:
        return (
            f"{typed}: the runs stop after their present iteration and save. {typed} again: they "
            "leave at once, keeping their last checkpoint."
        )
    return f"{typed}: the runs leave at once." if count == 2 else f"{typed}: the runs are killed."
