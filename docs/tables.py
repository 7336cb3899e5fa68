"""Write the tables of the from_*.md pages from config/suggest/names/, and combinations.md from
config/combinations.yaml: python docs/tables.py
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rltrain.config.combinations import table as combinations
from rltrain.config.combinations import together
from rltrain.config.suggest.aliases import Row, tables

PAGES = {
    "from_pymarl.md": ["PyMARL"],
    "from_rllib.md": ["RLlib"],
    "from_sb3.md": ["Stable-Baselines3", "CleanRL"],
}


def cell(row: Row) -> str:
    """The right cell of a row: what to type, and what else there is to say."""
    given = [f"`{words}` ({value})" for value, words in row.values.items() if words]
    keys = [" or ".join(f"`{key}`" for key in word.split("|")) for word in row.ours.split()]
    listed = ", ".join(given or dict.fromkeys(keys))
    if not listed:
        return f"– ({row.note})" if row.note else "–"
    return f"{listed}: {row.note}" if row.note else listed


def table(library: str, rows: tuple[Row, ...]) -> str:
    """One table."""
    lines = [f"| {library} | rltrain |", "| --- | --- |"]
    for row in rows:
        theirs = ", ".join(f"`{name}`" for name in row.theirs.split())
        lines.append(f"| {theirs} | {cell(row)} |")
    return "\n".join(lines) + "\n"


def written(page: str, text: str) -> str:
    """A page with the table below each of its generated headings replaced."""
    for library in PAGES[page]:
        for title, rows in tables()[library].items():
            pattern = rf"(^## {re.escape(title)}\n(?:(?!##|\|).*\n)*)(?:\|.*\n)+"
            parts = re.split(pattern, text, flags=re.MULTILINE)
            assert len(parts) == 3, f"{page}: expected one table below '## {title}'"
            text = parts[0] + parts[1] + table(library, rows) + parts[2]
    return text


def plain(text: str, row: Mapping[str, Any]) -> str:
    """A message of the table of combinations, N and names in place of values."""
    text = text.replace("{key}", str(row.get("key")))
    text = re.sub(r"\{\w+!t\}", "NAME", text)
    return re.sub(r"\{[^}]*\}", "N", text).replace("<", "&lt;").replace("|", "\\|")


def refused() -> str:
    """The page about combinations."""
    lines = [
        "# Combinations",
        "",
        "`python docs/tables.py` writes this page from `rltrain/config/combinations.yaml`, which",
        "defines errors, warnings and suggestions. N and NAME stand for values of a run.",
        "",
        "## Options that work together",
        "",
        "If you type only one option, the other one is replaced by the first that works with it.",
        "",
        "| | with |",
        "| --- | --- |",
    ]
    for row in together():
        sides = [f"`{group}` = {', '.join(names)}" for group, names in row.items()]
        lines.append(f"| {' | '.join(sides)} |")
    for section, title in (("refused", "Errors"), ("warned", "Warnings")):
        lines += ["", f"## {title}", "", "| for | message | type instead |", "| --- | --- | --- |"]
        for stage, rows in combinations()[section].items():
            texts = dict.fromkeys((plain(r["why"], r), plain(r.get("type", ""), r)) for r in rows)
            lines += [f"| {stage} | {why} | {typed} |" for why, typed in texts]
    lines += ["", "## Keys without effect", "", "A run warns if you type one of these keys."]
    lines += ["", "| key | has no effect because |", "| --- | --- |"]
    for row in combinations()["unread"]:
        keys = ", ".join(f"`{key}`" for key in row["key"].split())
        lines.append(f"| {keys} | {plain(row['why'], row)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    (Path(__file__).parent / "combinations.md").write_text(refused(), encoding="utf-8")
    for page in PAGES:
        path = Path(__file__).parent / page
        path.write_text(written(page, path.read_text(encoding="utf-8")), encoding="utf-8")
