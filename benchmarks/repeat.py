"""Repeat a kept run at its commit and compare the metrics."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.kept import kept
from benchmarks.runs import COMMON
from benchmarks.tasks import task
from rltrain.hardware.device import machine
from rltrain.logger.metric_files import read_rows

Rows = Sequence[Mapping[str, Any]]
OF_TIME = ("seconds", "time/")
"""Prefixes of metrics that depend on the machine's speed."""


def repeat(row: str) -> str:
    """Train a run such as ``lbf-vdn-s2`` again, in a worktree of its commit below outputs/repeats,
    and report whether the metrics are the same.

    Raises:
        SystemExit: there is no such run, or its metrics differ.
    """
    name, _, seed = row.rpartition("-s")
    runs = kept(name)
    if seed not in runs:
        sys.exit(f"There is no kept run '{row}': expected TASK-sSEED, such as lbf-vdn-s2.")
    record, *rows = runs[seed]
    about = record["run"]
    place = Path("outputs/repeats").absolute()
    tree, folder = place / about["git_commit"][:12], place / row
    if folder.exists():
        sys.exit(f"{folder} is there already: remove it to repeat the run.")
    if not tree.exists():
        add = ["git", "worktree", "add", "--detach", str(tree), about["git_commit"]]
        subprocess.run(add, check=True)
    words = [*task(name).overrides.split(), f"seed={seed}", *COMMON, f"hydra.run.dir={folder}"]
    print("rltrain", *words, f"(at {about['git_commit'][:12]})", flush=True)
    env = os.environ | {"PYTHONPATH": str(tree)}
    subprocess.run([sys.executable, "-m", "rltrain", *words], cwd=tree, env=env, check=True)
    found = difference(rows, list(read_rows(folder / "metrics.jsonl")))
    if found is None:
        return f"{row}: {len(rows):,} rows of metrics, all equal but for times."
    here, there = machine()["cpu"], about["machine"]["cpu"]
    cpus = "" if here == there else f" The kept run was made on {there}, this one on {here}."
    sys.exit(f"{row}: {found}.{cpus}")


def difference(kept_rows: Rows, rows: Rows) -> str | None:
    """The first difference that is none of time; None if there is none."""
    for number, (old, new) in enumerate(zip(kept_rows, rows, strict=False), 1):
        for name in sorted({*old, *new}):
            if not name.startswith(OF_TIME) and old.get(name) != new.get(name):
                return f"row {number}: {name} was {old.get(name)} and is {new.get(name)}"
    if len(kept_rows) != len(rows):
        return f"{len(kept_rows)} rows were kept, and there are {len(rows)}"
    return None
