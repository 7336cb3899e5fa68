"""Values as JSON that every reader takes, which has no NaN and no infinity, and checked JSON; files
with an object on every line, some of which may be damaged or of any length.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeGuard, TypeVar

from rltrain.common.files import JsonObject, open_plain, parsed, unique_keys
from rltrain.common.machine.places import LONGEST_NAME

if TYPE_CHECKING:
    from pydantic import ValidationError

Row = TypeVar("Row")
METRICS_BYTES = 1 << 30
"""A larger file of metrics is not read."""
LONGEST = 1 << 24
"""Bytes of a line that are read."""
NAMED = 5
"""Damaged lines that are named."""
LARGEST = 1e100
"""Larger numbers are not measurements: their squares and sums would overflow."""


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


def copied(value: object) -> Any:
    """A copy of nested dicts and lists of plain values."""
    if isinstance(value, dict):
        return {key: copied(inner) for key, inner in value.items()}
    return [copied(inner) for inner in value] if isinstance(value, list) else value


def flat(tree: object, separator: str = ".", prefix: str = "") -> JsonObject:
    """The values of a nested mapping by their paths; empty mappings have none."""
    if not isinstance(tree, Mapping):
        return {prefix.removesuffix(separator): tree}
    out: JsonObject = {}
    for name, value in tree.items():
        out |= flat(value, separator, f"{prefix}{name}{separator}")
    return out


def entry_name(name: str) -> str:
    """The name of a folder to be made, from a file; ValueError for one that leads elsewhere or is
    too long.
    """
    fits = name not in ("", ".", "..") and "/" not in name and name.isprintable()
    if not fits or len(os.fsencode(name)) > LONGEST_NAME:
        raise ValueError(f"not a folder name: {name!a:.40}")
    return name


def read_strictly(kind: Any, text: str) -> Any:
    """JSON as a value of the type ``kind``, such as a dataclass.

    Raises:
        ValueError: the first problem.
    """
    from pydantic import TypeAdapter, ValidationError  # not for --help

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


def bounded_lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines with their ends; of one longer than ``LONGEST`` its beginning, and a new line."""
    while line := file.readline(LONGEST):
        rest = line
        while len(rest) == LONGEST and not rest.endswith(b"\n"):
            rest = file.readline(LONGEST)
        yield line if rest is line else line + b"\n"


def json_lines(
    path: Path,
    problems: list[str],
    read: Callable[[JsonObject], JsonObject | None],
) -> Iterator[JsonObject]:
    """The rows of a file, which may be missing; a half-written last line is left out.

    Args:
        problems: takes a remark about damaged lines.
        read: makes a row of an object; None if it is damaged.

    Raises:
        ValueError: it has more than ``METRICS_BYTES``.
    """

    def read_line(line: bytes) -> JsonObject | None:
        with suppress(ValueError):
            if len(line) <= LONGEST:
                row = parsed(line.decode("utf-8"), object_pairs_hook=unique_keys)
                return read(row) if isinstance(row, dict) else None
        return None if line.endswith(b"\n") else {}

    if path.is_file():
        with open_plain(path, METRICS_BYTES) as file:
            rows = map(read_line, bounded_lines(file))
            yield from filter(None, intact(enumerate(rows, 1), f"lines of {path.name}", problems))


def intact(rows: Iterable[tuple[int, Row | None]], what: str, problems: list[str]) -> Iterator[Row]:
    """The rows without the damaged ones, which are None; the numbers of these become a problem."""
    damaged: list[int] = []
    for at, row in rows:
        if row is not None:
            yield row
        elif len(damaged) <= NAMED:
            damaged.append(at)
    if damaged:
        named = ", ".join(map(str, damaged[:NAMED])) + (", …" if len(damaged) > NAMED else "")
        problems.append(f"{what} that cannot be read are left out: {named}")


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a value is a number that can be computed with."""
    return type(value) in (int, float) and abs(value) <= LARGEST
