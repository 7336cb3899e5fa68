"""One training run as a report sees it, whichever library made it."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rltrain.common.json_text import LARGEST, flat

CLOCK = ("env_steps", "updates", "episodes", "seconds")
"""Columns that place a row of metrics; every other column is a metric."""
AXES = {"env_steps": "env_steps", "updates": "updates", "minutes": "seconds"}
"""The axes that curves can be drawn over, and the column of each."""


@dataclass(frozen=True)
class Run:
    """One run.

    Attributes:
        library: whose run it is: rltrain, PyMARL, Stable-Baselines3, CleanRL, RLlib.
        algo, env: as that library names them, the environment with its scenario (``smac 3m``).
        columns: arrays of one length by name, NaN where a row does not have the metric; metrics
            have the names of docs/metrics.md.
        choices: the option of every group of the configuration.
        settings: every other setting by its dotted path.
        status: of ``run.json``; other libraries do not report it, and their runs count as finished.
        problems: what is wrong with the files.
        source: where the values were published; empty for runs.
    """

    folder: Path
    library: str
    algo: str
    env: str
    seed: int | None
    columns: Mapping[str, np.ndarray]
    choices: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, object] = field(default_factory=dict)
    status: str = "finished"
    problems: Sequence[str] = ()
    source: str = ""

    @property
    def method(self) -> str:
        """The algorithm, with the library if it is a different one."""
        return self.algo if self.library == "rltrain" else f"{self.algo} ({self.library})"

    def series(self, metric: str, axis: str = "env_steps") -> tuple[np.ndarray, np.ndarray]:
        """Where a metric was reported and its values, both ``[points]``, sorted; of several values
        at one place the last.

        Args:
            axis: one of ``AXES``.
        """
        if metric not in self.columns or AXES[axis] not in self.columns:
            return np.zeros(0), np.zeros(0)
        x, y = self.columns[AXES[axis]], self.columns[metric]
        there = np.isfinite(x) & np.isfinite(y)
        x, y = x[there][::-1], y[there][::-1]
        x, at = np.unique(x, return_index=True)
        return (x / 60 if axis == "minutes" else x), y[at]

    def metric(self, name: str) -> str | None:
        """The column behind a metric; ``return_mean`` is that of tests where there are any."""
        options = (name,) if "/" in name else (f"test/{name}", f"train/{name}")
        return next((o for o in options if np.isfinite(self.columns.get(o, np.nan)).any()), None)


def distinguishing(config: Mapping[str, object], left_out: Iterable[str]) -> dict[str, Any]:
    """The values of a configuration by their dotted paths, without those in ``left_out`` and below;
    ``save_`` stands for all names that begin so.
    """
    names = tuple(left_out)
    starts = tuple(name if name.endswith("_") else f"{name}." for name in names)
    values = flat(config).items()
    return {k: v for k, v in values if k not in names and not k.startswith(starts)}


def beside_runs(runs: Iterable[Run]) -> list[Run]:
    """Runs, and the published results on their environments; without any runs all of these."""
    every = list(runs)
    own = {run.env for run in every if not run.source}
    return [run for run in every if not (own and run.source) or run.env in own]


def columns_of(rows: Iterable[Mapping[str, object]]) -> dict[str, np.ndarray]:
    """Rows of metrics as arrays of one length, NaN where a row lacks a number. Of the rows, which
    may be a million, nothing but their numbers is kept.
    """
    columns = defaultdict[str, "array[float]"](lambda: array("d"))
    n = 0
    for n, row in enumerate(rows, 1):
        for name, value in row.items():
            column = columns[name]
            if len(column) < n - 1:
                column.extend([np.nan] * (n - 1 - len(column)))
            column.append(number(value))
    for column in columns.values():
        column.extend([np.nan] * (n - len(column)))
    return {name: np.frombuffer(column) for name, column in columns.items()}


def number(value: Any) -> float:
    """A value as a number; NaN if it is not one, or too large for one that was measured."""
    if isinstance(value, bool) or value is None:
        return np.nan
    try:
        measured = float(value)
    except (TypeError, ValueError, OverflowError):
        return np.nan
    return measured if abs(measured) <= LARGEST else np.nan


def renamed(
    columns: Mapping[str, np.ndarray], names: Mapping[str, Sequence[str]]
) -> dict[str, np.ndarray]:
    """Columns under our names: each is the first of its candidates that is there."""
    out = {}
    for ours, candidates in names.items():
        column = next((columns[c] for c in candidates if c in columns), None)
        if column is not None and np.isfinite(column).any():
            out[ours] = column
    return out
