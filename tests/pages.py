"""Pages of the documentation as tests read them."""

from pathlib import Path


def read_page(path: Path) -> str:
    """The text of a page, every command on one line."""
    return path.read_text(encoding="utf-8").replace(" \\\n    ", " ")
