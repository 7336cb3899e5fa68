"""Live panel in a terminal while training, redrawn by a thread."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Mapping, Sequence

from rich.cells import cell_len
from rich.console import Console as RichConsole
from rich.console import Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Column, Table
from rich.text import Text

from rltrain.logger.loggers import Logger
from rltrain.logger.screen import Pace, RunProgress, activity, pace_words, shown_metrics
from rltrain.types import Clock

log = logging.getLogger("rltrain")


class LivePanel(Logger):
    """A panel that a thread redraws twice a second."""

    INTERVAL = 0.5  # seconds

    def __init__(self, console: RichConsole, title: str = "rltrain") -> None:
        self.console, self.title, self.pace = console, title, Pace()
        self.values: Mapping[str, float] = {}
        self.widths = [1, 1]  # of the widest metric so far: rltrain's own, added ones
        self.run: RunProgress | None = None
        self.closed = threading.Event()
        self.thread = threading.Thread(target=self.redraw, name="display", daemon=True)
        self.live = Live(
            console=console,
            auto_refresh=False,
            transient=True,
            vertical_overflow="crop",
            redirect_stderr=sys.stderr is not None and sys.stderr.isatty(),
        )

    def follow(self, run: RunProgress) -> None:
        """Show the panel of this run until ``close``."""
        self.run = run
        self.live.start()
        self.thread.start()

    def write(self, clock: Clock, seconds: float, row: Mapping[str, float]) -> None:
        self.values = {**self.values, **row}

    def redraw(self) -> None:
        """Run by the thread: draw the current state. The empty line below the panel takes the
        ``^C`` that a terminal writes where its cursor is. An exception ends the display, not the
        run.
        """
        try:
            while self.run is not None:
                self.pace.observe(self.run)
                self.live.update(Group(self.panel(self.run), Text()), refresh=True)
                if self.closed.wait(self.INTERVAL):
                    return
        except Exception:
            log.warning("the live display stopped", exc_info=True)

    def panel(self, run: RunProgress) -> Panel:
        """Steps done, what happens now, and the metrics."""
        width, now = self.console.width - 4, Text()
        done, total = run.clock.env_steps, run.total_env_steps
        steps, share = Column(no_wrap=True), Column(no_wrap=True, justify="right")
        bar = Table.grid(steps, Column(ratio=1), share, padding=(0, 1), expand=True)
        bar.add_row(
            Text.assemble((f"{done:,}", "bold"), f" / {total:,} env steps"),
            ProgressBar(total=max(total, 1), completed=min(done, total)),
            f"{min(1.0, done / max(total, 1)):.0%}",
        )
        speed, left = pace_words(self.pace, run)
        if not self.closed.is_set():
            goes_on = run.stopping is None
            state, whole = self.state(run), int(run.seconds)
            passed = f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
            state += f", {speed}" if speed and goes_on and activity(run) is None else ""
            passed += f", {left}" if left and goes_on else ""
            now = Text(state, "cyan", no_wrap=True)
            now.truncate(max(1, width - len(passed) - 1), overflow="ellipsis", pad=True)
            now.append(f" {passed}", "default")
        metrics = enumerate(shown_metrics(self.values))
        grids = [self.grid(group, some, width) for group, some in metrics if some]
        return Panel(
            Group(bar, *([now] if now else []), *grids),
            title=Text(self.title),
            title_align="left",
            border_style="cyan",
        )

    def grid(self, group: int, pairs: Sequence[tuple[str, str]], width: int) -> Table:
        """Metrics in as many columns as fit; they only get wider, so that nothing jumps."""
        sizes = [cell_len(name) + cell_len(value) + 3 for name, value in pairs]
        self.widths[group] = max([self.widths[group], *sizes])
        n_columns = max(1, min(4, width // self.widths[group]))
        columns = (Column(width=width // n_columns, no_wrap=True) for _ in range(n_columns))
        cells = [Text.assemble((name, "dim"), " ", (value, "bold")) for name, value in pairs]
        table = Table.grid(*columns)
        for start in range(0, len(cells), n_columns):
            table.add_row(*cells[start : start + n_columns])
        return table

    def state(self, run: RunProgress) -> str:
        """The current activity of the run, in a word or two."""
        now = activity(run)
        if now is not None:
            return str(now)
        if run.stopping is not None:
            return "stopping"
        return "learning" if run.clock.updates else "collecting, not learning yet"

    def close(self) -> None:
        """Leave the last panel where it was."""
        if self.thread.ident is None:
            return
        self.closed.set()
        self.thread.join()
        self.live.stop()
        if self.run is not None:
            self.console.print(self.panel(self.run))
