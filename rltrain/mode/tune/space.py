"""Search spaces: the entries of ``tune.space`` checked, and values suggested for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rltrain.common.json_text import is_number
from rltrain.config.catalog import Tree
from rltrain.config.compose import compose_checked
from rltrain.config.overrides import is_below
from rltrain.config.validate.constructor import show
from rltrain.errors import CheckpointError, UsageError

if TYPE_CHECKING:
    from optuna import Trial
    from optuna.distributions import BaseDistribution

FORM = "expected {key: NAME, low: NUMBER, high: NUMBER} or {key: NAME, choices: [VALUE, …]}"
NEW = "Type tune.dir=FOLDER for a new study."
OF_ALL_TRIALS = "mode", "seed", "tune", "report", "runs", "logger", "config", "hardware.threads"
"""Keys that are the same in all trials; a preset does not set them."""


@dataclass(frozen=True)
class Parameter:
    """One searched key: a range from ``low`` to ``high``, or ``choices`` as they are typed."""

    key: str
    low: float = 0
    high: float = 0
    log: bool = False
    choices: tuple[str, ...] = ()

    def suggest(self, trial: Trial) -> str:
        """The override that a trial of Optuna suggests; CheckpointError for another value, since it
        may come from the journal.
        """
        if self.choices:
            value: Any = trial.suggest_categorical(self.key, self.choices)
        else:
            suggest: Any = trial.suggest_int if self.whole else trial.suggest_float
            value = suggest(self.key, self.low, self.high, log=self.log)
        if not self.holds(value):
            raise CheckpointError(f"{self.key}={value!s:.80} does not lie in tune.space. {NEW}")
        return f"{self.key}={value}"

    @property
    def whole(self) -> bool:
        """Whether only whole numbers are suggested."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def distribution(self) -> BaseDistribution:
        """The distribution that Optuna records with a suggested value."""
        from optuna import distributions

        if self.choices:
            return distributions.CategoricalDistribution(self.choices)
        kind: Any = distributions.IntDistribution if self.whole else distributions.FloatDistribution
        return kind(self.low, self.high, log=self.log)

    def holds(self, value: object) -> bool:
        """Whether ``suggest`` could have suggested a value."""
        if self.choices:
            return value in self.choices
        if self.whole and not isinstance(value, int):
            return False
        return is_number(value) and self.low <= value <= self.high

    def override(self, place: int) -> str:
        """The override with one of the choices or of both ends; beyond the last with the last."""
        values = self.choices or (self.low, self.high)
        return f"{self.key}={values[min(place, len(values) - 1)]}"


def validated_space(entries: Sequence[Tree], overrides: Sequence[str]) -> list[Parameter]:
    """The parameters of ``tune.space``, of which every choice and both ends are valid with
    ``overrides``.

    Raises:
        UsageError: an entry or a value that is wrong.
    """
    space = read_space(entries)
    for place in range(max(2, *(len(p.choices) for p in space))):
        compose_checked([*overrides, *(p.override(place) for p in space)]).settings()
    return [in_whole_numbers(p, space, overrides) for p in space]


def in_whole_numbers(
    parameter: Parameter, space: Sequence[Parameter], overrides: Sequence[str]
) -> Parameter:
    """A range such as from 1e4 to 1e5 as one of whole numbers if its key accepts no others."""
    low, high = parameter.low, parameter.high
    if parameter.whole or low % 1 or high % 1:
        return parameter
    others = [p.override(0) for p in space if p is not parameter]
    try:
        compose_checked([*overrides, *others, f"{parameter.key}={low + 0.5}"]).settings()
    except UsageError:
        return replace(parameter, low=int(low), high=int(high))
    return parameter


def read_space(entries: Sequence[Tree]) -> list[Parameter]:
    """The parameters of ``tune.space``; UsageError for every entry that is wrong."""
    problems = [p for e in entries if (p := problem(e))]
    keys = [e.get("key") for e in entries]
    problems += [f"{key} occurs twice." for key in dict.fromkeys(keys) if keys.count(key) > 1]
    if not entries:
        problems = ["no keys to search."]
    if problems:
        raise UsageError("\n".join(f"tune.space: {text}" for text in problems))
    return [
        Parameter(e["key"], choices=tuple(map(show, e["choices"])))
        if "choices" in e
        else Parameter(e["key"], e["low"], e["high"], e.get("log", False))
        for e in entries
    ]


def problem(entry: Mapping[str, object]) -> str:
    """Return the problem of an entry; empty if there is none."""
    name = entry.get("key")
    if not isinstance(name, str) or not name:
        return f"{show(entry)}: {FORM}."
    if is_below(name.lstrip("+"), OF_ALL_TRIALS):
        return f"{name} is the same in all trials: type {name}=VALUE beside tune.space."
    if "choices" in entry:
        listed = entry["choices"]
        wrong = not isinstance(listed, list) or not listed or set(entry) - {"key", "choices"}
        return f"{name}: {FORM}, got {show(entry)}." if wrong else ""
    low, high, log = entry.get("low"), entry.get("high"), entry.get("log", False)
    if set(entry) - {"key", "low", "high", "log"} or not isinstance(log, bool):
        return f"{name}: {FORM}, got {show(entry)}."
    if not (is_number(low) and is_number(high)) or low >= high:
        return f"{name}: expected low below high, both numbers, got {show(low)} and {show(high)}."
    if log and low <= 0:
        return f"{name}: expected low above 0 on a logarithmic scale, got {show(low)}."
    return ""
