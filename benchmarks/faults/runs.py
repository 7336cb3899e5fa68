"""Short runs for fault injection, and their comparison."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import IO, Any

from rltrain.common import checkpoint
from rltrain.common.files import digest
from rltrain.logger import curve
from rltrain.main import main, run

QUIET = ["hardware.threads=1", "logger.console=false", "logger.wandb.mode=disabled"]
SMALL = [
    "env=two_step",
    "total_env_steps=200",
    "test.interval=50",
    "test.episodes=4",
    "test.n_envs=2",
    "save.interval=50",
    "save.keep_last=3",
    "log.interval=25",
    "algo.batch_size=8",
    "buffer.capacity=64",
    "algo.exploration.env_steps=75",
    "hardware.n_envs=3",
    *QUIET,
]
"""A run of less than a second, with three checkpoints."""
CLOCKS = ("seconds", "time/")
"""Metrics that differ between identical runs."""


FORK = multiprocessing.get_context("fork")


class EmptyFigure:
    """Writes an empty learning curve: drawing takes longer than a short run."""

    def savefig(self, file: IO[bytes], **options: Any) -> None:
        file.write(b"")


def warm_up(folder: Path) -> None:
    """Import and compile what a run needs, so that forked commands start at once."""
    curve.make_figure = lambda lines, title: EmptyFigure()
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        assert run([*SMALL, "hydra.run.dir=warm"]) == 0


def begin(
    words: Sequence[str], output: Path, hook: Callable[[str, tuple[Any, ...]], None] | None = None
) -> ForkProcess:
    """A command in a fork of this process, which has imported everything already.

    Args:
        output: file that gets what it prints.
        hook: audit hook of that process.
    """
    process = FORK.Process(target=command, args=(words, output, hook))
    process.start()
    return process


def command(
    words: Sequence[str], output: Path, hook: Callable[[str, tuple[Any, ...]], None] | None
) -> None:
    """The command ``rltrain``, in a process of its own; ends it with the exit code."""
    with output.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    if hook is not None:
        sys.addaudithook(hook)
    sys.argv = ["rltrain", *words]
    main()


def last_lines(output: Path, n: int = 5) -> str:
    """The end of what a command printed, as one line."""
    return " ".join(output.read_text(encoding="utf-8").splitlines()[-n:])


def digests(folder: Path) -> dict[str, str]:
    """The SHA-256 sums of all files of a folder."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): digest(path) for path in files}


def result_of(run_dir: Path) -> dict[str, str]:
    """The sums of what equal runs have in common: weights, replay and all other state of the last
    checkpoint, and the metrics but for wall times.
    """
    (latest,) = (run_dir / "checkpoints/latest").read_text(encoding="utf-8").split()
    folder = run_dir / "checkpoints" / latest
    arrays = [p for p in sorted(folder.iterdir()) if p.suffix in (".safetensors", ".npy")]
    found = {path.name: digest(path) for path in arrays}
    if (run_dir / "replay").is_dir():  # places of steps may differ, their checksums may not
        sums = checkpoint.read(folder, checkpoint.REPLAY)["disk"]["sums"]
        found["replay.safetensors"] = hashlib.sha256(sums.tobytes()).hexdigest()
    lines = (run_dir / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.dumps(without_clocks(json.loads(line)), sort_keys=True) for line in lines]
    found["metrics.jsonl"] = hashlib.sha256("\n".join(rows).encode()).hexdigest()
    return found


def without_clocks(row: dict[str, Any]) -> dict[str, Any]:
    """A row of metrics without those that depend on the machine."""
    return {k: v for k, v in row.items() if not any(name in k for name in CLOCKS)}
