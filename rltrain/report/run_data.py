"""One training run as a report sees it, whichever library made it; its curves and final scores,
placed so that runs can be compared.
"""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rltrain.common.files import JSON_BYTES, JsonObject, get_json
from rltrain.common.json_text import LARGEST, NAMED, flat, is_number
from rltrain.common.metrics import CLOCK, COUNTS, RATE

AXES = {"env_steps": "env_steps", "updates": "updates", "minutes": "seconds"}
"""The axes that curves can be drawn over, and the column of each."""
CELLS = 100_000_000
"""Numbers that the table of a run's metrics may have, empty ones too."""
NAN = array("d", [np.nan])
POINTS = 200
"""Points of a curve, at most."""


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


def distinguishing(config: Mapping[str, object], left_out: Iterable[str]) -> JsonObject:
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


def to_columns(rows: Iterable[Mapping[str, object]]) -> dict[str, np.ndarray]:
    """Rows of metrics as arrays of one length, NaN where a row lacks a number. Of the rows, which
    may be a million, nothing but their numbers is kept.

    Raises:
        ValueError: more numbers than ``CELLS``, such as of a new metric in every row.
    """
    columns = defaultdict[str, "array[float]"](lambda: array("d"))
    n = 0
    for n, row in enumerate(rows, 1):
        for name, value in row.items():
            column = columns[name]
            if len(column) < n - 1:
                column.extend(NAN * (n - 1 - len(column)))
            column.append(number(value))
        if n * len(columns) > CELLS:
            raise ValueError(f"its {n:,} rows have {len(columns):,} columns, which are too many")
    for column in columns.values():
        column.extend(NAN * (n - len(column)))
    return {name: np.frombuffer(column) for name, column in columns.items()}


def possible(columns: Mapping[str, np.ndarray], problems: list[str]) -> dict[str, np.ndarray]:
    """The rows of columns by our names that can have been measured; others become a problem. Clock
    and lengths are not negative, counts are whole, rates are between 0 and 1.
    """
    wrong, found = np.zeros(len(next(iter(columns.values()), ())), bool), []
    for name, column in columns.items():
        is_rate = RATE.match(name) is not None
        from_zero = is_rate or name in CLOCK or name.endswith("/episode_length_mean")
        low, high = 0 if from_zero else -LARGEST, 1.000001 if is_rate else LARGEST
        bad = (column < low) | (column > high)
        if name in COUNTS:
            bad |= np.floor(column) < column
        found += [f"{name:.80}={value:g}" for value in column[bad][: NAMED + 1]]
        wrong |= bad
    if found:
        more = ", …" if len(found) > NAMED else ""
        problems.append(f"rows that are impossible are left out: {', '.join(found[:NAMED])}{more}")
    return {name: column[~wrong] for name, column in columns.items()}


def read_object(path: Path, problems: list[str], limit: int = JSON_BYTES) -> JsonObject:
    """A JSON object from a file of at most ``limit`` bytes; empty if there is none, or if it cannot
    be read, which becomes a problem.
    """
    try:
        found = get_json(path, limit) if path.exists() else {}
        if not isinstance(found, dict):
            raise ValueError("it is not a JSON object")
    except (OSError, ValueError) as error:
        problems.append(f"{path.name} is left out, since it cannot be read ({error})")
        return {}
    return found


def is_value(value: object) -> bool:
    """Whether ``number`` loses nothing: a number, null, NaN or infinity."""
    is_nan = isinstance(value, float) and not math.isfinite(value)
    return value is None or is_nan or is_number(value)


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


@dataclass(frozen=True)
class Curve:
    """One metric of one run: where it was reported and its values, ``[points]``."""

    x: np.ndarray
    y: np.ndarray

    @property
    def end(self) -> float:
        return float(self.x[-1])

    def until(self, end: float) -> np.ndarray:
        """The values up to ``end``, with a tolerance of a tenth of a step between points: tests of
        different runs are not at exactly the same place.
        """
        slack = np.median(np.diff(self.x)) / 10 if len(self.x) > 1 else 0.0
        return self.y[self.x <= end + slack]

    def before_training(self, end: float) -> bool:
        """Whether all values up to ``end`` are from before the first env step."""
        return len(self.x) > 1 and not (self.x[: len(self.until(end))] > 0).any()

    def final(self, end: float, last: int) -> float:
        """Mean of the ``last`` values up to ``end``."""
        values = self.until(end)
        return float((values if len(values) else self.y[:1])[-last:].mean())

    def at(self, x: np.ndarray) -> np.ndarray:
        """The values at other places, interpolated; beyond the ends those at the ends."""
        return np.interp(x, self.x, self.y)

    def mean(self, end: float) -> float:
        """Mean over training up to ``end``: the area under the curve over its width."""
        x = np.linspace(self.x[0], max(end, self.x[0]), POINTS + 1)
        return float(self.at(x).mean())

    def reaches(self, threshold: float, end: float) -> float:
        """Where the curve first is at a threshold; infinity if it is not before ``end``."""
        above = np.flatnonzero(self.until(end) >= threshold)
        if not len(above):
            return np.inf
        i = above[0]
        if i == 0:
            return float(self.x[0])
        x, y = self.x[i - 1 : i + 1], self.y[i - 1 : i + 1]
        return min(float(np.interp(threshold, y, x)), end)


def get_curve(run: Run, metric: str, axis: str) -> Curve | None:
    """A run's curve; None if it never reported the metric. Values that are far more frequent than
    a figure shows, such as episodes, become means of neighbors.
    """
    x, y = run.series(metric, axis)
    if not len(x):
        return None
    if len(x) > 2 * POINTS:
        parts = np.array_split(np.arange(len(x)), POINTS)
        x, y = (np.array([v[part].mean() for part in parts]) for v in (x, y))
    return Curve(x, y)


def common(curves: Sequence[Curve]) -> tuple[np.ndarray, np.ndarray]:
    """Places that all curves cover, ``[points]``, and the values there, ``[runs, points]``."""
    low, high = max(c.x[0] for c in curves), min(c.end for c in curves)
    if high <= low:
        return np.array([high]), np.array([c.at(np.array([high])) for c in curves])
    count = int(np.clip(np.median([len(c.x) for c in curves]), 2, POINTS))
    x = np.linspace(low, high, count)
    return x, np.array([c.at(x) for c in curves])
