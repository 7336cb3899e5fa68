"""Rows of metrics in ``metrics.jsonl``, written and read back."""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rltrain.common.files import JsonObject, sync
from rltrain.common.json_text import json_lines, without_nan
from rltrain.common.metrics import read_row
from rltrain.logger.loggers import Logger, append

if TYPE_CHECKING:
    from rltrain.types import Clock

log = logging.getLogger("rltrain")
WARNED: set[Path] = set()
"""Files whose damaged lines this process has warned of."""


def read_rows(path: Path) -> Iterator[JsonObject]:
    """The rows of a ``metrics.jsonl``, one at a time. Damaged lines are left out, with one warning;
    a half-written last line without one.
    """
    problems: list[str] = []
    yield from json_lines(path, problems, read_row)
    if problems and path not in WARNED:
        WARNED.add(path)
        log.warning("%s: %s", path.parent, *problems)


@dataclass(eq=False)
class JsonLines(Logger):
    """``metrics.jsonl``: one object per line, flushed; append-only except for ``cut``, which a
    resume calls.
    """

    path: Path
    patience = math.inf

    @property
    def offset(self) -> int:
        """Bytes written so far."""
        return self.path.stat().st_size if self.path.exists() else 0

    def write(self, clock: Clock, seconds: float, row: Mapping[str, float]) -> None:
        line = {**asdict(clock), "seconds": round(seconds, 3), **without_nan(row)}
        append(self.path, f"{json.dumps(line)}\n".encode())

    def sync(self) -> None:
        if self.path.exists():
            sync(self.path)
            sync(self.path.parent)

    def cut(self, offset: int) -> None:
        """Drop what was written after a checkpoint, and end a line that was cut. Where no line ends
        there, the file has been edited since, and stays as it is.
        """
        if self.offset > offset:
            with self.path.open("r+b") as file:
                file.seek(max(offset - 1, 0))
                if offset == 0 or file.read(1) == b"\n":
                    file.truncate(offset)
                else:
                    log.warning("%s was edited: rows after the checkpoint stay in it", self.path)
        if self.offset:
            with self.path.open("r+b") as file:
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    file.write(b"\n")
