"""kill -9 at random moments of a run, which is resumed each time: weights, replay and metrics equal
those of a run that was never killed, byte for byte.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from itertools import count
from multiprocessing.context import ForkProcess
from pathlib import Path

from benchmarks.faults.runs import QUIET, begin, last_lines, result_of, warm_up

SHORT = ["test.interval=500", "test.episodes=4", "save.interval=200", "log.interval=100", *QUIET]
CARTPOLE = ["env=cartpole", "total_env_steps=1500", "algo.learning_starts=200", *SHORT]
RUNS = {
    "dqn": (["algo=dqn", *CARTPOLE], 50),
    "qmix": (["algo=qmix", "env=smac", "total_env_steps=1500", "algo.batch_size=8", *SHORT], 25),
    "rainbow": (["algo=rainbow", *CARTPOLE], 10),
    "r2d2": (["algo=r2d2", "algo.batch_size=8", *CARTPOLE], 10),
    "pqn": (["algo=pqn", "env=cartpole", "total_env_steps=3000", *SHORT], 10),
    "qplex": (["algo=qplex", "env=two_step", "total_env_steps=600", *SHORT], 10),
    "disk": (["algo=rainbow", "buffer.storage=disk", "buffer.capacity=600", *CARTPOLE], 25),
    "episodes on disk": (
        ["algo=qplex", "env=two_step", "total_env_steps=600", "buffer.storage=disk", *SHORT],
        10,
    ),
    "offline": (["algo=dqn", "dataset.read={dataset}", *CARTPOLE], 10),
}
"""Overrides and the number of kills of every run; ``{dataset}`` is recorded first."""
RECORD = ["algo=dqn", "env=cartpole", "total_env_steps=3000", "dataset.write={dataset}", *QUIET]


def cases(folder: Path, seed: int, n_cases: int | None) -> Iterator[tuple[str, str | None]]:
    """All kills of all runs, or ``n_cases`` of each."""
    rng = random.Random(seed)
    dataset = str(folder / "dataset")
    warm_up(folder)
    start([word.format(dataset=dataset) for word in RECORD], folder / "recorded").join()
    for name, (overrides, most) in RUNS.items():
        words = [word.format(dataset=dataset) for word in overrides]
        begun = time.monotonic()
        start(words, folder / name).join()
        seconds, expected = time.monotonic() - begun, result_of(folder / name)
        left = most if n_cases is None else min(n_cases, most)
        for chain in count():
            if not left:
                break
            run_dir = folder / f"{name}-{chain}"
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
        process.join(wait)
        if process.exitcode is not None:
            break  # it ended before this moment
        process.kill()
        process.join()
        kills -= 1
        yield f"{wait:.2f} s"
        process = go_on(words, run_dir)
    process.join()
    if process.exitcode != 0:
        said = last_lines(run_dir.with_suffix(".txt"))
        raise AssertionError(f"{run_dir.name} ended with {process.exitcode}: {said}")


def go_on(words: Sequence[str], run_dir: Path) -> ForkProcess:
    """Resume a run, or begin it if it was killed before it had a folder."""
    begun = (run_dir / "config.json").exists()
    return start([f"resume={run_dir}"] if begun else words, run_dir)


def start(words: Sequence[str], run_dir: Path) -> ForkProcess:
    """The command in a process of its own; its output goes beside the run folder."""
    resumes = words[0].startswith("resume=")
    folder = [] if resumes else [f"hydra.run.dir={run_dir}"]
    return begin([*words, *folder], run_dir.with_suffix(".txt"))
