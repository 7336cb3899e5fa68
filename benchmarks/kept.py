"""Compressed metrics of finished runs in benchmarks/data: a record, then the rows."""

from __future__ import annotations

import json
import lzma
import re
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.runs import evaluation_of, folders, record_of
from benchmarks.tasks import TASKS
from rltrain.hardware.device import machine
from rltrain.logger.metric_files import read_rows
from rltrain.report.readers import sacred

DATA = Path(__file__).parent / "data"
RECORDED = (
    "version", "git_commit", "git_dirty", "machine", "env_steps", "updates", "seconds",
    "cpu_seconds", "peak_memory_bytes", "environment", "plan",
)  # fmt: skip
"""Fields of run.json kept with the metrics."""
PEER = "-epymarl"
"""Suffix of the task in names of runs of EPyMARL's own code."""


def keep(source: Path) -> None:
    """Copy the metrics of all finished runs below a folder, compressed, after their record."""
    DATA.mkdir(exist_ok=True)
    names = [name for group in TASKS.values() for name in group]
    for name in names:
        for folder in folders(source, name):
            record = record_of(folder)
            if record.get("status") == "finished":
                head = {key: record.get(key) for key in RECORDED}
                head["absolute"] = evaluation_of(folder)
                rows = read_rows(folder / "metrics.jsonl")
                write(DATA / f"{folder.name}.jsonl.xz", [{"run": head}, *rows])
    for path in sorted(source.rglob("config.json")):
        config = json.loads(path.read_text(encoding="utf-8"))
        called = Path(config.get("local_results_path", "")).name
        if re.sub(rf"{PEER}-s\d+$", "", called) in names:
            keep_peer(path.parent, called)


def keep_peer(folder: Path, called: str) -> None:
    """Copy the metrics of a run of EPyMARL on this machine, under the names that they have here, if
    it has finished.
    """
    files = {path.name for path in folder.iterdir()}
    run = sacred.read(folder, files)
    if run is None or run.status != "finished":
        return
    about = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    lines = [
        {name: x for name, x in zip(run.columns, row, strict=True) if np.isfinite(x)}
        for row in zip(*(values.tolist() for values in run.columns.values()), strict=True)
    ]
    head = {
        "library": "EPyMARL",
        "git_commit": about["experiment"]["repositories"][0]["commit"],
        "machine": machine(),
        "env_steps": int(run.columns["env_steps"].max()),
        "seconds": sacred.moment(about["stop_time"]) - sacred.moment(about["start_time"]),
    }
    write(DATA / f"{called}.jsonl.xz", [{"run": head}, *lines])


def write(path: Path, lines: list[dict[str, Any]]) -> None:
    """One JSON object per line; the same lines give the same bytes."""
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    path.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    print(path.relative_to(DATA.parent.parent))


def files(name: str) -> dict[str, Path]:
    """The file of every kept run of a task, by seed."""
    found = {
        path.name.removeprefix(f"{name}-s").removesuffix(".jsonl.xz"): path
        for path in DATA.glob(f"{name}-s[0-9]*.jsonl.xz")
    }
    return dict(sorted(found.items(), key=lambda item: int(item[0])))


def records(name: str) -> dict[str, dict[str, Any]]:
    """The record of every kept run of a task, by seed."""
    found = {}
    for seed, path in files(name).items():
        with lzma.open(path, "rt", encoding="utf-8") as lines:
            found[seed] = json.loads(next(lines))["run"]
    return found


def kept(name: str, metric: str = "") -> dict[str, list[dict[str, Any]]]:
    """The lines of every kept run of a task, by seed; the first is the record.

    Args:
        metric: of the rows only those that have it.
    """
    found = {}
    for seed, path in files(name).items():
        head, *lines = lzma.decompress(path.read_bytes()).decode().splitlines()
        found[seed] = [json.loads(line) for line in (head, *(x for x in lines if metric in x))]
    return found
