"""Metrics of a run: their names, running means, and the metrics of episodes and tests."""

from __future__ import annotations

import math
import numbers
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rltrain.common.json_text import is_number, without_nan
from rltrain.errors import EnvError, UsageError

if TYPE_CHECKING:
    import numpy as np

    from rltrain.types import Episode, StateDict

COUNTS = ("env_steps", "updates", "episodes")
"""Whole numbers that every row of metrics has."""
CLOCK = (*COUNTS, "seconds")
"""Columns that place a row of metrics; every other column is a metric."""
METRICS = tuple(
    f"{group}/{name}"
    for group, names in {
        "train": "return_mean episode_length_mean win_rate draw_rate epsilon temperature "
        "noise_stddev",
        "test": "return_mean return_std episode_length_mean win_rate draw_rate",
        "learn": "loss td_error_abs q_taken_mean target_mean td_loss opt_loss nopt_loss v_mean "
        "qmix_loss central_loss weight_mean grad_norm skipped_updates clipped_target_mass lr",
        "offline": "is_return wis_return behavior_return effective_sample_size",
        "time": "env_steps_per_s updates_per_s env_share acting_share sampling_share "
        "learning_share env_restarts",
    }.items()
    for name in names.split()
)
"""Every metric that a run can report, besides those of callbacks and those that are named after
what an environment counts, a map or an opponent.
"""
NAMED = re.compile(r"(train|test)/(\w+_mean|win_rate/.+)")
"""Metrics of episodes that are named after one of these."""
RATE = re.compile(r"\w+/(win|draw)_rate(/|$)")
"""Metrics from 0 to 1."""
Z95 = 1.959964
"""97.5% quantile of the normal distribution."""
T95 = (12.7062, 4.3027, 3.1824, 2.7764)
"""The same of Student's t with 1 to 4 degrees of freedom."""


class MetricRow(Mapping[str, Any]):
    """Metrics by name that are one tensor [K], so that a sum of rows is one operation."""

    def __init__(self, names: tuple[str, ...], values: Any) -> None:
        self.names, self.tensor = names, values

    def __getitem__(self, name: str) -> Any:
        try:
            return self.tensor[self.names.index(name)]
        except ValueError:
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


@dataclass(eq=False)
class Metrics:
    """Running means by name. Tensors stay on their device until they are read."""

    sums: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    _rows: dict[tuple[str, tuple[str, ...]], tuple[Any, int]] = field(default_factory=dict)

    # twin: kernels/learning.py
    def add(self, group: str, values: Mapping[str, object]) -> None:
        """Add values by name to the means ``group/name``.

        Raises:
            UsageError: a value that is not a number, or no mapping.
        """
        if isinstance(values, MetricRow):
            total, count = self._rows.get((group, values.names)) or self._restored(group, values)
            self._rows[group, values.names] = total + values.tensor, count + 1
            return
        if not isinstance(values, Mapping):
            raise UsageError(f"trainer.metrics.add: got {values!r}, expected numbers by name.")
        for name, value in values.items():
            key = f"{group}/{name}"
            try:
                total = self.sums.get(key, 0.0) + one_number(value)
            except TypeError as error:
                raise UsageError(
                    f"trainer.metrics.add: {key} is {value!r}, expected numbers by name."
                ) from error
            self.sums[key] = total
            self.counts[key] = self.counts.get(key, 0) + 1

    def add_all(self, group: str, columns: Mapping[str, np.ndarray]) -> None:
        """As ``add`` for each row of columns [n] of float32, one after the other."""
        import numpy as np  # the names of metrics need no arrays

        for name, column in columns.items():
            key = f"{group}/{name}"
            before = np.float32(self.sums.get(key, 0.0))
            self.sums[key] = sum(column, before)  # in order
            self.counts[key] = self.counts.get(key, 0) + len(column)

    def _restored(self, group: str, row: MetricRow) -> tuple[Any, int]:
        """The sum and count that rows with these names continue from."""
        keys = [f"{group}/{name}" for name in row.names]
        counts = {self.counts.get(key) for key in keys}
        if len(counts) > 1 or None in counts:
            return 0.0, 0
        sums, taken = zip(
            *((float(self.sums.pop(k)), self.counts.pop(k)) for k in keys), strict=True
        )
        return row.tensor.new_tensor(sums), taken[0]

    def _added_up(self) -> tuple[dict[str, float], dict[str, int]]:
        """Sums and counts; waits for those of rows, once for all of their names."""
        sums, counts = {k: float(v) for k, v in self.sums.items()}, dict(self.counts)
        for (group, names), (total, count) in self._rows.items():
            for name, value in zip(names, total.tolist(), strict=True):
                key = f"{group}/{name}"
                sums[key] = sums.get(key, 0.0) + value
                counts[key] = counts.get(key, 0) + count
        return sums, counts

    def take(self) -> dict[str, float]:
        """The means since the last call."""
        sums, counts = self._added_up()
        self.sums, self.counts, self._rows = {}, {}, {}
        return {key: total / counts[key] for key, total in sums.items()}

    def state_dict(self) -> StateDict:
        sums, counts = self._added_up()
        return {"sums": sums, "counts": counts}

    def load_state_dict(self, state: StateDict) -> None:
        """Continue with the sums of ``state_dict``; TypeError for anything but numbers."""
        self.sums = {name: float(one_number(value)) for name, value in state["sums"].items()}
        self.counts = {name: operator.index(state["counts"][name]) for name in self.sums}
        self._rows = {}


