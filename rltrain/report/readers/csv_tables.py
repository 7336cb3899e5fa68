"""Shared parts of the readers of tables: CSV files as columns, names found in paths."""

from __future__ import annotations

import csv
import math
import re
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

import numpy as np

from rltrain.common.files import open_plain
from rltrain.common.json_text import LONGEST, METRICS_BYTES, bounded_lines, intact
from rltrain.report.run_data import is_value, to_columns

MOST_LINES = 100
"""Lines that a row may have; a quote that is still open there is damage of its own line."""


def csv_columns(
    path: Path, names: Sequence[str], problems: list[str], skip: int = 0, *, full: bool = False
) -> dict[str, np.ndarray]:
    """Columns of a CSV file whose header follows ``skip`` lines, NaN where a cell is empty; a
    half-written last line is left out, and damaged ones, which become a problem.

    Args:
        names: of the columns.
        full: whether a row without a finite number in each of them is damaged.
    """
    with open_plain(path, METRICS_BYTES) as file:
        whole = (line for line in islice(bounded_lines(file), skip, None) if line[-1:] == b"\n")
        table = numbered_rows(whole, skip + 1)
        _, head = next(table, (0, []))
        rows = ((at, row_of(head, cells, names, full)) for at, cells in table)
        return to_columns(intact(rows, f"lines of {path.name}", problems))


def numbered_rows(lines: Iterator[bytes], at: int) -> Iterator[tuple[int, list[str]]]:
    """The cells of each row and the number of its first line, from ``at``; no cells for a line that
    is damaged. In quotes a cell may span lines.
    """
    ahead, width = deque[bytes](), 0
    while ahead or (ahead := deque(islice(lines, 1))):
        n, quotes = 1, ahead[0].count(b'"')
        while quotes % 2 and n < MOST_LINES:
            ahead.extend(islice(lines, int(n == len(ahead))))
            if n == len(ahead):
                break
            quotes += ahead[n].count(b'"')
            n += 1
        cells = list[str]()
        with suppress(csv.Error):  # a quote that is not closed
            line = b"".join(islice(ahead, n)).decode("utf-8", "replace")
            cells = next(csv.reader([line], strict=True), [])
        if n > 1 and len(cells) != (width or len(cells) or -1):
            n, cells = 1, []
        yield at, cells
        at, width = at + n, width or len(cells)
        for _ in range(n):
            ahead.popleft()


def row_of(
    head: Sequence[str], cells: Sequence[str], names: Sequence[str], full: bool
) -> dict[str, float] | None:
    """The numbers of a line, NaN for empty cells; None if it is damaged."""
    line = dict(zip(head, cells, strict=False))
    try:
        row = {name: float(line[name] or "nan") for name in names if name in line}
    except ValueError:
        return None
    numbers = len(row) == len(names) and all(map(math.isfinite, row.values()))
    fits = len(line) == len(head) == len(cells) and all(map(is_value, row.values()))
    return row if fits and (numbers or not full) else None


def header(path: Path) -> str:
    """The first line of a text file."""
    try:
        with open_plain(path) as file:
            return file.readline(LONGEST).decode("utf-8", "replace")
    except OSError:
        return ""


SEED = re.compile(r"(?:^|[^a-zA-Z])s(?:eed)?[-_=]?(\d+)", re.IGNORECASE)
LAST_NUMBER = re.compile(r"[-_](\d+)$")
ENV = re.compile(r"[A-Za-z][A-Za-z0-9-]*-v\d+")


def seed_in(folder: Path) -> int | None:
    """The seed that a path names (``seed_3``, ``s3``), or the number at its end (``DQN_3``)."""
    for part in reversed(folder.parts[-3:]):
        if match := SEED.search(part):
            return int(match[1])
    last = LAST_NUMBER.search(folder.name)
    return int(last[1]) if last else None


def algo_in(folder: Path, known: tuple[str, ...]) -> str:
    """The algorithm that a path names, nearest folder first; else the folder's own name without a
    number at its end.
    """
    for part in reversed(folder.parts[-4:]):
        if match := next((name for name in known if names(part, name)), None):
            return match
    return re.sub(r"[-_]?(?:seed[-_=]?)?\d+$", "", folder.name) or folder.name


def names(part: str, algo: str) -> bool:
    """Whether words of a name are those of an algorithm: ``ppo_lstm``, ``PPO-LSTM_1``."""
    return f"_{algo}_" in re.sub(r"[^a-z0-9]+", "_", f"_{part.lower()}_")


def name_in(folder: Path, algo: str) -> str:
    """The rest of the name that has the algorithm, without environment, seed and number: all of
    ``dqn_big`` in ``dqn_big_CartPole-v1_3``; empty if that is the algorithm alone.
    """
    for part in reversed(folder.parts[-4:]):
        if names(part, algo):
            name = ENV.sub("", SEED.sub("", part))
            name = LAST_NUMBER.sub("", name).strip("-_ ")
            return "" if name.lower() == algo else name
    return ""


def env_in(folder: Path) -> str | None:
    """The environment id that a path names: ``CartPole-v1``."""
    found = map(ENV.search, reversed(folder.parts[-4:]))
    return next((match[0] for match in found if match), None)
