"""JSON whose values have the types of a dataclass."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter, ValidationError


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
