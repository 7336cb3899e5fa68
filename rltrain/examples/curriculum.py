"""A curriculum: the environments get the next task when a metric says that the current one is
mastered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltrain.callback import Callback
from rltrain.callback.training import Training
from rltrain.common.metrics import METRICS, NAMED
from rltrain.common.number_types import Flag, Real, saved_number
from rltrain.types import StateDict


class Curriculum(Callback):
    """Plays ``tasks`` one after the other, the next as soon as ``metric`` is ``threshold`` or more.

    A task is what ``set_task`` of the environments takes; it holds from each environment's next
    episode on. The line of training metrics after a change still counts episodes of the task before
    and moves nothing. Reports ``custom/task``, the number of the current one.

    Args:
        in_tests: the tests play the current task too; otherwise what the configuration says.

    Raises:
        ValueError: no tasks; a test metric that never sees the tasks; environments without
            ``set_task``.
    """

    state_names = ("present", "settled")

    def __init__(
        self, *, metric: str, threshold: Real, tasks: list[Any], in_tests: Flag = False
    ) -> None:
        if not tasks:
            raise ValueError("Curriculum: expected a list of tasks, got none.")
        own = metric.partition("/")[0] in ("custom", "test")  # of callbacks and test functions
        if metric not in METRICS and not own and not NAMED.fullmatch(metric):
            raise ValueError(
                f"Curriculum: metric={metric} is not reported by runs: expected one of "
                f"{', '.join(METRICS)}, or custom/NAME."
            )
        if metric.startswith("test/") and not in_tests:
            raise ValueError(
                f"Curriculum: metric={metric} is measured in tests, which do not play its tasks: "
                "set in_tests: true, or metric: train/return_mean."
            )
        self.metric, self.threshold = metric, threshold
        self.tasks, self.in_tests = tasks, in_tests
        self.present = 0
        self.settled = True  # the next line of training metrics is about the current task alone

    def on_train_start(self, trainer: Training, value: None = None) -> None:
        self._set(trainer)

    def on_log(self, trainer: Training, value: dict[str, float]) -> dict[str, float]:
        settled, self.settled = self.settled, True
        value = {**value, "custom/task": float(self.present)}
        if settled and self._mastered(value):
            self._advance(trainer)
            self.settled = False
        return value

    def on_test_end(self, trainer: Training, value: dict[str, float]) -> dict[str, float]:
        if self._mastered(value):
            self._advance(trainer)
        return value

    def _mastered(self, row: Mapping[str, float]) -> bool:
        more = self.present + 1 < len(self.tasks)
        return more and self.metric in row and row[self.metric] >= self.threshold

    def _advance(self, trainer: Training) -> None:
        self.present += 1
        self._set(trainer)

    def _set(self, trainer: Training) -> None:
        calls = [trainer.rollout.call, trainer.test_rollout.call]
        for call in calls if self.in_tests else calls[:1]:
            try:
                call("set_task", self.tasks[self.present])
            except AttributeError as error:
                raise ValueError(
                    f"Curriculum: these environments have no set_task ({error}). Expected "
                    "Gymnasium environments, or others with a method set_task(task)."
                ) from error

    def load_state_dict(self, state: StateDict) -> None:
        self.present = saved_number("present", state["present"], 0, len(self.tasks) - 1)
        self.settled = bool(state["settled"])
