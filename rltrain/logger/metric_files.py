"""Rows of metrics in files: ``metrics.jsonl``, which is read back, and ``metrics.csv``, the same
rows as a table; and other tables as CSV files, which spreadsheets open.
"""

from __future__ import annotations

import csv
import io
import json
import logging
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltrain.common.files import JsonObject, replacing, sync
from rltrain.common.json_text import json_lines, without_nan
from rltrain.common.metrics import read_row
from rltrain.errors import printable
from rltrain.logger.loggers import Logger, append

if TYPE_CHECKING:
    from rltrain.types import Clock, StateDict

log = logging.getLogger("rltrain")
WARNED: set[Path] = set()
"""Files whose damaged lines this process has warned of."""
FORMULA = ("=", "+", "-", "@")
"""With these a cell begins that a spreadsheet would compute, also behind spaces."""


def read_rows(path: Path) -> Iterator[JsonObject]:
    """The rows of a ``metrics.jsonl``, one at a time. Damaged lines, and a file that is too large,
    are left out, with one warning; a half-written last line without one.
    """
    problems: list[str] = []
    try:
        yield from json_lines(path, problems, read_row)
    except ValueError as error:
        problems.append(str(error))
    if problems and path not in WARNED:
        WARNED.add(path)
        log.warning("%s: %s", path.parent, *problems)


@dataclass(eq=False)
class JsonLines(Logger):
    """``metrics.jsonl``: one object per line, flushed; append-only, except that a resumed run drops
    what was written after its checkpoint.
    """

    path: Path
    patience = math.inf
    kept: int | None = None  # bytes to keep, until ``start``

    def state_dict(self) -> StateDict:
        size = self.path.stat().st_size if self.path.exists() else 0
        return {"offset": size if self.kept is None else self.kept}

    def load_state_dict(self, state: StateDict) -> None:
        self.kept = state["offset"]

    def write(self, clock: Clock, seconds: float, row: Mapping[str, float]) -> None:
        line = {**asdict(clock), "seconds": round(seconds, 3), **without_nan(row)}
        append(self.path, f"{json.dumps(line)}\n".encode())

    def sync(self) -> None:
        if self.path.exists():
            sync(self.path)
            sync(self.path.parent)

    def start(self) -> None:
        """Drop what was written after a checkpoint, and end a line that was cut. Where no line ends
        there, the file has been edited since, and stays as it is.
        """
        kept, self.kept = self.kept, None
        if kept is None or not self.path.exists():
            return
        with self.path.open("r+b") as file:
            if file.seek(0, os.SEEK_END) > kept:
                file.seek(max(kept - 1, 0))
                if kept == 0 or file.read(1) == b"\n":
                    file.truncate(kept)
                else:
                    log.warning("%s was edited: rows after the checkpoint stay in it", self.path)
            if end := file.seek(0, os.SEEK_END):
                file.seek(end - 1)
                if file.read(1) != b"\n":
                    file.write(b"\n")


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
