"""HTML pages of one file, which load nothing else: their common style, and how they are filled."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files


def filled(package: str, name: str, fields: Mapping[str, str]) -> str:
    """The template ``NAME.html`` of a package with its fields ``[[name]]``, which are HTML; in
    ``css`` the style that all pages have, and that of ``NAME.css``.
    """
    text = files(package).joinpath(f"{name}.html").read_text(encoding="utf-8")
    styles = files(__package__).joinpath("base.css"), files(package).joinpath(f"{name}.css")
    values = {**fields, "css": "".join(style.read_text(encoding="utf-8") for style in styles)}
    pieces = [piece.partition("]]") for piece in text.split("[[")]
    return pieces[0][0] + "".join(values[name] + rest for name, _, rest in pieces[1:])
