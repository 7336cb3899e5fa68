"""``report.html``: one file with figures and tables in it, which loads nothing else."""

from __future__ import annotations

import html
import os
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

import rltrain
from rltrain.common.files import PAGES, newest, open_plain, put_text
from rltrain.common.page import filled
from rltrain.errors import printable
from rltrain.report.comparison import Analysis
from rltrain.report.report_tables import Table, interval_name, metric_name, size_text

FIGURES = {
    "curves": ("Learning curves", ""),
    "overall": ("Over all environments", ""),
    "final_scores": ("Final scores", "Point and bar: statistic and interval. Ticks: runs."),
    "profile": ("Performance profile", "Fraction of runs whose final score is above a threshold."),
    "improvement": (
        "Probability of improvement",
        "How likely a run of the first configuration scores higher than one of the second.",
    ),
    "self_play": ("Self-play: ratings over training time", ""),
}
"""Title and note of each figure."""
FOLDED = ("configurations", "runs")
"""Tables that are closed at first."""
MANY = 4
"""Environments that the title names, at most."""
GENERATOR = b'<meta name="generator" content="rltrain mode=report">'
"""The mark of a page.html that rltrain wrote."""


def write_page(
    path: Path, analysis: Analysis, tables: Sequence[Table], figures: Sequence[Path]
) -> None:
    """Write the page, with the SVG files among ``figures``."""
    envs = analysis.ends
    where = ", ".join(envs) if len(envs) <= MANY else f"{len(envs)} environments"
    texts = "".join(f"<p>{html.escape(text)}</p>" for text in analysis.warnings)
    fields = {
        "mode": "report",
        "title": html.escape(f"{where}: {metric_name(analysis)}"),
        "summary": html.escape(
            f"{size_text(analysis)}. Lines and points are "
            f"{interval_name(analysis)}, from {analysis.settings.resamples:,} stratified bootstrap "
            "resamples of the runs."
        ),
        "warnings": f'<div class="warnings">{texts}</div>' if texts else "",
        "tables": "\n".join(map(section, tables)),
        "episodes": episodes(analysis, path.parent),
        "figures": "\n".join(figure(each) for each in figures if each.suffix == ".svg"),
    }
    put_page(path, fields)


def put_page(path: Path, fields: Mapping[str, str]) -> None:
    """Write a page with these fields, which are HTML, its style and its footer."""
    now = datetime.now().strftime("%Y-%m-%d %H:%M")
    footer = html.escape(f"rltrain {rltrain.__version__}, {now}")
    path.parent.mkdir(parents=True, exist_ok=True)
    put_text(path, printable(filled(__package__, "page", {**fields, "footer": footer})))


def is_report(folder: Path) -> bool:
    """Whether a folder holds a page of ours."""
    try:
        with open_plain(folder / "report.html") as file:
            return GENERATOR in file.read(1000)
    except OSError:
        return False


def figure(path: Path) -> str:
    """An SVG file as an image, in which no script runs, with its title and note."""
    title, note = FIGURES[path.stem]
    image = f"data:image/svg+xml;base64,{b64encode(path.read_bytes()).decode()}"
    about = f"<p>{html.escape(note)}</p>" if note else ""
    return f'<section><h2>{title}</h2>{about}<img alt="{title}" src="{image}"></section>'


def episodes(analysis: Analysis, folder: Path) -> str:
    """Links to the newest page of episodes of every run, as seen from the report's folder."""
    links = []
    for series in analysis.series:
        for run in series.runs:
            for page in newest(run.folder, PAGES):
                place = Path(os.path.relpath(run.folder / page, folder)).as_posix()
                text = html.escape(f"{series.env}, {series.label}, seed {run.seed}")
                links.append(f'<li><a href="{quote(os.fsencode(place))}">{text}</a></li>')
    return f"<section><h2>Episodes</h2><ul>{''.join(links)}</ul></section>" if links else ""


def section(table: Table) -> str:
    """A table with its title and note."""
    kinds = ["text" if is_text else "" for is_text in table.is_text]
    body = "".join(f"<tr>{cells('td', row, kinds)}</tr>" for row in table.texts())
    grid = (
        f'<div class="scroll"><table><thead><tr>{cells("th", table.columns, kinds)}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
    note = f"<p>{html.escape(table.note)}</p>" if table.note else ""
    if table.name in FOLDED:
        return f"<details><summary>{html.escape(table.title)}</summary>{note}{grid}</details>"
    return f"<section><h2>{html.escape(table.title)}</h2>{note}{grid}</section>"


def cells(tag: str, texts: Sequence[str], kinds: Sequence[str]) -> str:
    """One row."""
    return "".join(
        f'<{tag} class="{kind}">{html.escape(text)}</{tag}>'
        for text, kind in zip(texts, kinds, strict=True)
    )
