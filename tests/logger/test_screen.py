"""Markup in what is printed is text, wherever it stands."""

from __future__ import annotations

import io

import pytest
from rich.columns import Columns
from rich.console import Group
from rich.panel import Panel
from rich.table import Column, Table
from rich.text import Text

from rltrain.logger.screen import Screen
from rltrain.mode.messages.banner import facts_panel

TEXT = "a[/b] [red]c :smile: [@click=x]d[/]"


def table(**options):
    out = Table(options.pop("header", "x" * 99), **options)
    out.add_row(options.get("title", "x"))
    return out


@pytest.mark.parametrize(
    "shown",
    [
        TEXT,
        table(title=TEXT),
        table(caption=TEXT),
        table(header=TEXT),
        Table(Column(TEXT, footer=TEXT), show_footer=True),
        Panel(TEXT),
        Panel("x", title=Text(TEXT)),
        Group(TEXT, TEXT),
        Columns([TEXT]),
        facts_panel(TEXT, {TEXT: TEXT}),
    ],
    ids=lambda shown: type(shown).__name__,
)
def test_markup_is_shown_as_it_is(shown):
    out = io.StringIO()
    Screen(file=out, width=200).print(shown)
    assert TEXT in out.getvalue()
