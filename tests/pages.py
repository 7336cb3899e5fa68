"""Pages of the documentation as tests read them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def read_page(path: Path) -> str:
    """The text of a page, every command on one line."""
    return path.read_text(encoding="utf-8").replace(" \\\n    ", " ")


def blocks(name: str, language: str) -> list[str]:
    """The examples of a page of docs/ in a language, as they are pasted."""
    text = (DOCS / name).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def prose(path: Path | str) -> str:
    """The text of a page, whose name is that below docs/, without its examples."""
    return re.sub(r"```.*?```", "", (DOCS / path).read_text(encoding="utf-8"), flags=re.DOTALL)
