"""A run of two hours that is killed every ten minutes and resumed: it finishes, and its resources
and CPU time per step stay constant over all its processes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.faults.runs import QUIET, last_lines
from benchmarks.faults.soak import CARTPOLE, CONSTANT, DRIFT, MEGABYTES_PER_100_000, slope_of

ROOT = Path(__file__).parents[2]
KILLS = 11
MINUTES = 10.0
"""Time between kills."""
EVERY = 1000
"""Env steps between samples."""
OWN = tuple(key for key in CONSTANT if key != "shared memory")
"""Quantities that other programs on the machine do not affect."""
OTHERS = ("callbacks=", "buffer.capacity=", "save.interval=")
RUN = [
    *(word for word in CARTPOLE if not word.startswith(OTHERS)),
    "buffer.capacity=5000",  # full when each of the processes has warmed up
    "save.interval=5000",
    f"callbacks=[{{_target_: benchmarks.faults.soak.Samples, every: {EVERY}}}]",
    "test.interval=100000",  # its episodes get longer as the policy learns
    "total_env_steps=1000000000",
    *QUIET,
]


def cases(folder: Path, seed: int, n_cases: int | None) -> Iterator[tuple[str, str | None]]:
    """So many kills, then the end of the run and what all its processes used."""
    run_dir, output = folder / "run", folder / "run.txt"
    words = [*RUN, f"seed={seed}", f"hydra.run.dir={run_dir}"]
    kills, saved = KILLS if n_cases is None else n_cases, 0
    for n in range(kills):
        code = leg(words, output, MINUTES)
        before, saved = saved, newest(run_dir)
        problem = None if code is None else f"exit code {code}: {last_lines(output)}"
        if saved <= before:
            problem = problem or f"no checkpoint since env step {before}"
        print(f"kill {n + 1}: checkpoint {saved:,}, {len(samples(run_dir))} samples", flush=True)
        yield f"kill {n + 1}", problem or disorder(run_dir)
        words = [f"resume={run_dir}", "trust=[benchmarks]"]
    code = leg([*words, f"total_env_steps={saved + saved // kills}"], output, None)
    record = json.loads((run_dir / "run.json").read_text(encoding="utf-8"))
    ended = code == 0 and record["status"] == "finished"
    yield "the end", disorder(run_dir) if ended else f"exit code {code}: {last_lines(output)}"
    yield from constancy([settled(rows) for rows in legs(run_dir)])


def leg(words: list[str], output: Path, minutes: float | None) -> int | None:
    """The command to its end, or a kill after so many minutes; its exit code, None if killed."""
    with output.open("ab") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "rltrain", *words], cwd=ROOT, stdout=file, stderr=file
        )
        try:
            return process.wait(None if minutes is None else 60 * minutes)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return None


def newest(run_dir: Path) -> int:
    """The env step of the newest checkpoint; 0 without one."""
    latest = run_dir / "checkpoints/latest"
    return int(latest.read_text(encoding="utf-8")) if latest.exists() else 0


def disorder(run_dir: Path) -> str | None:
    """What is wrong with the rows of metrics: each env step is there once, in order."""
    lines = (run_dir / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    trained = [row["env_steps"] for row in rows if "learn/loss" in row]
    return None if trained == sorted(set(trained)) else "rows of metrics are out of order or double"


def samples(run_dir: Path) -> list[dict[str, Any]]:
    """What was sampled of all processes."""
    lines = (run_dir / "samples.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def legs(run_dir: Path) -> list[list[dict[str, Any]]]:
    """The samples by process."""
    return [list(rows) for _, rows in groupby(samples(run_dir), lambda row: row["process"])]


def settled(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The samples after the warm-up."""
    return rows[len(rows) // 3 :]


def constancy(rows: list[list[dict[str, Any]]]) -> Iterator[tuple[str, str | None]]:
    """What should stay the same, given the settled samples of every process."""
    within = np.average([slope_of(r, "memory") for r in rows], weights=[span(r) for r in rows])
    middles = [
        {key: float(np.median([row[key] for row in r])) for key in ("env_steps", "memory")}
        for r in rows
    ]
    for where, slope in (("within", within), ("over", slope_of(middles, "memory"))):
        growth = slope / 2**20 * 100_000
        text = f"{growth:.2f} MB per 100,000 env steps"
        print(f"memory {where} processes: {text}", flush=True)
        yield f"memory {where} processes", text if growth > MEGABYTES_PER_100_000 else None
    for key in OWN:
        seen = sorted({row[key] for r in rows for row in r})
        yield f"{key} {seen[0]}", f"{seen}" if len(seen) > 1 else None
    costs = [slope_of(r, "cpu") for r in rows]
    print("CPU ms of a step:", *(f"{1000 * cost:.3f}" for cost in costs), flush=True)
    half = len(costs) // 2
    slower = np.median(costs[-half:]) / np.median(costs[:half]) - 1
    yield "CPU time of a step", f"{slower:+.0%}" if slower > DRIFT else None


def span(rows: list[dict[str, Any]]) -> float:
    """The weight of a slope: the squared deviations of its env steps."""
    return float(np.var([row["env_steps"] for row in rows]) * len(rows))
