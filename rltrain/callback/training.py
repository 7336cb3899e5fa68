"""Protocol of the trainer as callbacks see it, those of users included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from rltrain.common.disk import Disk
from rltrain.common.stopwatch import Stopwatch
from rltrain.interfaces import Buffer, Learning, Rollouts, Watch
from rltrain.types import Clock


class RunningMeans(Protocol):
    """Means of metrics since the last line of the log."""

    def add(self, group: str, values: Mapping[str, Any]) -> None:
        """Add values by name to the means ``group/name``."""

    def take(self) -> dict[str, float]:
        """The means by name; they start from scratch."""


class Recording(Watch, Protocol):
    """What records the episodes of a test."""

    @property
    def files(self) -> Mapping[int, Sequence[Path]]:
        """What was written, by episode."""


class Training(Protocol):
    """The trainer as callbacks see it, those of users included; docs/callbacks.md describes it."""

    clock: Clock
    run_dir: Path
    about: Mapping[str, Any]  # "config" and "spec" of the run, as saved in checkpoints
    latest: dict[str, float]  # the last reported value of every metric
    rollout: Rollouts
    test_rollout: Rollouts
    buffer: Buffer
    learner: Learning
    interrupted: bool  # the run ends on a signal
    diverging: bool  # the latest updates were all undone
    recorder: Recording | None  # records the current test
    disk: Disk  # files that cannot be written while the run goes on
    stopwatch: Stopwatch  # where the time goes

    @property
    def metrics(self) -> RunningMeans:
        """Where ``add("custom", {"name": value})`` adds to the next line of the log."""

    @property
    def seconds(self) -> float:
        """Wall-clock seconds of the run, those before a resume included."""

    @property
    def untrained(self) -> bool:
        """Whether the weights are still those of the initialization."""

    def log(self, row: dict[str, float]) -> dict[str, float]:
        """Pass training metrics through ``on_log`` and update ``latest``; returns what to write."""

    def test(self, episodes: int | None = None) -> dict[str, float]:
        """Run a test and return its metrics; nothing if the run is interrupted meanwhile."""

    def save(self, kind: str = "full", *, with_replay: bool = True) -> Path:
        """Write a checkpoint (``full`` or ``weights``) and return its folder."""

    def stop(self, why: str, *, interrupted: bool = False) -> None:
        """End the run after the current iteration."""