def one_number(value: Any) -> Any:
    """A number, or that of an array or tensor of any shape; TypeError for anything else."""
    if isinstance(value, numbers.Real):
        return value
    if math.prod(getattr(value, "shape", (0,))) != 1:
        raise TypeError
    return value.reshape(()) if value.shape else value


def episode_metrics(episodes: list[Episode] | tuple[Episode, ...]) -> list[dict[str, float]]:
    """Metrics of each episode; ``win_rate`` (also by opponent and map) and ``draw_rate`` where
    ``win`` and ``draw`` are reported, its own by name.

    Raises:
        EnvError: one of its own has the name of another metric.
    """
    out = []
    for e in episodes:
        row = {"return_mean": e.episode_return, "episode_length_mean": float(e.length)}
        if "win" in e.info:
            row["win_rate"] = float(e.info["win"])
            named = [e.info[kind] for kind in ("opponent", "map") if kind in e.info]
            row |= {f"win_rate/{name}": row["win_rate"] for name in named}
        if "draw" in e.info:
            row["draw_rate"] = float(e.info["draw"])
        own = {f"{name}_mean": value for name, value in e.info.get("metrics", {}).items()}
        if taken := sorted(own.keys() & row.keys()):
            names = ", ".join(name.removesuffix("_mean") for name in taken)
            raise EnvError(
                f"The environment returned info['metrics'] with {names}, which would replace that "
                "of the episode itself. Expected other names than return and episode_length: give "
                "it another name."
            )
        row |= own
        out.append(row)
    return out


def summarize(episodes: list[Episode]) -> dict[str, float]:
    """Plain means over test episodes, and the returns' standard deviation."""
    rows = episode_metrics(episodes)
    names = dict.fromkeys(k for row in rows for k in row)
    columns = {k: [row[k] for row in rows if k in row] for k in names}
    out = {f"test/{k}": sum(values) / len(values) for k, values in columns.items()}
    mean = out["test/return_mean"]
    variance = sum((e.episode_return - mean) ** 2 for e in episodes) / len(episodes)
    return {**out, "test/return_std": math.sqrt(variance)}


def plain_metrics(source: object, returned: object) -> dict[str, float]:
    """The metrics that a function of the user's returned; true and false are 1 and 0.

    Raises:
        UsageError: something other than numbers by name, with ``source``, the function.
    """
    import numpy as np  # the names of metrics need no arrays

    expected = "expected numbers by name, such as {'return_mean': 1.5}"
    if not isinstance(returned, Mapping):
        raise UsageError(f"{source} returned {returned!r}: {expected}.")
    for name, value in returned.items():
        if not (isinstance(name, str) and isinstance(value, numbers.Real | np.bool_)):
            raise UsageError(f"{source} returned {name}={value!r}: {expected}.")
    return {name: float(value) for name, value in returned.items()}


