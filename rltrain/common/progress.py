"""Activities besides learning (a test, a checkpoint), readable from another thread."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class Activity:
    """One piece of work: its name and, where it is counted, how much of it is done."""

    name: str
    done: int = 0
    total: int | None = None

    def __str__(self) -> str:
        return self.name if self.total is None else f"{self.name} {self.done}/{self.total} episodes"


@dataclass
class Progress:
    """The current activity, if any, and the seconds that finished ones took.

    Displays read it from their own threads; it never changes a result.
    """

    activity: Activity | None = None
    seconds: float = 0.0  # in outermost activities that are over

    @contextmanager
    def during(self, name: str, total: int | None = None) -> Iterator[None]:
        """Name what happens inside; an inner activity is shown until it ends."""
        outer, begin = self.activity, time.monotonic()
        self.activity = Activity(name, total=total)
        try:
            yield
        finally:
            self.activity = outer
            if outer is None:
                self.seconds += time.monotonic() - begin

    def report(self, done: int, total: int) -> None:
        """How much of the current activity is done."""
        if self.activity is not None:
            self.activity.done, self.activity.total = done, total


COMPILING = "compiling machine code"
compiling = Progress()
"""Compilation of machine code anywhere in this process, which lasts up to two minutes once."""
