"""Training runs that are left alone: two at a time, one thread each; finished ones are skipped,
interrupted ones resumed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

AT_ONCE = 2
COMMON = ("hardware.threads=1", "logger.wandb.mode=disabled")
"""What every run is given."""


def run_all(jobs: Iterable[tuple[Path, list[str]]]) -> None:
    """Train in these folders with these words, to the end."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda job: run(*job), jobs))


def run(folder: Path, words: list[str]) -> None:
    """Train to the end, from wherever the run stands, and print the command."""
    if record_of(folder).get("status") == "finished":
        return
    if (folder / "checkpoints" / "latest").exists():
        words = [f"resume={folder}"]
    else:
        words = [*words, *COMMON, f"hydra.run.dir={folder}"]
    print("rltrain", *words, flush=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.txt").open("a", encoding="utf-8") as out:
        command = [sys.executable, "-m", "rltrain", *words]
        subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False)


def record_of(folder: Path) -> dict[str, Any]:
    """What run.json says; nothing before there is one."""
    path = folder / "run.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def folders(output: Path, name: str) -> list[Path]:
    """The runs of all seeds, ``name``-s1 first."""
    return sorted(output.glob(f"{name}-s[0-9]*/"), key=lambda folder: int(seed_of(folder)))


def seed_of(folder: Path) -> str:
    return folder.name.rpartition("-s")[2]


def seeds(text: str) -> range:
    """``3`` or ``1-5``."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)
