"""Battle options as keywords of an environment, with rltrain's number types."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from rltrain.battles import option_checks
from rltrain.common import number_types
from rltrain.common.keywords import flat_keywords

NUMBERS: Mapping[Any, Any] = {
    getattr(option_checks, name): getattr(number_types, name)
    for name in ("Count", "Flag", "NonNegative", "Positive", "Probability", "Real")
}
"""The ranges of ``rltrain.battles``, and the types that check settings."""


def checked_keywords(function: Callable[..., None]) -> Callable[..., None]:
    """``flat_keywords`` with rltrain's number types in the signature instead of the ranges; errors
    name a keyword as the setting of an environment."""
    flat = flat_keywords(function, NUMBERS)

    @wraps(flat)
    def checked(*args: object, **keywords: Any) -> None:
        try:
            flat(*args, **keywords)
        except ValueError as error:
            name = re.match(r"\w*(?=[=:])", str(error))
            if name and name[0] in flat.__annotations__:
                raise ValueError(f"env.{error}") from error
            raise

    return checked
