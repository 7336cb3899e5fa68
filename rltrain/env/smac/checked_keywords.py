"""The options of battles as keywords of an environment, with rltrain's number types."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from rltrain.battles import option_checks
from rltrain.common import number_types
from rltrain.common.keywords import flat_keywords

NUMBERS: Mapping[Any, Any] = {
    getattr(option_checks, name): getattr(number_types, name)
    for name in ("Count", "Flag", "NonNegative", "Positive", "Probability", "Real")
}
"""The ranges of ``rltrain.battles`` and the types that settings are checked against."""


checked_keywords = partial(flat_keywords, replaced=NUMBERS)
"""``flat_keywords``; the signature has rltrain's number types in place of the ranges."""
