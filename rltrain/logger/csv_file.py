"""``metrics.csv``, the rows of ``metrics.jsonl`` as a table, and other tables as CSV files, which
spreadsheets open.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltrain.common.files import replacing
from rltrain.common.json_text import without_nan
from rltrain.errors import printable
from rltrain.logger.jsonl import read_rows
from rltrain.logger.loggers import Logger, append

if TYPE_CHECKING:
    from rltrain.types import Clock, StateDict

FORMULA = ("=", "+", "-", "@")
"""With these a cell begins that a spreadsheet would compute, also behind spaces."""


class CsvFile(Logger):
    """A column per metric. A row with a new metric, and the first one after a resume, writes the
    table again from ``metrics.jsonl``, which has that row already; also one after a failure.
    """

    patience = math.inf

    def __init__(self, *, run_dir: Path) -> None:
        self.path, self.source = run_dir / "metrics.csv", run_dir / "metrics.jsonl"
        self.columns: list[str] = []

    def write(self, clock: Clock, seconds: float, row: Mapping[str, float]) -> None:
        line = {**asdict(clock), "seconds": round(seconds, 3), **without_nan(row)}
        if not set(line) <= set(self.columns):
            table = to_table(list(read_rows(self.source)))
            with replacing(self.path) as temporary:
                temporary.write_text(csv_text(table), encoding="utf-8", newline="")
            self.columns = table[0]
            return
        columns, self.columns = self.columns, []
        append(self.path, csv_text([[line.get(name) for name in columns]]).encode())
        self.columns = columns

    def load_state_dict(self, state: StateDict) -> None:
        self.columns = []


def to_table(rows: Sequence[Mapping[str, object]]) -> list[list[Any]]:
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
