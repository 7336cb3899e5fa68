"""What the readers of tables share: CSV files as columns, names found in paths."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np

from rltrain.report.run import columns_of


def csv_columns(path: Path, skip: int = 0) -> dict[str, np.ndarray]:
    """The columns of a CSV file with a header, NaN where a cell is no number; a half-written last
    line is left out.

    Args:
        skip: lines before the header.
    """
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        for _ in range(skip):
            next(file, None)
        try:
            rows = list(csv.DictReader(file))
        except csv.Error:
            return {}
    if rows and None in rows[-1].values():
        rows.pop()
    return columns_of({k: v for k, v in row.items() if isinstance(k, str)} for row in rows)


def header(path: Path) -> str:
    """The first line of a text file."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.readline()
    except OSError:
        return ""


def seed_in(folder: Path) -> int | None:
    """The seed that a path names (``seed_3``, ``s3``), or the number at its end (``DQN_3``)."""
    for part in reversed(folder.parts[-3:]):
        if found := re.search(r"(?:^|[^a-zA-Z])s(?:eed)?[-_=]?(\d+)", part, re.IGNORECASE):
            return int(found[1])
    last = re.search(r"[-_](\d+)$", folder.name)
    return int(last[1]) if last else None


def algo_in(folder: Path, known: tuple[str, ...]) -> str:
    """The algorithm that a path names, nearest folder first; else the folder's own name without a
    number at its end.
    """
    for part in reversed(folder.parts[-4:]):
        words = re.split(r"[^a-z0-9]+", part.lower())
        if found := next((name for name in known if name in words), None):
            return found
    return re.sub(r"[-_]?(?:seed[-_=]?)?\d+$", "", folder.name) or folder.name


def env_in(folder: Path) -> str | None:
    """The environment id that a path names: ``CartPole-v1``."""
    for part in reversed(folder.parts[-4:]):
        if found := re.search(r"[A-Za-z][A-Za-z0-9-]*-v\d+", part):
            return found[0]
    return None
