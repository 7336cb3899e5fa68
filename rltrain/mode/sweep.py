"""A sweep before and after its jobs: folders, the closing table, the exit code."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from rltrain.config.schema import Settings
from rltrain.errors import UsageError
from rltrain.mode.run_folder import read_record, require_writable

INTERRUPTED = 130


def new_sweep_dir() -> Path:
    """``outputs/multirun/<date>_<time>-<4 hex>``."""
    now = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    return Path.cwd() / "outputs" / "multirun" / f"{now}-{secrets.token_hex(2)}"


def require_new(folder: Path) -> None:
    """Refuse a folder that holds the runs of another sweep, or that cannot be made.

    Raises:
        UsageError: what to type instead.
    """
    if any(folder.glob("*/run.json")):
        raise UsageError(
            f"{folder} already holds runs of a sweep. Choose another hydra.sweep.dir, or leave it "
            "out for a new folder below outputs/multirun."
        )
    require_writable(folder)


def require_own_datasets(settings: Sequence[Settings]) -> None:
    """Every job of a sweep writes a dataset of its own.

    Raises:
        UsageError: two would write into one folder.
    """
    folders = [s.run.dataset.write for s in settings if s.run.dataset.write is not None]
    if len(set(folders)) < len(folders):
        raise UsageError(
            f"dataset.write={folders[0]}: {len(folders)} jobs cannot write into one folder. Sweep "
            "over the folders too, or record them one by one."
        )


def summarize(folder: Path, n_jobs: int) -> int:
    """Print a table of the sweep's jobs; returns the sweep's exit code."""
    table = Table(title=f"Sweep in {folder}")
    for column in ("job", "status", "env steps", "last test return", "win rate"):
        table.add_column(column, justify="left" if column in ("job", "status") else "right")
    codes = []
    folders = [p for p in folder.glob("*") if p.name.partition("_")[0].isdigit()]
    for job in sorted(folders, key=lambda p: int(p.name.partition("_")[0])):
        record = read_record(job / "run.json")
        codes.append(int(record.get("exit_code", 1)))
        test = record.get("final_test") or {}
        win = test.get("test/win_rate")
        table.add_row(
            job.name,
            str(record.get("status", "not started")),
            f"{record.get('env_steps', 0):,}",
            f"{test['test/return_mean']:.2f}" if "test/return_mean" in test else "",
            "" if win is None else f"{win:.0%}",
        )
    console = Console(highlight=False)
    console.print(table)
    if len(codes) < n_jobs:
        console.print(f"{n_jobs - len(codes)} of {n_jobs} jobs were not started.")
        codes.append(INTERRUPTED)
    return worst(codes)


def worst(codes: Sequence[int]) -> int:
    """The exit code of a sweep: that of a failed job (1 … 5) before that of an interrupted one."""
    return max((code for code in codes if 1 <= code <= 5), default=max(codes))
