"""Where metrics go: JSON lines, the console, wandb. One row is the clock plus means by name.

To add one of its kind: a class with ``write(clock, seconds, row)`` and ``close()``.
"""

from __future__ import annotations

import json
import logging
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol, cast

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


class Logger(Protocol):
    def write(self, clock: Clock, seconds: float, row: Mapping[str, float]) -> None: ...
    def close(self) -> None: ...


class Loggers:
    """Several loggers; one that keeps failing is switched off, training goes on."""

    PATIENCE = 3

    def __init__(self, loggers: Sequence[Logger]) -> None:
        self.loggers: list[Logger] = []
        self.failures: list[int] = []  # in a row, of each logger
        for logger in loggers:
            self.add(logger)

    def add(self, logger: Logger) -> None:
        self.loggers.append(logger)
        self.failures.append(0)

    def write(self, clock: Clock, seconds: float, row: Mapping[str, float]) -> None:
        for i, logger in enumerate(self.loggers):
            if self.failures[i] >= self.PATIENCE:
                continue
            try:
                logger.write(clock, seconds, row)
                self.failures[i] = 0
            except Exception:
                self.failures[i] += 1
                off = ", which is now switched off" if self.failures[i] == self.PATIENCE else ""
                log.warning("%s could not write a row%s", type(logger).__name__, off, exc_info=True)

    def close(self) -> None:
        for logger in self.loggers:
            try:
                logger.close()
            except Exception:
                log.warning("%s could not be closed", type(logger).__name__, exc_info=True)

    def state_dict(self) -> dict[str, Any]:
        return {"offsets": [getattr(logger, "offset", None) for logger in self.loggers]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for logger, offset in zip(self.loggers, state["offsets"], strict=False):
            if offset is not None and isinstance(logger, JsonLines):
                logger.cut(offset)


def readable(row: Mapping[str, float]) -> dict[str, float | None]:
    """JSON knows no NaN and no infinity: they become null."""
    return {k: (v if math.isfinite(v) else None) for k, v in row.items()}


class JsonLines:
    """``metrics.jsonl``: one object per line, flushed; append-only but for ``cut``, which a resume
    calls.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def offset(self) -> int:
        """Bytes written so far."""
        return self.path.stat().st_size if self.path.exists() else 0

    def write(self, clock: Clock, seconds: float, row: Mapping[str, float]) -> None:
        line = {**asdict(clock), "seconds": round(seconds, 3), **readable(row)}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def cut(self, offset: int) -> None:
        """Drop what was written after a checkpoint."""
        if self.offset > offset:
            os.truncate(self.path, offset)

    def close(self) -> None:
        """Nothing is held open between rows."""


class TrainLog:
    """The rows in ``train.log``, beside messages and tracebacks."""

    def write(self, clock: Clock, seconds: float, row: Mapping[str, float]) -> None:
        numbers = ", ".join(f"{k} {v:.5g}" for k, v in row.items())
        log.info("env_steps %d updates %d: %s", clock.env_steps, clock.updates, numbers)

    def close(self) -> None:
        """The file belongs to the logging set-up."""


class Wandb:
    """Weights & Biases. Without a network or a key the run is recorded offline; training never
    waits for it.
    """

    TIMEOUT = 15

    def __init__(self, run_dir: Path, config: Mapping[str, Any], mode: str, **options: Any) -> None:
        import wandb

        if mode == "online" and not (os.environ.get("WANDB_API_KEY") or self.has_login()):
            log.warning("wandb: no API key, so this run is recorded offline (wandb sync sends it)")
            mode = "offline"
        settings = wandb.Settings(init_timeout=self.TIMEOUT, console="off", silent=True)
        start = {
            "dir": str(run_dir),
            "config": dict(config),
            "name": run_dir.name,
            "id": run_dir.name,
            "resume": "allow" if mode == "online" else None,
            "settings": settings,
            **options,
        }
        try:
            self.run = wandb.init(mode=cast(Any, mode), **start)
        except wandb.errors.CommError:
            log.warning("wandb: the server does not answer, so this run is recorded offline")
            self.run = wandb.init(mode="offline", **{**start, "resume": None})

    @staticmethod
    def has_login() -> bool:
        netrc = Path(os.environ.get("NETRC", "~/.netrc")).expanduser()
        return netrc.is_file() and "api.wandb.ai" in netrc.read_text(encoding="utf-8")

    def write(self, clock: Clock, seconds: float, row: Mapping[str, float]) -> None:
        self.run.log({**row, **asdict(clock), "seconds": seconds})

    def close(self) -> None:
        self.run.finish()


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
