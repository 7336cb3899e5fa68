"""Compares kept runs with published results of the same length."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from benchmarks.kept import kept
from benchmarks.task_kinds import Task
from benchmarks.tasks import TASKS
from rltrain.logger.curve import series

NEAR = 0.1
"""Results agree within ten points of a win rate or a tenth of the published value; lengths of runs
within a tenth."""


class Row(NamedTuple):
    """The median of the seeds' scores and the published result."""

    task: str
    seeds: int
    score: float
    published: str
    agrees: bool
    is_rate: bool


def rows() -> Iterator[Row]:
    """Of all tasks that have a published result after as many env steps."""
    for group in TASKS.values():
        for name, each in group.items():
            runs = kept(name, each.metric)
            if runs and each.published and is_as_long(runs, each):
                yield row(name, each, runs)


def is_as_long(runs: dict[str, list[dict]], task: Task) -> bool:
    """Whether the runs have the published number of env steps."""
    end = min(lines[0]["run"]["env_steps"] for lines in runs.values())
    return task.published_env_steps is None or abs(end / task.published_env_steps - 1) <= NEAR


def row(name: str, task: Task, runs: dict[str, list[dict]]) -> Row:
    values = [series(lines[1:], task.metric)[1] for lines in runs.values()]
    score = float(np.median([np.mean(each[-task.last :]) for each in values]))
    is_rate = task.metric.endswith("win_rate")
    low, high = task.published_range or (0.0, 0.0)
    level = (low + high) / 2
    agrees = abs(score - level) <= (NEAR if is_rate else NEAR * abs(level))
    return Row(name, len(runs), score, task.published, agrees, is_rate)


def lines_of(found: list[Row]) -> Iterator[str]:
    """A Markdown table, and how many of its rows agree."""
    yield "| task | seeds | median | published | within a tenth |"
    yield "| --- | --- | --- | --- | --- |"
    for each in found:
        score = f"{each.score:.1%}" if each.is_rate else f"{each.score:.2f}"
        cells = each.task, each.seeds, score, each.published, "yes" if each.agrees else "no"
        yield f"| {' | '.join(map(str, cells))} |"
    yield ""
    n = sum(each.agrees for each in found)
    yield f"{n} of {len(found)} results ({n / max(len(found), 1):.0%}) are within a tenth."
