"""The console that everything is printed to, and how durations, counts and paths are written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from rich.console import Console as RichConsole
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment

from rltrain.common.machine.streams import Lenient
from rltrain.errors import printable


class Screen(RichConsole):
    """A console that nothing fails to be printed on: where its output is closed, full or gone,
    what is printed is lost. Markup, emoji codes and control characters are shown as text.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def lines(self, *texts: str) -> None:
        """Print each text as a line of its own, however long."""
        for text in texts:
            self.print(text, soft_wrap=True)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """The lines of what is printed, with their styles."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text), style, control)

    @property
    def file(self) -> IO[str]:
        """Where to print."""
        lenient: Any = Lenient(super().file)
        return lenient

    @file.setter
    def file(self, new_file: IO[str]) -> None:
        self._file = new_file


def duration(seconds: float) -> str:
    """12 s, 3 min, 1 h 20 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def shown(path: Path) -> str:
    """A path, relative to the current folder if it is below."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def plural(n: int, noun: str) -> str:
    """1 agent, 3 agents, 2 processes."""
    ending = "" if n == 1 else "es" if noun.endswith("s") else "s"
    return f"{n:,} {noun}{ending}"
