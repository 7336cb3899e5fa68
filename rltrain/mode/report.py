"""mode=report: compare runs in figures, tables and one page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import JustifyMethod
from rich.table import Table as RichTable

from rltrain.common.files import (
    dated,
    drop_temporary,
    expanded,
    made,
    put_text,
    require_empty,
    require_plain,
)
from rltrain.common.machine.places import require_writable
from rltrain.config.overrides import typed_list
from rltrain.config.schema import RunSettings
from rltrain.errors import UsageError, storage_errors
from rltrain.logger.screen import Screen, shown
from rltrain.report.analysis import analyze
from rltrain.report.comparison import Analysis
from rltrain.report.figures import FORMATS, draw_all
from rltrain.report.page import FIGURES, is_report, write_page
from rltrain.report.readers import find_runs
from rltrain.report.report_tables import (
    DETAILS,
    TABLES,
    Table,
    as_csv,
    as_latex,
    list_tables,
    size_text,
)


def report(run: RunSettings) -> None:
    """Read the runs, compare them, write the report, print its main tables.

    Raises:
        UsageError: no runs, or none that can be compared.
        StorageError: the disk is full.
    """
    paths = typed_list(run.runs or "[]")
    if not paths:
        raise UsageError(
            "mode=report needs runs: type mode=report runs=outputs for all of them, runs=FOLDER, "
            "or a pattern in quotes, runs='outputs/*-cartpole'."
        )
    folder = expanded(run.report.dir) if run.report.dir else dated("report")
    if is_report(folder):
        require_plain(folder)
    else:
        advice = "Type report.dir=FOLDER with a new or an empty folder, or leave it out."
        require_empty(folder, "a report", advice, (".report.html.*",))
    for place in (folder, folder / "tables", folder / "figures"):
        require_writable(place.absolute(), "report.dir")
    problems: list[str] = []
    analysis = analyze(find_runs(paths, problems), run.report, problems)
    tables = list_tables(analysis)
    with storage_errors(f"The report {folder}"):
        folder = folder if run.report.dir else made(folder)
        write_page(folder / "report.html", analysis, tables, [])  # marks the folder as a report's
        (folder / "tables").mkdir(exist_ok=True)
        for table in tables:
            put_text(folder / "tables" / f"{table.name}.csv", as_csv(table))
            put_text(folder / "tables" / f"{table.name}.tex", as_latex(table))
        figures = draw_all(analysis, folder / "figures")
        write_page(folder / "report.html", analysis, tables, figures)
        remove_old(folder, tables, figures)
    show(folder, analysis, tables)


def remove_old(folder: Path, tables: Sequence[Table], figures: Sequence[Path]) -> None:
    """Remove what an earlier report in this folder had and this one has not; other files stay."""
    gone = TABLES.keys() - {table.name for table in tables}
    old = {folder / "tables" / f"{name}.{form}" for name in gone for form in ("csv", "tex")}
    drawn = {folder / "figures" / f"{name}.{form}" for name in FIGURES for form in FORMATS}
    for path in old | (drawn - {*figures}):
        path.unlink(missing_ok=True)
    drop_temporary(folder, "*.html")
    drop_temporary(folder / "tables", "*.csv", "*.tex")
    drop_temporary(folder / "figures", *(f"*.{form}" for form in FORMATS))


def show(folder: Path, analysis: Analysis, tables: Sequence[Table]) -> None:
    """Print the main tables, the warnings and what was written."""
    screen = Screen()
    for table in tables:
        if table.name in ("final_scores", "overall", "improvement"):
            screen.print(rich_table(table))
    for warning in analysis.warnings:
        screen.print(f"Warning: {warning}", style="yellow")
    screen.lines(
        f"{size_text(analysis)}. Open {shown(folder / 'report.html')}; figures/ (PNG, "
        "SVG, PDF) and tables/ (CSV, LaTeX) are next to it."
    )


def rich_table(table: Table) -> RichTable:
    """A table for the terminal, without the columns that only the files have."""
    out = RichTable(title=table.title, title_justify="left", box=SIMPLE_HEAD)
    kept = [i for i, column in enumerate(table.columns) if column not in DETAILS]
    for i in kept:
        text = table.is_text[i]
        justify: JustifyMethod = "left" if text else "right"
        out.add_column(table.columns[i], justify=justify, no_wrap=not text, overflow="fold")
    for row in table.texts():
        out.add_row(*(row[i] for i in kept))
    return out
