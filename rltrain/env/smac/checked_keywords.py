"""The options of battles as keywords of an environment, with rltrain's number types."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from rltrain.battles import option_checks
from rltrain.common import number_types
from rltrain.common.keywords import flat_keywords

Made = TypeVar("Made")
NUMBERS: Mapping[Any, Any] = {
    getattr(option_checks, name): getattr(number_types, name)
    for name in ("Count", "Flag", "NonNegative", "Positive", "Probability", "Real")
}
"""The ranges of ``rltrain.battles`` and the types that settings are checked against."""


def checked_keywords(function: Callable[..., Made]) -> Callable[..., Made]:
    """``flat_keywords``; the signature has rltrain's number types in the place of the ranges."""
    flat = flat_keywords(function)
    written = inspect.signature(flat)
    parameters = [
        p.replace(annotation=NUMBERS.get(p.annotation, p.annotation))
        for p in written.parameters.values()
    ]
    vars(flat)["__signature__"] = written.replace(parameters=parameters)
    flat.__annotations__ = {p.name: p.annotation for p in parameters if p.annotation is not p.empty}
    return flat
