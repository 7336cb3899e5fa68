"""How far a running job is, read from its ``metrics.jsonl``."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rltrain.common.files import open_plain
from rltrain.common.json_lines import json_object_of
from rltrain.logger.jsonl import row_of


@dataclass
class Progress:
    """Reads what a job has written since the last time.

    Attributes:
        total_env_steps: where the run ends.
        latest: the last value of every metric, and of the clock.
    """

    path: Path
    total_env_steps: int
    offset: int = 0
    latest: dict[str, Any] = field(default_factory=dict)
    begun: float = field(default_factory=time.monotonic)
    points: list[tuple[float, int]] = field(default_factory=list)  # seconds, env steps of rows

    WINDOW = 20  # rows over which the speed is measured

    def update(self) -> None:
        """Read the new rows; a resumed run may have cut off old ones."""
        size = self.path.stat().st_size if self.path.exists() else 0
        if size < self.offset:
            self.offset, self.points = 0, []
        if size == self.offset:
            return
        with open_plain(self.path) as file:
            file.seek(self.offset)
            whole = file.read().rpartition(b"\n")[0]
        self.offset += len(whole) + 1 if whole else 0
        for line in whole.splitlines():
            row = row_of(json_object_of(line))
            if row is None:
                continue
            self.latest |= {name: value for name, value in row.items() if value is not None}
            self.points.append((row.get("seconds") or 0.0, row["env_steps"]))
        del self.points[: -self.WINDOW]

    @property
    def share(self) -> float:
        """How much of the run is done, 0 to 1."""
        return min(1.0, self.latest.get("env_steps", 0) / max(1, self.total_env_steps))

    @property
    def left(self) -> float | None:
        """Seconds to go; None where nothing is known yet."""
        if len(self.points) < 2:
            return None
        (then, first), (now, last) = self.points[0], self.points[-1]
        if last <= first or now <= then:
            return None
        return max(0, self.total_env_steps - last) / (last - first) * (now - then)

    @property
    def seconds(self) -> float:
        """Seconds since this process began the job."""
        return time.monotonic() - self.begun


def left_of_sweep(
    running: list[float | None], durations: list[float], n_waiting: int, at_once: int
) -> float | None:
    """Seconds until the last job has ended; None where nothing is known yet.

    Args:
        running: seconds to go of each running job.
        durations: of jobs, as far as they are known.
    """
    known = [left for left in running if left is not None]
    if not known and not durations:
        return None
    usual = sum(durations) / len(durations) if durations else max(known)
    lefts = [usual if left is None else left for left in running]
    work = sum(lefts) + n_waiting * usual
    return max([work / max(1, at_once), *lefts])
