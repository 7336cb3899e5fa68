"""What a person sees while training: a live panel in a terminal, plain lines elsewhere."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping

from rich.console import Console as RichConsole
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from rltrain.types import Clock

log = logging.getLogger("rltrain")


class Screen(RichConsole):
    """A console that falls silent when nobody reads it any more: training goes on."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        silence_stdout()


def silence_stdout() -> None:
    """Let what is still written to a closed standard output go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


SHOWN = (
    ("test return", "test/return_mean", "{:.2f}"),
    ("test win rate", "test/win_rate", "{:.0%}"),
    ("train return", "train/return_mean", "{:.2f}"),
    ("train win rate", "train/win_rate", "{:.0%}"),
    ("episode length", "train/episode_length_mean", "{:.1f}"),
    ("epsilon", "train/epsilon", "{:.3f}"),
    ("loss", "learn/loss", "{:.4f}"),
    ("env steps / s", "time/env_steps_per_s", "{:,.0f}"),
    ("updates / s", "time/updates_per_s", "{:.1f}"),
)


class Console:
    """What a person sees while training: a live panel in a terminal, plain lines elsewhere."""

    def __init__(self, total_env_steps: int, console: RichConsole | None = None) -> None:
        self.console = console or Screen(highlight=False)
        self.total, self.values = total_env_steps, dict[str, float]()
        self.first: tuple[int, float] | None = None
        self.live: Live | None = None
        self.progress = Progress(
            TextColumn("{task.completed:>11,.0f} / {task.total:,.0f} env steps"),
            BarColumn(bar_width=None),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
            TextColumn("left {task.fields[left]}"),
            expand=True,
        )
        self.task = self.progress.add_task("", total=total_env_steps, left="…")

    def write(self, clock: Clock, seconds: float, row: Mapping[str, float]) -> None:
        self.values.update(row)
        left = self.left(clock, seconds)
        if self.console.is_terminal:
            if self.live is None:
                self.live = Live(console=self.console, refresh_per_second=4, transient=True)
                self.live.start()
            self.progress.update(self.task, completed=clock.env_steps, left=left)
            self.live.update(self.panel())
        else:
            names = "test/" if any(k.startswith("test/") for k in row) else ""
            shown = [(n, k, f) for n, k, f in SHOWN if k in row and k.startswith(names)]
            text = "  ".join(f"{n} {f.format(row[k])}" for n, k, f in shown)
            line = f"{clock.env_steps:>9,} env steps  {text}  left {left}"
            self.console.print(line, soft_wrap=True)

    def left(self, clock: Clock, seconds: float) -> str:
        """The time to go, from this process's own pace."""
        if self.first is None or clock.env_steps < self.first[0]:
            self.first = (clock.env_steps, seconds)
        done, took = clock.env_steps - self.first[0], seconds - self.first[1]
        if done <= 0:
            return "…"
        todo = max(0, self.total - clock.env_steps)
        return duration(took / done * todo)

    def panel(self) -> Panel:
        table = Table.grid(padding=(0, 2), expand=True)
        shown = [(n, f.format(self.values[k])) for n, k, f in SHOWN if k in self.values]
        for start in range(0, len(shown), 3):
            cells = [f"[dim]{n}[/] [bold]{v}[/]" for n, v in shown[start : start + 3]]
            table.add_row(*cells, *[""] * (3 - len(cells)))
        outer = Table.grid(expand=True)
        outer.add_row(self.progress)
        outer.add_row(table)
        return Panel(outer, title="rltrain", border_style="cyan")

    def close(self) -> None:
        if self.live is not None:
            self.live.stop()
            self.console.print(self.panel())
            self.live = None


def duration(seconds: float) -> str:
    """12 s, 3 min, 1 h 20 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds // 3600:.0f} h {seconds % 3600 / 60:.0f} min"


def facts_panel(title: str, facts: Mapping[str, str]) -> Panel:
    """A banner: one line per fact."""
    table = Table.grid(padding=(0, 2))
    for name, value in facts.items():
        table.add_row(f"[dim]{name}[/]", escape(value))
    return Panel(table, title=title, border_style="cyan", expand=False)
