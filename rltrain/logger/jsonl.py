"""Rows of metrics in ``metrics.jsonl``."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from rltrain.common.files import sync
from rltrain.logger.loggers import Logger
from rltrain.types import Clock


def readable(row: Mapping[str, float]) -> dict[str, float | None]:
    """A row as JSON can hold it: NaN and infinity become null."""
    return {k: (v if math.isfinite(v) else None) for k, v in row.items()}


class JsonLines(Logger):
    """``metrics.jsonl``: one object per line, flushed; append-only but for ``cut``, which a resume
    calls. A row that does not fit on the disk is not there in part either.
    """

    patience = math.inf

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def offset(self) -> int:
        """Bytes written so far."""
        return self.path.stat().st_size if self.path.exists() else 0

    def write(self, clock: Clock, seconds: float, row: Mapping[str, float]) -> None:
        line = {**asdict(clock), "seconds": round(seconds, 3), **readable(row)}
        before = self.offset
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        except OSError:
            self.cut(before)
            raise

    def sync(self) -> None:
        if self.path.exists():
            sync(self.path)
            sync(self.path.parent)

    def cut(self, offset: int) -> None:
        """Drop what was written after a checkpoint."""
        if self.offset > offset:
            os.truncate(self.path, offset)
