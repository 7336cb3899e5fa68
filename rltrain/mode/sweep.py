"""A sweep before and after its jobs: folders, the closing table, the exit code."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from rltrain.common.files import require_writable
from rltrain.config.schema import Settings
from rltrain.errors import UsageError
from rltrain.mode.run_folder import read_record

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
    """Print a table of the sweep's jobs and why some failed; returns the sweep's exit code."""
    folders = [p for p in folder.glob("*") if p.name.partition("_")[0].isdigit()]
    folders.sort(key=lambda p: int(p.name.partition("_")[0]))
    records = {job.name: read_record(job / "run.json") for job in folders}
    tests = {name: record.get("final_test") or {} for name, record in records.items()}
    columns = {
        "last test return": ("test/return_mean", ".2f"),
        "win rate": ("test/win_rate", ".0%"),
    }
    shown = {c: at for c, at in columns.items() if any(at[0] in test for test in tests.values())}
    table = Table(title=f"Sweep in {folder}")
    for column in ("job", "status", "env steps", *shown):
        table.add_column(column, justify="left" if column in ("job", "status") else "right")
    for name, record in records.items():
        values = [
            format(tests[name][metric], form) if metric in tests[name] else ""
            for metric, form in shown.values()
        ]
        status = str(record.get("status", "not started"))
        table.add_row(name, status, f"{record.get('env_steps', 0):,}", *values)
    console = Console(highlight=False)
    console.print(table)
    for name, record in records.items():
        if record.get("error"):
            console.print(f"{name}: {record['error']}", markup=False)
    codes = [int(record.get("exit_code", 1)) for record in records.values()]
    if len(codes) < n_jobs:
        console.print(f"{n_jobs - len(codes)} of {n_jobs} jobs were not started.")
        codes.append(INTERRUPTED)
    return worst(codes)


def worst(codes: Sequence[int]) -> int:
    """The exit code of a sweep: that of a failed job (1 … 5) before that of an interrupted one."""
    return max((code for code in codes if 1 <= code <= 5), default=max(codes))
