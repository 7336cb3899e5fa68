"""Programs on the nodes of a Ray cluster: start them, read their lines, send them signals.

A program ends with the process that started it: Ray kills it together with its actor.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, cast

import ray
from ray.exceptions import RayError

from rltrain.hardware.ray.cluster import connect

POLL = 0.5
"""Seconds for which a node waits for lines before it answers."""
LOST = -signal.SIGKILL
"""Exit code of a program whose node was lost."""
STREAMS = ("stdout", "stderr")


class Program:
    """On a node: a Python program and what it has printed since it was asked last.

    Args:
        arguments: what follows ``python``.
        folder: where it runs.
        needed: a file that the node must see.
    """

    def __init__(self, arguments: Sequence[str], folder: str, needed: str) -> None:
        self.lines: SimpleQueue[tuple[str, str | None]] = SimpleQueue()
        self.open = len(STREAMS)
        self.process: subprocess.Popen[str] | None = None
        if not Path(needed).is_file():
            self.refuse(needed)
            return
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            cwd=folder,
            process_group=0,
        )
        for name in STREAMS:
            threading.Thread(target=self.read, args=(name,), daemon=True).start()

    def refuse(self, needed: str) -> None:
        """Print that the node does not see a file."""
        self.lines.put(
            (
                "stderr",
                f"Node {ray.util.get_node_ip_address()} of the Ray cluster does not see {needed}. "
                "Put the sweep into a folder that all nodes share: hydra.sweep.dir=FOLDER.",
            )
        )
        for name in STREAMS:
            self.lines.put((name, None))

    def read(self, name: str) -> None:
        """Run by a thread: collect the lines of a stream."""
        assert self.process is not None
        for line in getattr(self.process, name):
            self.lines.put((name, line.rstrip("\n")))
        self.lines.put((name, None))

    def poll(self, signals: Sequence[int]) -> tuple[list[tuple[str, str]], int | None]:
        """Send signals, wait a moment for lines; returns those, and the exit code once both streams
        have ended.
        """
        found: list[tuple[str, str]] = []
        for number in signals:
            if self.process is not None:
                self.process.send_signal(number)
        try:
            name, line = self.lines.get(timeout=POLL)
            while True:
                if line is None:
                    self.open -= 1
                else:
                    found.append((name, line))
                name, line = self.lines.get_nowait()
        except Empty:
            pass
        if self.open:
            return found, None
        return found, 2 if self.process is None else self.process.wait()


class RemoteProgram:
    """A program on a node of a cluster, with the members of ``subprocess.Popen`` that a sweep uses.

    Args:
        arguments, folder, needed: of ``Program``.
        cpus, gpus: that it asks the cluster for; it waits until they are free.
    """

    stdin = None

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        folder: str,
        needed: str,
        cpus: float,
        gpus: float,
    ) -> None:
        remote = ray.remote(num_cpus=cpus, num_gpus=gpus, max_restarts=0)(Program)
        self.actor = cast(Any, remote.remote([*arguments], folder, needed))
        self.stdout, self.stderr = Lines(), Lines()
        self.signals: SimpleQueue[int] = SimpleQueue()
        self.code: int | None = None
        self.ended = threading.Event()
        threading.Thread(target=self.follow, daemon=True).start()

    def follow(self) -> None:
        """Run by a thread: pass signals on and lines back until the program has ended."""
        code: int | None = None
        while code is None:
            numbers = []
            while not self.signals.empty():
                numbers.append(self.signals.get())
            try:
                lines, code = ray.get(self.actor.poll.remote(numbers))
            except RayError as error:
                lines, code = [("stderr", f"its node was lost ({type(error).__name__})")], LOST
            for name, line in lines:
                (self.stdout if name == "stdout" else self.stderr).put(line)
        self.code = code
        self.stdout.put(None)
        self.stderr.put(None)
        ray.kill(self.actor)
        self.ended.set()

    def wait(self) -> int:
        """Its exit code, negative if a signal ended it or its node was lost."""
        self.ended.wait()
        assert self.code is not None
        return self.code

    def send_signal(self, number: int) -> None:
        self.signals.put(number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Lines:
    """Lines that another thread puts in; None ends them."""

    def __init__(self) -> None:
        self.queue: SimpleQueue[str | None] = SimpleQueue()
        self.put = self.queue.put

    def __iter__(self) -> Iterator[str]:
        while (line := self.queue.get()) is not None:
            yield line

    def close(self) -> None:
        """Do nothing: there is no file."""


def cluster_sizes(address: str) -> tuple[int, int]:
    """Connect to a cluster; how many CPUs and GPUs its nodes have.

    Raises:
        UsageError: there is no cluster.
    """
    connect(address)
    resources = ray.cluster_resources()
    return int(resources.get("CPU", 0)), int(resources.get("GPU", 0))
