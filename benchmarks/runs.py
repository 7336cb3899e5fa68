"""Unattended training runs: two at a time, one thread each; finished runs are skipped, interrupted
ones resumed.
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
"""Overrides of every run."""


def run_all(jobs: Iterable[tuple[Path, list[str]]]) -> None:
    """Train to the end in these folders with these overrides."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda job: run(*job), jobs))


def run(folder: Path, words: list[str]) -> None:
    """Train to the end, from wherever the run stands, and evaluate the best checkpoint."""
    if record_of(folder).get("status") != "finished":
        resumed = (folder / "checkpoints" / "latest").exists()
        command = [f"resume={folder}"] if resumed else [*words, f"hydra.run.dir={folder}"]
        rltrain(folder, *command, *(() if resumed else COMMON))
    if record_of(folder).get("status") == "finished" and not evaluation_of(folder):
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        episodes = f"test.episodes={10 * config['test']['episodes']}"
        rltrain(folder, "mode=evaluate", f"checkpoint={folder}", "load_step=best", episodes)


def rltrain(folder: Path, *words: str) -> None:
    """Print a command and run it; what it prints goes to a file beside the run."""
    print("rltrain", *words, flush=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.txt").open("a", encoding="utf-8") as out:
        command = [sys.executable, "-m", "rltrain", *words]
        subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False)


def record_of(folder: Path, name: str = "run.json") -> dict[str, Any]:
    """What run.json says; nothing before there is one."""
    path = folder / name
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def evaluation_of(folder: Path) -> dict[str, Any]:
    """The absolute metric (Gorsane et al., 2022): tests of the best checkpoint in ten times the
    episodes; nothing before it was measured.
    """
    return record_of(folder, "evaluation.json").get("metrics", {})


def folders(output: Path, name: str) -> list[Path]:
    """The runs of all seeds, ``name``-s1 first."""
    return sorted(output.glob(f"{name}-s[0-9]*/"), key=lambda folder: int(seed_of(folder)))


def seed_of(folder: Path) -> str:
    return folder.name.rpartition("-s")[2]


def seeds(text: str) -> range:
    """``3`` or ``1-5``."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)
