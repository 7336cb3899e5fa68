"""Values as JSON that every reader takes, which has no NaN and no infinity, and checked JSON."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from rltrain.common.machine.places import LONGEST_NAME


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


def entry_name(name: str) -> str:
    """The name of a folder to be made, from a file; ValueError for one that leads elsewhere or is
    too long.
    """
    fits = name not in ("", ".", "..") and "/" not in name and name.isprintable()
    if not fits or len(os.fsencode(name)) > LONGEST_NAME:
        raise ValueError(f"not a folder name: {name!a}")
    return name


def read_strictly(kind: Any, text: str) -> Any:
    """JSON as a value of the type ``kind``, such as a dataclass.

    Raises:
        ValueError: the first problem.
    """
    try:
        return TypeAdapter(kind).validate_json(text, strict=True)
    except ValidationError as error:
        raise ValueError(first_problem(error)) from error


def first_problem(error: ValidationError) -> str:
    """The first problem in plain data, such as "n_agents is missing"."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    if first["type"] == "missing":
        return f"{where} is missing"
    return f"{where} is {first['input']!a:.40} ({first['msg']})" if where else first["msg"]