def test_metrics(returned: object) -> dict[str, float]:
    """The metrics that a test function returned, names without a group in the group ``test``.

    Raises:
        UsageError: none, or values that are not numbers.
    """
    metrics = plain_metrics("test.function", returned)
    if not metrics:
        raise UsageError("test.function returned no metrics: expected at least one number by name.")
    return {name if "/" in name else f"test/{name}": value for name, value in metrics.items()}


COMPARED = ("test/win_rate", "test/return_mean")
"""Metrics that say which of several tests is the best, the first before the second."""


def test_score(result: Mapping[str, float]) -> list[float]:
    """The number by which tests are compared; NaN is worse than any number."""
    scores = [result.get(name, 0.0) for name in COMPARED]
    return [-math.inf if math.isnan(value) else value for value in scores]


def beats(
    result: Mapping[str, float], best: Sequence[float], *, untrained: bool, best_untrained: bool
) -> bool:
    """Whether a test is the best so far, after one with the score ``best`` (empty: the first): the
    latest of equal ones is, and one of untrained weights only until others are tested.
    """
    better = test_score(result) >= list(best) or (best_untrained and not untrained)
    return better and any(name in result for name in COMPARED)


def read_test(value: object) -> dict[str, float] | None:
    """The result of a test in a ``run.json``: numbers by name, with its env steps. What is null
    there was NaN or infinite, and is NaN; None for anything else, such as a win rate above 1.
    """
    if not isinstance(value, dict) or "env_steps" not in value:
        return None
    test = {name: math.nan if without_nan(x) is None else x for name, x in value.items()}
    fits = all(
        x is math.nan or (is_number(x) and (0 <= x <= 1 or not RATE.match(name)))
        for name, x in test.items()
    )
    return test if fits and not test["env_steps"] < 0 else None


def read_row(row: dict[str, Any]) -> dict[str, Any] | None:
    """The numbers and nulls of an object; None without env steps, or if a known metric is text."""
    numbers = {name: v for name, v in row.items() if v is None or is_number(v)}
    others = [row[name] for name in row.keys() - numbers.keys() if name in (*CLOCK, *METRICS)]
    damaged = any(type(value) not in (int, float) for value in others)
    return None if damaged or numbers.get("env_steps") is None else numbers


def by_opponent(metrics: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """The win rates of training and tests against each opponent, by its name."""
    found: dict[str, dict[str, float]] = {}
    for key, value in metrics.items():
        group, against, name = key.partition("/win_rate/")
        if against:
            found.setdefault(name, {})[f"{group}/win_rate"] = value
    return found


def wilson(wins: float, n: int) -> tuple[float, float]:
    """The 95% interval of a proportion (Wilson, 1927, J. Am. Stat. Assoc. 22, p. 209)."""
    p, z2 = wins / n, Z95 * Z95
    center, spread = p + z2 / (2 * n), Z95 * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    return max(0.0, (center - spread) / (1 + z2 / n)), min(1.0, (center + spread) / (1 + z2 / n))


def student(std: float, n: int) -> tuple[float, float]:
    """The standard error of the mean of n > 1 values with this standard deviation (that of a
    population), and half of the mean's 95% interval, with the quantile of Student's t at n - 1
    degrees of freedom: a table, then the expansion around the normal one (Abramowitz and Stegun,
    1964, Handbook of Mathematical Functions, 26.7.5), which is exact to 0.0003.

    The interval is that of normal values. If all n are equal it has no width and says nothing.
    """
    error, few = std / math.sqrt(n - 1), n - 1 <= len(T95)
    terms = (Z95, 2.37227, 2.82250, 2.55585, 1.58953)
    quantile = T95[n - 2] if few else sum(term / (n - 1) ** k for k, term in enumerate(terms))
    return error, quantile * error
