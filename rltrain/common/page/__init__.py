"""HTML pages of one file, which load nothing else: their common style, and how they are filled."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files


def filled(package: str, template: str, fields: Mapping[str, str]) -> str:
    """A template of a package with its fields ``[[name]]``.

    Args:
        fields: HTML; ``css`` is added to the style that all pages have.
    """
    text = files(package).joinpath(template).read_text(encoding="utf-8")
    base = files(__package__).joinpath("base.css").read_text(encoding="utf-8")
    values = {**fields, "css": base + fields["css"]}
    pieces = [piece.partition("]]") for piece in text.split("[[")]
    return pieces[0][0] + "".join(values[name] + rest for name, _, rest in pieces[1:])
