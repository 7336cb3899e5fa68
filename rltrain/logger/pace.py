"""The speed of a run and the time it has to go."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from rltrain.common.progress import Activity, Progress, compiling
from rltrain.types import Clock


class RunProgress(Protocol):
    """The members of a trainer that displays read, from other threads."""

    clock: Clock
    total_env_steps: int
    progress: Progress

    @property
    def stopping(self) -> str | None:
        """Why the run ends early."""

    @property
    def seconds(self) -> float:
        """Wall-clock seconds of this run, those before a resume included."""


def activity(run: RunProgress) -> Activity | None:
    """The current activity of a run besides learning."""
    return compiling.activity or run.progress.activity


@dataclass
class Pace:
    """Env steps per second over the last ``WINDOW`` seconds of collecting and learning.

    Seconds of tests, checkpoints and compilation do not count in the speed; the time to go adds
    their share. It is known only once learning has started: steps before it are faster.
    """

    WINDOW = 30.0  # seconds
    SHORTEST = 2.0  # seconds of learning before the time to go is known
    points: deque[tuple[float, int]] = field(default_factory=deque)  # learning seconds, env steps
    learning: bool = False
    begin: tuple[float, float] = (0.0, 0.0)  # seconds, learning seconds where learning began
    now: tuple[float, float] = (0.0, 0.0)

    def observe(self, run: RunProgress) -> None:
        """Record the current env steps and seconds."""
        clock, seconds = run.clock, run.seconds
        at = seconds - run.progress.seconds - compiling.seconds
        self.now = (seconds, at)
        if activity(run) is not None:
            return
        learning = clock.updates > 0
        if learning != self.learning or (self.points and at < self.points[-1][0]):
            self.points.clear()
            self.learning, self.begin = learning, self.now
        if not self.points or clock.env_steps != self.points[-1][1]:
            self.points.append((at, clock.env_steps))
        while len(self.points) > 2 and at - self.points[1][0] > self.WINDOW:
            self.points.popleft()

    @property
    def speed(self) -> float | None:
        """Env steps per second; None where nothing is known yet."""
        if len(self.points) < 2:
            return None
        (begin, first), (end, last) = self.points[0], self.points[-1]
        return (last - first) / (end - begin) if end > begin else None

    def left(self, run: RunProgress) -> float | None:
        """Seconds to go; None where nothing is known yet, or nothing is left."""
        speed, to_go = self.speed, run.total_env_steps - run.clock.env_steps
        seconds, learning = (now - begin for now, begin in zip(self.now, self.begin, strict=True))
        if not self.learning or not speed or learning < self.SHORTEST or to_go <= 0:
            return None
        return to_go / speed * max(1.0, seconds / learning)
