"""Make the README's picture of a run, docs/training.svg: ``python -m benchmarks.display``

Runs ``rltrain env=cartpole`` and keeps its display after three fifths of the run.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from contextlib import chdir
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

from rltrain import main as entry
from rltrain.logger.live import LivePanel
from rltrain.logger.screen import Screen
from rltrain.mode import train

FILE = Path(__file__).parents[1] / "docs" / "training.svg"
WIDTH, SHARE = 100, 0.6


class Page(Screen):
    """A terminal that records its output."""

    def __init__(self, **options: Any) -> None:
        super().__init__(force_terminal=True, width=WIDTH, file=StringIO(), **options)
        self.printed: list[Any] = []

    def print(self, *objects: Any, **options: Any) -> None:
        self.printed += objects
        super().print(*objects, **options)


def picture(overrides: Sequence[str]) -> str:
    """The display of a run as SVG."""
    pictures: list[str] = []

    class Kept(LivePanel):
        def redraw(self) -> None:
            super().redraw()
            self.keep()

        def close(self) -> None:
            self.keep()
            super().close()

        def keep(self) -> None:
            run, page = self.run, self.console
            if pictures or run is None or run.clock.env_steps < SHARE * run.total_env_steps:
                return
            assert isinstance(page, Page)
            drawn = Screen(record=True, width=WIDTH, file=StringIO())
            drawn.print(page.printed[0], self.panel(run))
            title = " ".join(["rltrain", *overrides])
            pictures.append(drawn.export_svg(title=title, unique_id="display"))

    with (
        patch.object(train, "Screen", Page),
        patch.object(train, "LivePanel", Kept),
        tempfile.TemporaryDirectory() as folder,
        chdir(folder),
    ):
        entry.run(overrides)
    return pictures[0]


if __name__ == "__main__":
    FILE.write_text(picture(sys.argv[1:] or ["env=cartpole"]), encoding="utf-8")
