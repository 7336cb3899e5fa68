"""Worker processes that are killed every 137 env steps, and environments that hang 20 times: the
run makes exactly the requested env steps, no stored transition joins two episodes,
``time/env_restarts`` counts the faults, and no process or shared memory is left over.

Each worker has one environment, which counts its faults in a file.
"""

from __future__ import annotations

import ctypes
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.faults.numbered import EVERY, FILE, HANGS, n_noted
from benchmarks.faults.runs import QUIET, last_lines, warm_up
from benchmarks.faults.signals import PR_SET_CHILD_SUBREAPER, left_over, run
from rltrain.callback import Callback
from rltrain.types import Steps

N_ENVS = 8
TIMEOUT = 2.0
"""Seconds of a step after which it counts as hung; a hang may take twice as much more than a
kill.
"""
COMMON = [
    "algo=dqn",
    "env=gymnasium",
    "hardware=process",
    f"hardware.n_workers={N_ENVS}",
    f"hardware.n_envs={N_ENVS}",
    "hardware.max_restarts=100000",
    "algo.steps_per_collect=4",
    "algo.updates_per_env_step=0.03125",
    "test.interval=1e6",
    "test.episodes=1",
    "test.n_envs=1",
    "save.interval=1e6",
    "callbacks=[{_target_: benchmarks.faults.workers.Continuity}]",
    *QUIET,
]
RUNS = {
    "killed": [*COMMON, "env.id=benchmarks.faults.numbered:Killed", "total_env_steps=20000"],
    "killed as often as hung": [
        *(*COMMON, "env.id=benchmarks.faults.numbered:KilledAsOften", "total_env_steps=4000"),
    ],
    "hung": [
        *(*COMMON, "env.id=benchmarks.faults.numbered:Hangs", "total_env_steps=4000"),
        f"env.timeout={TIMEOUT}",
    ],
}


class Continuity(Callback):
    """Counts the transitions that are stored, and those that join two episodes, in a file of the
    run.
    """

    def __init__(self) -> None:
        self.transitions, self.joined = 0, 0
        self.before = np.full((N_ENVS, 2), np.nan)  # [E, O] the last observation
        self.ended = np.ones(N_ENVS, np.bool_)  # [E]

    def on_collect(self, trainer: Any, value: Steps) -> Steps:
        self.ended |= value.lost
        for obs, last in zip(value.obs[:, :, 0], value.last, strict=True):
            follows = ((obs - self.before) == [0, 1]).all(1)
            begins = obs[:, 1] == 0
            self.joined += int(np.count_nonzero(~np.where(self.ended, begins, follows)))
            self.transitions += int(np.count_nonzero(~last))
            self.before, self.ended = obs, last.copy()
        return value

    def on_train_end(self, trainer: Any, value: Any = None) -> Any:
        counted = {"transitions": self.transitions, "joined": self.joined}
        (trainer.run_dir / "continuity.json").write_text(json.dumps(counted), encoding="utf-8")
        return value


def cases(folder: Path, seed: int, n_cases: int | None) -> Iterator[tuple[str, str | None]]:
    """Every kill and every hang, or of runs that are so many times shorter."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)  # what is left over becomes our child
    warm_up(folder)
    seconds = {}
    for kind, words in RUNS.items():
        if n_cases is not None:
            words = [*(w for w in words if "total" not in w), f"total_env_steps={n_cases * EVERY}"]
        os.environ[FILE] = str(folder / f"{kind}-faults")
        Path(os.environ[FILE]).touch()
        memory, begun = set(os.listdir("/dev/shm")), time.monotonic()
        code = run([*words, f"seed={seed}"], folder / kind)
        seconds[kind] = time.monotonic() - begun
        problem = left_over() or wrong(folder / kind, code)
        if kind == "hung":
            waited = seconds[kind] - seconds["killed as often as hung"]
            if waited > 2 * TIMEOUT * HANGS:
                problem = f"the hangs took {waited:.0f} s"
        if set(os.listdir("/dev/shm")) - memory:
            problem = "shared memory is left over"
        for n in range(n_noted()):
            yield f"{kind} {n}", problem


def wrong(run_dir: Path, code: int) -> str | None:
    """What is wrong with the end of a run; or None."""
    if code != 0:
        return f"exit code {code}: {last_lines(run_dir.with_suffix('.txt'))}"
    counted = json.loads((run_dir / "continuity.json").read_text(encoding="utf-8"))
    record = json.loads((run_dir / "run.json").read_text(encoding="utf-8"))
    asked = record["env_steps"]
    lines = (run_dir / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    restarts = [json.loads(line).get("time/env_restarts", 0) for line in lines]
    if counted != {"transitions": asked, "joined": 0}:
        return f"{asked} env steps, and stored were {counted}"
    if max(restarts) != n_noted():
        return f"{n_noted()} faults, and time/env_restarts is {max(restarts)}"
    return None
