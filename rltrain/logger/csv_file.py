"""``metrics.csv``: the rows of ``metrics.jsonl`` as a table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from rltrain.common.files import replacing
from rltrain.common.json_text import without_nan
from rltrain.logger.csv_text import csv_text, table_of
from rltrain.logger.jsonl import read_rows
from rltrain.logger.loggers import Logger
from rltrain.types import Clock


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
            table = table_of(list(read_rows(self.source)))
            with replacing(self.path) as temporary:
                temporary.write_text(csv_text(table), encoding="utf-8", newline="")
            self.columns = table[0]
            return
        columns, self.columns = self.columns, []
        with self.path.open("a", encoding="utf-8", newline="") as file:
            file.write(csv_text([[line.get(name) for name in columns]]))
        self.columns = columns

    def cut(self, offset: int) -> None:
        self.columns = []

    @property
    def offset(self) -> int:
        return 0  # so that a resume cuts
