"""What is shown of a sweep while it runs: a live table, or the lines of its jobs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Literal

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rltrain.logger.live import clock_time
from rltrain.logger.screen import duration, plural
from rltrain.mode.sweep.plan import Job
from rltrain.mode.sweep.progress import Progress, left_of_sweep

METRICS = {"return": ("return_mean", "{:.2f}"), "win rate": ("win_rate", "{:.0%}")}
"""Columns: the last value of tests, or else of training."""


class Lines:
    """Prints every line of every job, which begins with the job's name."""

    def __init__(self, screen: Console, errors: Console) -> None:
        self.screen, self.errors = screen, errors

    def begin(self, job: Job) -> None:
        """The job announces itself."""

    def end(self, job: Job) -> None:
        """The job's last line says so."""

    def line(self, job: Job, text: str, stream: Literal["stdout", "stderr"]) -> None:
        (self.screen if stream == "stdout" else self.errors).print(
            text, soft_wrap=True, markup=False
        )

    def note(self, text: str) -> None:
        self.errors.print(text, soft_wrap=True, markup=False)

    def refresh(self) -> None:
        """Nothing to redraw."""


class LiveTable(Lines):
    """A line per running job; above it, warnings and how the other jobs ended.

    Args:
        total_env_steps: of every job that is to run.
        n_jobs: of the sweep, those that had finished before included.
        at_once: jobs side by side.
    """

    def __init__(
        self, screen: Console, total_env_steps: Mapping[str, int], n_jobs: int, at_once: int
    ) -> None:
        super().__init__(screen, screen)
        self.total, self.n_jobs, self.at_once = total_env_steps, n_jobs, at_once
        self.running: dict[Job, Progress] = {}
        self.ended: dict[Job, str] = {}
        self.durations: list[float] = []
        self.shown: set[str] = set()  # messages, without the names of jobs
        self.begun = time.monotonic()
        self.live = Live(console=screen, auto_refresh=False, transient=True)

    def begin(self, job: Job) -> None:
        self.ended.pop(job, None)
        self.running[job] = Progress(job.folder / "metrics.jsonl", self.total[job.name])
        self.live.start()

    def end(self, job: Job) -> None:
        progress = self.running.pop(job)
        progress.update()
        status = self.ended[job] = str(job.record.get("status", "not started"))
        if status == "finished":
            self.durations.append(progress.seconds)
        values = [f"{name} {value}" for name, value in last_values(progress).items() if value]
        self.note(f"{job.name}: {', '.join([status, *values])}")
        if not self.running:
            self.live.stop()

    def line(self, job: Job, text: str, stream: Literal["stdout", "stderr"]) -> None:
        """Show messages; one that several jobs have, once. The table has the other lines."""
        message = text.removeprefix(f"[{job.name}] ")
        if stream == "stderr" and message.strip() and message not in self.shown:
            self.shown.add(message)
            self.note(text)

    def refresh(self) -> None:
        if self.running:
            self.live.update(self.table(), refresh=True)

    def table(self) -> Group:
        """The running jobs, and a line about all of them."""
        table = Table(box=None, pad_edge=False, padding=(0, 1))
        table.add_column("run", no_wrap=True, overflow="ellipsis")
        for column in ("", "done", *METRICS, "left"):
            table.add_column(column, justify="right", no_wrap=True)
        lefts = []
        for job, progress in self.running.items():
            progress.update()
            left = progress.left
            lefts.append(left)
            table.add_row(
                job.name,
                ProgressBar(total=1.0, completed=progress.share, width=16),
                f"{progress.share:.0%}" if progress.latest else "starting",
                *last_values(progress).values(),
                "" if left is None else duration(left),
            )
        return Group(table, Text(self.summary(lefts), "cyan"), Text())

    def summary(self, lefts: list[float | None]) -> str:
        """How many jobs there are in which state, and the time to go."""
        statuses = list(self.ended.values())
        finished = self.n_jobs - len(self.total) + statuses.count("finished")
        waiting = len(self.total) - len(self.ended) - len(self.running)
        durations = self.durations or [
            progress.seconds + left
            for progress, left in zip(self.running.values(), lefts, strict=True)
            if left is not None
        ]
        left = left_of_sweep(lefts, durations, waiting, self.at_once)
        words = [f"{finished} of {plural(self.n_jobs, 'run')} finished"]
        words += [f"{n} failed" for n in [statuses.count("failed")] if n]
        words += [f"{waiting} waiting"] if waiting else []
        words.append(clock_time(time.monotonic() - self.begun))
        words += [f"about {duration(left)} left"] if left is not None else []
        return ", ".join(words)


def last_values(progress: Progress) -> dict[str, str]:
    """The last return and win rate, of tests or else of training; empty where there is none."""
    shown = {}
    for column, (metric, form) in METRICS.items():
        found = [progress.latest.get(f"{kind}/{metric}") for kind in ("test", "train")]
        value = next((v for v in found if v is not None), None)
        shown[column] = "" if value is None else form.format(value)
    return shown
