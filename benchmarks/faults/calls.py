"""One failing system call at each file change of a run: an input or output error, a full disk, a
missing permission.

Training continues or does not begin, no traceback is shown, the newest checkpoint is complete, and
the run, resumed if it ended early, has the weights and the replay of a run without faults.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.faults.cuts import RUN, Cut
from benchmarks.faults.disks import unclear
from benchmarks.faults.runs import begin, last_lines, result_of, warm_up
from rltrain.common import checkpoint
from rltrain.errors import CheckpointError

ERRORS = ("EIO", "ENOSPC", "EACCES")


class Failure(Cut):
    """Lets one change of a file fail."""

    def __init__(self, folder: Path, at: int, error: str) -> None:
        super().__init__(folder, at)
        self.code = getattr(errno, error)

    def act(self, path: str, arguments: tuple[Any, ...]) -> None:
        self.n, self.busy = self.n + 1, False
        raise OSError(self.code, os.strerror(self.code), path)


def cases(folder: Path, seed: int, n_cases: int | None) -> Iterator[tuple[str, str | None]]:
    """A failure of every change, or of so many of them."""
    rng = random.Random(seed)
    warm_up(folder)
    plain, listed = folder / "plain", folder / "changes.txt"
    hook = Cut(plain, None, listed=listed)
    begin([*RUN, f"hydra.run.dir={plain}"], folder / "plain.txt", hook).join()
    expected = result_of(plain)
    changes = list(enumerate(listed.read_text(encoding="utf-8").splitlines()))
    for at, change in changes if n_cases is None else rng.sample(changes, n_cases):
        error, run_dir = rng.choice(ERRORS), folder / "run"
        yield f"{error} at {at}: {change}", failing(run_dir, at, error, expected)
        shutil.rmtree(run_dir, ignore_errors=True)
        run_dir.with_suffix(".txt").unlink()


def failing(run_dir: Path, at: int, error: str, expected: dict[str, str]) -> str | None:
    """What is wrong with a run in which a change fails; or None."""
    output = run_dir.with_suffix(".txt")
    process = begin([*RUN, f"hydra.run.dir={run_dir}"], output, Failure(run_dir, at, error))
    process.join()
    if problem := unclear(process.exitcode, output):
        return problem
    for step in checkpoint.list_steps(run_dir / "checkpoints")[:1]:  # of others, parts may be left
        try:
            checkpoint.single(run_dir / "checkpoints" / str(step))
        except CheckpointError as damage:
            return f"checkpoint {step} is not whole: {damage}"
    if process.exitcode == 2:
        return None
    if process.exitcode != 0:
        resumed = begin([f"resume={run_dir}"], output)
        resumed.join()
        if resumed.exitcode != 0:
            return f"the resumed run ends with {resumed.exitcode}: {last_lines(output)}"
    found = result_of(run_dir)
    differ = {k for k in expected | found if expected.get(k) != found.get(k)} - {"metrics.jsonl"}
    return f"{sorted(differ)} differ" if differ else None
