"""Protocol of the trainer as seen by callbacks, including custom ones."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from rltrain.algo.learner import Learner
from rltrain.common.failures import Disk
from rltrain.common.machine.time_and_memory import Stopwatch, Usage
from rltrain.common.metrics import Metrics
from rltrain.interfaces import Buffer, Rollouts
from rltrain.types import Clock, StateDict

if TYPE_CHECKING:
    from rltrain.hardware.process.tests import ProcessTests
    from rltrain.hardware.rollout import Rollout
    from rltrain.video.recorder import Recording

EvaluationRollouts: TypeAlias = "Rollout | ProcessTests"
"""A policy in test environments, in this process or in others."""


class Tests(Protocol):
    """Tests, possibly concurrent with training."""

    recorder: Recording | None  # records the current test
    counts: bool  # has ``test.episodes`` episodes, so it may be the best or final test

    @property
    def pending(self) -> object | None:
        """The started test that is not reported yet, or None."""

    @property
    def clock(self) -> Clock:
        """The clock of the test reported to ``on_test_end``; otherwise that of training."""

    @property
    def weights(self) -> StateDict | None:
        """States of the tested networks; None = the current ones."""

    def begin(self) -> None:
        """Begin a test; nothing is reported if the run is interrupted meanwhile."""

    def finish(self) -> None:
        """Wait for the started test and report its result."""

    def finish_earlier(self) -> None:
        """``finish``, unless the test began at the current env step."""

    def drop(self) -> None:
        """Discard the started test."""


class Training(Protocol):
    """The trainer as seen by callbacks, including custom ones; see docs/callbacks.md."""

    clock: Clock
    run_dir: Path
    about: Mapping[str, Any]  # "config" and "spec" of the run, as saved in checkpoints
    latest: dict[str, float]  # last reported value of every metric
    metrics: Metrics  # ``add("custom", {"name": value})`` adds to the next row of the log
    rollout: Rollouts
    test_rollout: EvaluationRollouts
    buffer: Buffer
    learner: Learner
    diverging: bool  # all recent updates were undone
    disk: Disk  # files that cannot be written while the run continues
    stopwatch: Stopwatch  # where the time goes
    usage: Usage  # time and memory of the run
    held: ExitStack  # closed with the trainer

    @property
    def tests(self) -> Tests:
        """The periodic tests."""

    @property
    def seconds(self) -> float:
        """Wall-clock seconds of the run, including those before a resume."""

    @property
    def interrupted(self) -> bool:
        """Whether a signal ends the run."""

    @property
    def untrained(self) -> bool:
        """Whether the weights are still the initial ones."""

    def log(self, row: dict[str, float]) -> dict[str, float]:
        """Pass training metrics through ``on_log``, update ``latest`` and return the row."""

    def test(self, episodes: int | None = None) -> dict[str, float]:
        """Run a test and return its metrics; with ``episodes``, only statistics."""

    def save(self, kind: str = "full", *, with_replay: bool = True) -> Path:
        """Write a checkpoint (``full`` or ``weights``) and return its folder."""

    def export(self, folder: str | Path, *, replace: bool = False) -> Path:
        """Write the current weights to ``folder/<env_steps>/`` and return that folder."""

    def stop(self, why: str, *, interrupted: bool = False) -> None:
        """End the run after the current iteration."""
