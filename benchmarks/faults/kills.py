"""kill -9 at random moments of a run, which is resumed each time: its weights, replay and metrics
are those of the run that was never killed, byte for byte.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.faults.runs import QUIET, result_of

ROOT = Path(__file__).parents[2]
SHORT = ["test.interval=500", "test.episodes=4", "save.interval=200", "log.interval=100", *QUIET]
CARTPOLE = ["env=cartpole", "total_env_steps=3000", "algo.learning_starts=200", *SHORT]
RUNS = {
    "dqn": (["algo=dqn", *CARTPOLE], 50),
    "qmix": (["algo=qmix", "env=smac", "total_env_steps=1500", "algo.batch_size=8", *SHORT], 25),
    "rainbow": (["algo=rainbow", *CARTPOLE], 10),
    "r2d2": (["algo=r2d2", "algo.batch_size=8", *CARTPOLE], 10),
    "pqn": (["algo=pqn", "env=cartpole", "total_env_steps=6000", *SHORT], 10),
    "qplex": (["algo=qplex", "env=two_step", "total_env_steps=1500", *SHORT], 10),
    "offline": (["algo=dqn", "dataset.read={dataset}", *CARTPOLE], 10),
}
"""Overrides and the number of kills of every run; ``{dataset}`` is recorded first."""
RECORD = ["algo=dqn", "env=cartpole", "total_env_steps=3000", "dataset.write={dataset}", *QUIET]


def cases(folder: Path, seed: int, n_cases: int | None) -> Iterator[tuple[str, str | None]]:
    """All kills of all runs, or so many of each."""
    rng = random.Random(seed)
    dataset = str(folder / "dataset")
    start([word.format(dataset=dataset) for word in RECORD], folder / "recorded").wait()
    for name, (overrides, most) in RUNS.items():
        words = [word.format(dataset=dataset) for word in overrides]
        begun = time.monotonic()
        code = start(words, folder / name).wait()
        assert code == 0, f"{name} ended with {code} though nobody killed it"
        seconds, expected = time.monotonic() - begun, result_of(folder / name)
        left = most if n_cases is None else min(n_cases, most)
        while left:
            run_dir = folder / f"{name}-{left}"
            moments = list(killed_run(words, run_dir, seconds, left, rng))
            left -= len(moments)
            found = result_of(run_dir)
            differ = sorted(k for k in expected | found if expected.get(k) != found.get(k))
            for moment in moments:
                yield f"{name} after {moment}", f"{differ} differ" if differ else None


def killed_run(
    words: Sequence[str], run_dir: Path, seconds: float, kills: int, rng: random.Random
) -> Iterator[str]:
    """Carry out a run with kills at moments drawn from the seconds that it takes; yields each."""
    process = start(words, run_dir)
    while kills:
        wait = rng.uniform(0, seconds)
        try:
            process.wait(wait)
            break  # it ended before this moment
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills -= 1
            yield f"{wait:.2f} s"
            process = go_on(words, run_dir)
    code = process.wait()
    while code != 0:
        said = run_dir.with_suffix(".txt").read_text(encoding="utf-8").splitlines()[-5:]
        assert code == -9, f"{run_dir.name} ended with {code}: {' '.join(said)}"
        code = go_on(words, run_dir).wait()


def go_on(words: Sequence[str], run_dir: Path) -> subprocess.Popen[bytes]:
    """Resume a run, or begin it if it was killed before it had a folder."""
    begun = (run_dir / "config.json").exists()
    return start([f"resume={run_dir}"], run_dir) if begun else start(words, run_dir)


def start(words: Sequence[str], run_dir: Path) -> subprocess.Popen[bytes]:
    """The command as a process; its output goes beside the run folder."""
    resumes = words[0].startswith("resume=")
    with run_dir.with_suffix(".txt").open("ab") as output:
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "rltrain", *words),
                *([] if resumes else [f"hydra.run.dir={run_dir}"]),
            ],
            stdout=output,
            stderr=output,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
