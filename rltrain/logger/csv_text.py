"""Tables as CSV files, which spreadsheets open."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rltrain.errors import printable

FORMULA = ("=", "+", "-", "@")
"""With these a cell begins that a spreadsheet would compute, also behind spaces."""


def table_of(rows: Sequence[Mapping[str, object]]) -> list[list[Any]]:
    """Every name that one of the rows has, then the values of each row."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return [names, *([row.get(name) for name in names] for row in rows)]


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Rows, of which the first has the names of the columns."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(
        [csv_cell(cell) for cell in row] for row in rows
    )
    return text.getvalue()


def csv_cell(value: object) -> object:
    """A number with all digits, empty if it is NaN or infinite; text without control characters,
    that of a formula behind an apostrophe.
    """
    if isinstance(value, float):
        return repr(float(value)) if math.isfinite(value) else ""
    if not isinstance(value, str):
        return value
    return printable(f"'{value}" if value.strip()[:1] in FORMULA else value)
