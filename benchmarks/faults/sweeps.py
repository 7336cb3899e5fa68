"""kill -9 at random moments of a sweep, which the same command continues each time: its results
equal those of a sweep that was never killed, byte for byte.

Six runs, one of which crashes. Half of the kills end the command, the others one of its jobs.
``results.csv`` (env steps and all metrics of the last and best tests of every run, including the
crashing one) and the final weights are compared.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rltrain.callback import Callback
from rltrain.common.files import digest

ROOT = Path(__file__).parents[2]
SWEEP = [
    "algo=vdn,iql",
    "seed=1,2,3",
    "env=two_step",
    "total_env_steps=1500",
    "test.interval=300",
    "test.episodes=4",
    "test.n_envs=2",
    "save.interval=300",
    "log.interval=100",
    "algo.batch_size=8",
    "buffer.capacity=64",
    "algo.exploration.env_steps=300",
    "logger.wandb.mode=disabled",
    "callbacks=[{_target_: benchmarks.faults.sweeps.Crash, algo: vdn, seed: 2, env_steps: 700}]",
    "sweep.retries=0",
]
N_JOBS = 6
KILLS = 20


def cases(folder: Path, seed: int, n_cases: int | None) -> Iterator[tuple[str, str | None]]:
    """All kills, in as many sweeps as they take."""
    rng = random.Random(seed)
    plain = folder / "plain"
    plain.mkdir()
    code = start(plain).wait()
    assert code == 1, f"the run that crashes should make it 1, not {code}"
    expected, left = results(plain), n_cases or KILLS
    while left:
        killed = folder / f"killed-{left}"
        killed.mkdir()
        moments = list(sweep_with_kills(killed, left, rng))
        found = results(killed)
        differ = sorted(k for k in expected | found if expected.get(k) != found.get(k))
        for n, moment in enumerate(moments):
            yield f"{moment}, {left - n} left", f"{differ} differ" if differ else None
        left -= len(moments)


class Crash(Callback):
    """Fails one run of a sweep, in the same iteration however often it is resumed."""

    def __init__(self, *, algo: str, seed: int, env_steps: int) -> None:
        self.of, self.env_steps = (algo, seed), env_steps

    def on_iteration(self, trainer: Any, value: Any = None) -> Any:
        config = trainer.about["config"]
        of = config["choices"]["algo"], config["seed"]
        if of == self.of and trainer.clock.env_steps >= self.env_steps:
            raise ZeroDivisionError("on purpose")
        return value


def start(folder: Path, words: Sequence[str] = SWEEP) -> subprocess.Popen[bytes]:
    """The sweep as a command, in ``folder``."""
    with (folder / "output.txt").open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "rltrain", "-m", *words],
            cwd=folder,
            stdout=output,
            stderr=output,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )


def job_processes(driver: int) -> list[int]:
    """The processes that a command has started."""
    children = Path(f"/proc/{driver}/task/{driver}/children")
    return [int(pid) for pid in children.read_text().split()] if children.exists() else []


def sweep_with_kills(folder: Path, kills: int, rng: random.Random) -> Iterator[str]:
    """Run the sweep to its end, killed at most so often; yields what was killed."""
    most = max(2, 160 // max(kills, 1))  # rows between kills: all of them before the last run ends
    driver = start(folder)
    while kills:
        rows = n_rows(folder) + rng.randrange(1, most)
        while driver.poll() is None and n_rows(folder) < rows:
            time.sleep(0.05)
        jobs = job_processes(driver.pid)
        if driver.poll() is None and jobs:
            victim = driver.pid if kills % 2 else rng.choice(jobs)
            os.kill(victim, signal.SIGKILL)
            kills -= 1
            yield f"{'command' if victim == driver.pid else 'job'} at {n_rows(folder)} rows"
            if victim == driver.pid:
                driver.wait()
        if driver.poll() is not None:
            if all_done(folder):  # only the run that crashes would be left to kill
                break
            driver = start(folder)
    while driver.wait() != 1 or not all_done(folder):
        driver = start(folder)


def n_rows(folder: Path) -> int:
    """Rows of metrics that all runs have written."""
    files = folder.glob("outputs/multirun/*/*/metrics.jsonl")
    return sum(file.read_bytes().count(b"\n") for file in files)


def all_done(folder: Path) -> bool:
    """Whether every run has finished, but for the one that crashes on purpose."""
    records = [json.loads(p.read_text()) for p in folder.glob("outputs/multirun/*/*/run.json")]
    done = [r for r in records if r["status"] == "finished" or "on purpose" in r.get("error", "")]
    return len(done) == len(records) == N_JOBS


def results(folder: Path) -> dict[str, str]:
    """``results.csv``, and the checksum of the final weights of every run that has finished."""
    (sweep,) = folder.glob("outputs/multirun/*")
    found = {"results.csv": (sweep / "results.csv").read_text()}
    for run in sorted(sweep.glob("*/run.json")):
        record = json.loads(run.read_text())
        if record["status"] == "finished":
            weights = f"checkpoints/{record['env_steps']}/model.safetensors"
            found[run.parent.name] = digest(run.parent / weights)
    return found
