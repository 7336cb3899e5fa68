"""Protocol of the trainer as callbacks see it, those of users included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from rltrain.algo.learner import Learner
from rltrain.common.failures import Disk
from rltrain.common.machine.usage import Stopwatch, Usage
from rltrain.common.metrics import Metrics
from rltrain.interfaces import Buffer, Rollouts, Watch
from rltrain.types import Clock

if TYPE_CHECKING:
    from rltrain.hardware.process.tests import ProcessTests
    from rltrain.hardware.rollout import Rollout

EvaluationRollouts: TypeAlias = "Rollout | ProcessTests"
"""A policy in environments of tests, which are in this process or in others."""


class TestRecorder(Watch, Protocol):
    """A recorder of the episodes of a test."""

    disk: Disk

    @property
    def files(self) -> Mapping[int, Sequence[Path]]:
        """The files that were written, by episode."""


class Tests(Protocol):
    """Tests that may be played during training."""

    recorder: TestRecorder | None  # records the current test
    counts: bool  # whether it may be the best or the final one: it has the schedule's episodes

    @property
    def pending(self) -> object | None:
        """The test that was started and is not reported; None without one."""

    @property
    def clock(self) -> Clock:
        """Clock of the test whose result ``on_test_end`` gets; otherwise that of training."""

    @property
    def weights(self) -> Mapping[str, Any] | None:
        """States of the networks that were tested; None: they are the current ones."""

    def begin(self) -> None:
        """Begin a test; Interrupted if the run was interrupted meanwhile."""

    def finish(self) -> None:
        """Wait for the test that was started, and report its result."""

    def finish_earlier(self) -> None:
        """Do the same, unless it began at the current env step."""

    def drop(self) -> None:
        """Forget the test that was started."""


class Training(Protocol):
    """The trainer as callbacks see it, those of users included; docs/callbacks.md describes it."""

    clock: Clock
    run_dir: Path
    about: Mapping[str, Any]  # "config" and "spec" of the run, as saved in checkpoints
    latest: dict[str, float]  # the last reported value of every metric
    metrics: Metrics  # ``add("custom", {"name": value})`` adds to the next line of the log
    rollout: Rollouts
    test_rollout: EvaluationRollouts
    buffer: Buffer
    learner: Learner
    diverging: bool  # the latest updates were all undone
    disk: Disk  # files that cannot be written while the run continues
    stopwatch: Stopwatch  # where the time goes
    usage: Usage  # time and memory of the run
    held: ExitStack  # until the trainer is closed

    @property
    def tests(self) -> Tests:
        """The periodic tests."""

    @property
    def seconds(self) -> float:
        """Wall-clock seconds of the run, those before a resume included."""

    @property
    def interrupted(self) -> bool:
        """Whether the run ends on a signal."""

    @property
    def untrained(self) -> bool:
        """Whether the weights are still those of the initialization."""

    def log(self, row: dict[str, float]) -> dict[str, float]:
        """Pass training metrics through ``on_log`` and update ``latest``; returns what to write."""

    def test(self, episodes: int | None = None) -> dict[str, float]:
        """Make a test of the run and return its metrics; of ``episodes``, statistics alone."""

    def save(self, kind: str = "full", *, with_replay: bool = True) -> Path:
        """Write a checkpoint (``full`` or ``weights``) and return its folder."""

    def export(self, folder: str | Path, *, replace: bool = False) -> Path:
        """Write the current weights into ``folder/<env_steps>/``; returns that folder."""

    def stop(self, why: str, *, interrupted: bool = False) -> None:
        """End the run after the current iteration."""
