"""Tables of a report: as text, CSV and LaTeX."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rltrain.errors import printable
from rltrain.logger.csv_file import csv_text
from rltrain.report.statistics import Interval


@dataclass(frozen=True)
class Table:
    """A table. Cells are text, whole numbers, numbers, and estimates with their intervals.

    Attributes:
        name: of its files.
        note: what a reader has to know.
    """

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    note: str = ""

    @property
    def is_text(self) -> list[bool]:
        """Whether there is text in a column."""
        return [any(isinstance(row[i], str) for row in self.rows) for i in range(len(self.columns))]

    def texts(self) -> list[list[str]]:
        """The cells for display."""
        return [[shown(cell) for cell in row] for row in self.rows]


def shown(cell: object) -> str:
    """``12.3 [11.8, 12.9]``; an infinite number, which no run reached, is a dash."""
    if isinstance(cell, Interval):
        if math.isnan(float(cell.low)):
            return shown(float(cell.value))
        return f"{shown(float(cell.value))} [{shown(float(cell.low))}, {shown(float(cell.high))}]"
    if isinstance(cell, float):
        if not math.isfinite(cell):
            return "–"
        digits = 0 if abs(cell) >= 1000 else 1 if abs(cell) >= 100 else 2 if abs(cell) >= 1 else 3
        return f"{cell:,.{digits}f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def as_csv(table: Table) -> str:
    """The table with all digits, an estimate in three columns."""
    header: list[str] = []
    rows: list[list[object]] = [[] for _ in table.rows]
    for i, name in enumerate(table.columns):
        column = [row[i] for row in table.rows]
        wide = any(isinstance(cell, Interval) for cell in column)
        header += [name, f"{name} low", f"{name} high"] if wide else [name]
        for cells, cell in zip(rows, column, strict=True):
            if isinstance(cell, Interval):
                cells += map(float, cell)
            else:
                cells += [cell, "", ""] if wide else [cell]
    return csv_text([header, *rows])


WORDS = {
    **{"\\": "backslash", "~": "asciitilde", "^": "asciicircum"},
    **{"<": "less", ">": "greater", "|": "bar"},
}
SPECIAL = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {c: f"\\text{word}{{}}" for c, word in WORDS.items()}
    | {"–": "--"}
)
"""Characters as LaTeX shows them."""


def as_latex(table: Table) -> str:
    """The table for a paper, with booktabs; figures are aligned to the right."""
    rows = [
        [printable(cell).translate(SPECIAL) for cell in row]
        for row in (table.columns, *table.texts())
    ]
    header, *body = (" & ".join(row) + r" \\" for row in rows)
    lines = [
        "% \\usepackage{booktabs}",
        "\\begin{tabular}{" + "".join("l" if text else "r" for text in table.is_text) + "}",
        "\\toprule",
        header,
        "\\midrule",
        *body,
        "\\bottomrule",
        "\\end{tabular}",
    ]
    return "\n".join(lines) + "\n"
