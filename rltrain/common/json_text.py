"""Values as JSON that every reader takes: it has no NaN and no infinity."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def json_text(value: object) -> str:
    """Plain values as indented JSON; NaN and infinity become null."""
    return json.dumps(without_nan(value), indent=1, allow_nan=False)


def without_nan(value: object) -> Any:
    """Plain values of any depth, with None for NaN and infinity."""
    if isinstance(value, Mapping):
        return {key: without_nan(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_nan(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
