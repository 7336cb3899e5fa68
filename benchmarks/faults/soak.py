"""Long runs: memory, file descriptors, threads, child processes, shared memory and the CPU time per
step stay constant once the replay is full.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.faults.runs import QUIET, last_lines
from benchmarks.faults.signals import run
from rltrain.callback import Callback
from rltrain.logger import curve

COMMON = [
    "logger=[csv,wandb]",
    "save.interval=10000",
    "callbacks=[{_target_: benchmarks.faults.soak.Samples}]",
    *QUIET,
]
CARTPOLE = ["algo=dqn", "env=cartpole", "buffer.capacity=20000", "tuned=none", *COMMON]
RUNS = {
    "dqn": ["total_env_steps=300000", *CARTPOLE],
    "qmix": ["total_env_steps=150000", "algo=qmix", "env=smac", "buffer.capacity=200", *COMMON],
    "workers": [
        *("total_env_steps=200000", "hardware=process", "hardware.n_workers=2", *CARTPOLE),
    ],
}
"""Long enough that a single increase of a megabyte, from longer test episodes, is not a trend."""
SAMPLES = 60
"""Of a run, at equal distances."""
CONSTANT = ("file descriptors", "threads", "child processes", "shared memory")
MEGABYTES_PER_100_000 = 1.0
"""Allowed memory growth per 100,000 env steps and ten checkpoints."""
DRIFT = 0.2
"""Growth of the CPU time of a step that is allowed."""


class Samples(Callback):
    """Writes what a run uses to ``samples.jsonl``.

    Args:
        every: env steps between two samples; None for ``SAMPLES`` of them in the run.
    """

    def __init__(self, *, every: int | None = None) -> None:
        self.every, self.next = every, 0

    def on_train_start(self, trainer: Any, value: Any = None) -> Any:
        """Draw once: imports and fonts stay in the memory."""
        self.next = trainer.clock.env_steps
        row = {"env_steps": 0, "test/return_mean": 0.0}
        curve.save(trainer.run_dir / "learning_curve.png", [row], "")
        return value

    def on_iteration(self, trainer: Any, value: Any = None) -> Any:
        if trainer.clock.env_steps >= self.next:
            self.next += self.every or trainer.total_env_steps // SAMPLES
            own = psutil.Process()
            times = own.cpu_times()
            found = {
                "env_steps": trainer.clock.env_steps,
                "process": own.pid,
                "memory": own.memory_info().rss,
                "file descriptors": own.num_fds(),
                "threads": own.num_threads(),
                "child processes": len(own.children(recursive=True)),
                "shared memory": len(os.listdir("/dev/shm")),
                "cpu": times.user + times.system,
            }
            with (trainer.run_dir / "samples.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(found) + "\n")
        return value


def cases(folder: Path, seed: int, n_cases: int | None) -> Iterator[tuple[str, str | None]]:
    """What every run uses; of so many runs."""
    for name, words in list(RUNS.items())[:n_cases]:
        code = run([*words, f"seed={seed}"], folder / name)
        if code != 0:
            yield name, f"exit code {code}: {last_lines(folder / f'{name}.txt')}"
            continue
        lines = (folder / name / "samples.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        settled = rows[len(rows) // 3 :]
        slope = slope_of(settled, "memory") / 2**20 * 100_000
        grows = slope > MEGABYTES_PER_100_000
        yield f"{name}: memory", f"{slope:.2f} MB per 100,000 env steps" if grows else None
        print(f"{name}: {slope:.2f} MB per 100,000 env steps", flush=True)
        for key in CONSTANT:
            seen = sorted({row[key] for row in settled})
            yield f"{name}: {key} {seen[0]}", f"{seen}" if len(seen) > 1 else None
        half = len(settled) // 2
        early, late = slope_of(settled[:half], "cpu"), slope_of(settled[half:], "cpu")
        slower = f"{late / early - 1:+.0%}" if late > (1 + DRIFT) * early else None
        yield f"{name}: CPU time of a step", slower


def slope_of(rows: list[dict[str, Any]], key: str) -> float:
    """Growth per env step."""
    steps, values = ([row[name] for row in rows] for name in ("env_steps", key))
    return float(np.polyfit(steps, values, 1)[0])
