"""The console that everything is printed to; how durations, counts, paths and metrics are written;
the speed of a run and the time that it has to go; and plain lines, without a live panel.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

from rich.console import Console as RichConsole
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment

from rltrain.common.machine.streams import Lenient
from rltrain.common.metrics import METRICS
from rltrain.common.progress import Activity, Progress, compiling
from rltrain.errors import printable
from rltrain.logger.loggers import Logger

if TYPE_CHECKING:
    from rltrain.types import Clock

SHOWN = (
    ("test/return_mean", "test return", "{:.2f}"),
    ("test/win_rate", "test win rate", "{:.0%}"),
    ("test/draw_rate", "test draw rate", "{:.0%}"),
    ("train/return_mean", "train return", "{:.2f}"),
    ("train/win_rate", "train win rate", "{:.0%}"),
    ("train/draw_rate", "train draw rate", "{:.0%}"),
    ("train/episode_length_mean", "episode length", "{:.1f}"),
    ("train/epsilon", "epsilon", "{:.3f}"),
    ("train/temperature", "temperature", "{:.3f}"),
    ("train/noise_stddev", "noise", "{:.3f}"),
    ("learn/loss", "loss", "{:.4f}"),
    ("offline/wis_return", "estimated return", "{:.2f}"),
    ("time/updates_per_s", "updates/s", "{:.1f}"),
)
"""Metrics of rltrain's own that are shown; the others are in ``metrics.jsonl`` only."""
WIN_RATE = "/win_rate/"
"""Followed by the name of an opponent."""


class Screen(RichConsole):
    """A console that nothing fails to be printed on: where its output is closed, full or gone,
    what is printed is lost. Markup, emoji codes and control characters are shown as text.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def print(self, *objects: Any, **options: Any) -> None:
        """What a quiet console would drop is not rendered either."""
        if not self.quiet:
            super().print(*objects, **options)

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


def shown_metrics(
    row: Mapping[str, float],
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Names and formatted values of a row's metrics: those of rltrain's own that are shown, and
    those that environments, opponents and callbacks add.
    """
    added = [
        (added_name(key), f"{row[key]:.0%}" if WIN_RATE in key else f"{row[key]:.4g}")
        for key in row
        if key not in METRICS
    ]
    return [(name, form.format(row[key])) for key, name, form in SHOWN if key in row], added


def added_name(key: str) -> str:
    """``test/game_return_mean``: "test game return"; ``custom/angle``: "angle";
    ``test/win_rate/closest``: "test win rate (closest)", an opponent's or a map's name.
    """
    if WIN_RATE in key:
        return key.replace(WIN_RATE, " win rate (", 1) + ")"
    return key.removeprefix("custom/").removesuffix("_mean").replace("/", " ").replace("_", " ")


class RunProgress(Protocol):
    """The members of a trainer that displays read, from other threads."""

    clock: Clock
    total_env_steps: int
    progress: Progress

    @property
    def stopping(self) -> str | None:
        """Why the run ends early."""

    @property
    def seconds(self) -> float:
        """Wall-clock seconds of this run, those before a resume included."""


def activity(run: RunProgress) -> Activity | None:
    """The current activity of a run besides learning."""
    return compiling.activity or run.progress.activity


@dataclass
class Pace:
    """Env steps per second over the last ``WINDOW`` seconds of collecting and learning.

    Seconds of tests, checkpoints and compilation do not count in the speed; the time to go adds
    their share. It is known only once learning has started: steps before it are faster.
    """

    WINDOW = 30.0  # seconds
    SHORTEST = 2.0  # seconds of learning before the time to go is known
    points: deque[tuple[float, int]] = field(default_factory=deque)  # learning seconds, env steps
    learning: bool = False
    begin: tuple[float, float] = (0.0, 0.0)  # seconds, learning seconds where learning began
    now: tuple[float, float] = (0.0, 0.0)

    def observe(self, run: RunProgress) -> None:
        """Record the current env steps and seconds."""
        clock, seconds = run.clock, run.seconds
        at = seconds - run.progress.seconds - compiling.seconds
        self.now = (seconds, at)
        if activity(run) is not None:
            return
        learning = clock.updates > 0
        if learning != self.learning or (self.points and at < self.points[-1][0]):
            self.points.clear()
            self.learning, self.begin = learning, self.now
        if not self.points or clock.env_steps != self.points[-1][1]:
            self.points.append((at, clock.env_steps))
        while len(self.points) > 2 and at - self.points[1][0] > self.WINDOW:
            self.points.popleft()

    @property
    def speed(self) -> float | None:
        """Env steps per second; None where nothing is known yet."""
        if len(self.points) < 2:
            return None
        (begin, first), (end, last) = self.points[0], self.points[-1]
        return (last - first) / (end - begin) if end > begin else None

    def left(self, run: RunProgress) -> float | None:
        """Seconds to go; None where nothing is known yet, or nothing is left."""
        speed, to_go = self.speed, run.total_env_steps - run.clock.env_steps
        seconds, learning = (now - begin for now, begin in zip(self.now, self.begin, strict=True))
        if not self.learning or not speed or learning < self.SHORTEST or to_go <= 0:
            return None
        return to_go / speed * max(1.0, seconds / learning)


class PlainLines(Logger):
    """A line for every row of metrics; those of tests begin with "test"."""

    def __init__(self, console: RichConsole, job: str | None = None) -> None:
        self.console, self.pace = console, Pace()
        self.prefix = f"[{job}] " if job else ""
        self.run: RunProgress | None = None

    def follow(self, run: RunProgress) -> None:
        """From now on lines have the run's total and the time to go."""
        self.run = run
        self.pace.observe(run)

    def write(self, clock: Clock, seconds: float, row: Mapping[str, float]) -> None:
        kind = "test" if any(key.startswith("test/") for key in row) else "train"
        steps, ends = f"{clock.env_steps:>9,}", ("", "")
        if self.run is not None:
            steps += f" / {self.run.total_env_steps:,}"
        if self.run is not None and kind == "train":
            self.pace.observe(self.run)
            ends = pace_words(self.pace, self.run)
        metrics = chain(*shown_metrics(row))
        pairs = [f"{name.removeprefix(kind + ' ')} {value}" for name, value in metrics]
        line = "  ".join([f"{kind:5} {steps} env steps", *pairs, *filter(None, ends)])
        self.console.print(self.prefix + line, soft_wrap=True)


def pace_words(pace: Pace, run: RunProgress) -> tuple[str, str]:
    """Speed and time to go; empty where they are not known yet."""
    speed, left = pace.speed, pace.left(run)
    return (
        "" if speed is None else f"{speed:,.0f} env steps/s",
        "" if left is None else f"{duration(left)} left",
    )
