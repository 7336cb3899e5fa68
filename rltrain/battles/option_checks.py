"""Checks of options: ranges of numbers, choices, and the nearest names for a misspelled one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from difflib import SequenceMatcher
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints


class Range(NamedTuple):
    """The numbers that an option may be, both ends included."""

    expected: str
    low: float = -math.inf
    high: float = math.inf
    whole: bool = False

    def holds(self, value: Any) -> bool:
        """Whether ``value`` is a finite number in the range."""
        try:
            fits = math.isfinite(value) and self.low <= value <= self.high
            return fits and (not self.whole or value == int(value))
        except (TypeError, OverflowError):  # no number, or one of more than 308 digits
            return False

    def check(self, **values: object) -> None:
        """Raise ValueError unless all values, by name, are in the range."""
        for name, value in values.items():
            if not self.holds(value):
                raise ValueError(f"{name}={value!r}: expected {self.expected}")


FLAG = Range("True or False", 0, 1, whole=True)
SEED = Range("a whole number from 0 to 2**63 - 1", 0, 2**63 - 1, whole=True)
Flag = Annotated[bool, FLAG]
COUNT = Range("1, 2, 3, …", 1, 2**63 - 1, whole=True)
Count = Annotated[int, COUNT]
Real = Annotated[float, Range("a finite number")]
Positive = Annotated[float, Range("a finite number above 0", math.ulp(0.0))]
NOT_NEGATIVE = Range("a finite number, 0 or more", 0)
NonNegative = Annotated[float, NOT_NEGATIVE]
Probability = Annotated[float, Range("a number from 0 to 1", 0, 1)]


def check_ranges(options: object) -> None:
    """Give the numbers of a dataclass the types of their annotations: machine code is compiled for
    each type. Raises ValueError unless all are in the ranges there."""
    for name, hint in get_type_hints(type(options), include_extras=True).items():
        match get_args(hint):
            case (number, Range() as limits):
                limits.check(**{name: getattr(options, name)})
                object.__setattr__(options, name, number(getattr(options, name)))


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise ValueError unless ``value`` is one of the choices."""
    if value not in choices:
        raise ValueError(f"unknown {name} {value!r}: expected one of {', '.join(choices)}")


def closest(name: str, known: Iterable[str]) -> list[str]:
    """The known names, at most three, most similar to ``name``; empty if none is similar."""
    alike = {k: SequenceMatcher(None, k.lower(), name.lower()).ratio() for k in known}
    best = max(alike.values(), default=0.0)
    return [k for k, likeness in alike.items() if likeness == best >= 0.5][:3]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`` Did you mean 'step_mul'?`` for the nearest known name, or nothing."""
    return "".join(f" Did you mean {near!r}?" for near in closest(name, known)[:1])
