"""``report.html``: one file with charts, tables and data in it, which loads nothing else."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

import rltrain
from rltrain.report.analysis import Analysis
from rltrain.report.results import AXES, interval_name, metric_name, size_text
from rltrain.report.statistics import Estimate
from rltrain.report.tables import Table

FOLDED = ("configurations", "runs")
"""Tables that are closed at first."""
MANY = 4
"""Environments that the title names, at most."""
GENERATOR = b'<meta name="generator" content="rltrain mode=report">'
"""What page.html is known by."""


def write_page(path: Path, analysis: Analysis, tables: Sequence[Table]) -> None:
    """Write the page."""
    envs = analysis.envs
    where = ", ".join(envs) if len(envs) <= MANY else f"{len(envs)} environments"
    title = f"{where}: {metric_name(analysis)}"
    now = datetime.now().strftime("%Y-%m-%d %H:%M")
    fields = {
        "title": html.escape(title),
        "summary": html.escape(
            f"{size_text(analysis)}. Lines and points are "
            f"{interval_name(analysis)}, from {analysis.settings.resamples:,} stratified bootstrap "
            "resamples of the runs."
        ),
        "warnings": warnings(analysis.warnings),
        "tables": "\n".join(map(section, tables)),
        "footer": html.escape(f"rltrain {rltrain.__version__}, {now}"),
        "data": embedded(data_of(analysis)),
    }
    here = files(__package__)
    text = here.joinpath("page.html").read_text(encoding="utf-8")
    for part in ("css", "js"):
        fields[part] = here.joinpath(f"page.{part}").read_text(encoding="utf-8")
    pieces = [piece.partition("]]") for piece in text.split("[[")]
    filled = pieces[0][0] + "".join(fields[name] + rest for name, _, rest in pieces[1:])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(filled, encoding="utf-8", errors="backslashreplace")


def is_report(folder: Path) -> bool:
    """Whether a folder holds a page of ours."""
    try:
        with (folder / "report.html").open("rb") as file:
            return GENERATOR in file.read(1000)
    except OSError:
        return False


def warnings(texts: Sequence[str]) -> str:
    """The warnings as paragraphs in a box."""
    paragraphs = "".join(f"<p>{html.escape(text)}</p>" for text in texts)
    return f'<div class="warnings">{paragraphs}</div>' if texts else ""


def section(table: Table) -> str:
    """A table with its title and note."""
    text = [any(isinstance(row[i], str) for row in table.rows) for i in range(len(table.columns))]
    kinds = ["text" if is_text else "" for is_text in text]
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


def embedded(data: Any) -> str:
    """JSON that can stand in a script element, whatever texts are in it."""
    return json.dumps(data, allow_nan=False).replace("<", "\\u003c").replace("\u2028", "\\u2028")


def data_of(analysis: Analysis) -> dict[str, Any]:
    """What the script of the page draws."""
    x, name = AXES[analysis.settings.axis], metric_name(analysis)
    curves = [
        {
            "title": env,
            "xlabel": x,
            "ylabel": name,
            "lines": [line(s.label, s.x, s.band) for s in analysis.of(env)],
        }
        for env in analysis.envs
    ]
    finals = [
        {
            "title": env,
            "xlabel": name,
            "rows": [row(s.label, [s.label], s.final, s.finals) for s in analysis.of(env)],
        }
        for env in analysis.envs
    ]
    sections = [chart_section("Learning curves", curves)]
    if analysis.overall:
        sections.append(chart_section("Over all environments", [over_all(analysis, x)]))
    sections.append(
        chart_section("Final scores", finals, "Point and bar: statistic and interval. Ticks: runs.")
    )
    if len(analysis.profiles.fractions) > 1:
        sections.append(
            chart_section(
                "Performance profile",
                [profile(analysis, "normalized score" if analysis.ranges else name)],
                "Fraction of runs whose final score is above a threshold.",
            )
        )
    if analysis.improvement:
        chart = improvement(analysis.improvement)
        sections.append(chart_section("Probability of improvement", [chart]))
    return {"labels": analysis.labels, "sections": sections}


def chart_section(title: str, charts: Sequence[Any], note: str = "") -> dict[str, Any]:
    """Charts below one heading."""
    return {"title": title, "note": note, "charts": charts}


def over_all(analysis: Analysis, x: str) -> dict[str, Any]:
    """Normalized curves over all environments."""
    return {
        "title": "",
        "xlabel": f"share of the {x} (%)",
        "ylabel": "normalized score",
        "lines": [line(o.label, o.x * 100, o.band) for o in analysis.overall],
    }


def profile(analysis: Analysis, name: str) -> dict[str, Any]:
    """Fractions of runs above thresholds."""
    found = analysis.profiles
    return {
        "title": "",
        "xlabel": name,
        "ylabel": "fraction of runs above",
        "ylimits": [0, 1.02],
        "lines": [line(label, found.thresholds, e) for label, e in found.fractions.items()],
    }


def improvement(pairs: Mapping[tuple[str, str], Estimate]) -> dict[str, Any]:
    """Pairs, with a line at one half."""
    rows = [row(f"{a} > {b}", [a, b], found) for (a, b), found in pairs.items()]
    xlabel = "probability that the first scores higher"
    return {"title": "", "xlabel": xlabel, "xlimits": [-0.02, 1.02], "half": True, "rows": rows}


def line(label: str, x: np.ndarray, found: Estimate) -> dict[str, Any]:
    """One curve with its interval."""
    return {
        "label": label,
        "x": numbers(x),
        "y": numbers(found.value),
        "low": numbers(found.low),
        "high": numbers(found.high),
    }


def row(
    name: str, labels: Sequence[str], found: Estimate, points: Iterable[float] = ()
) -> dict[str, Any]:
    """One interval; it is hidden with any of its labels."""
    value, low, high = numbers([found.value, found.low, found.high])
    return {
        "name": name,
        "labels": labels,
        "value": value,
        "low": low,
        "high": high,
        "points": numbers(points),
    }


def numbers(values: Iterable[Any]) -> list[float | None]:
    """Numbers with six digits, as JSON can hold them."""
    return [float(f"{float(v):.6g}") if math.isfinite(v) else None for v in values]
