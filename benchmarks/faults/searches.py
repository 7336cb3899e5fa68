"""kill -9 at random moments of a hyperparameter search, which the same command continues each time:
every trial exists once, with the values, score and weights of a search that was never killed, byte
for byte, and the same best trial.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from benchmarks.faults.runs import QUIET, begin, last_lines, result_of, warm_up

KILLS = 20
N_TRIALS = 10
SEARCH = [
    "mode=tune",
    "algo=dqn",
    "env=cartpole",
    "total_env_steps=600",
    "test.interval=150",
    "test.episodes=4",
    "test.n_envs=2",
    "save.interval=150",
    "algo.learning_starts=50",
    f"tune.trials={N_TRIALS}",
    *(word for word in QUIET if not word.startswith("logger.console")),
]


def cases(folder: Path, seed: int, n_cases: int | None) -> Iterator[tuple[str, str | None]]:
    """All kills, in as many searches as needed."""
    rng = random.Random(seed)
    warm_up(folder)
    words = [*SEARCH, f"seed={seed}"]
    begun = time.monotonic()
    search(words, folder / "plain", [])
    seconds, expected, left = time.monotonic() - begun, results(folder / "plain"), n_cases or KILLS
    for n in count():
        if not left:
            break
        # half of the time that is left between two kills, so that a search takes several
        moments = [rng.uniform(0, seconds / 2) for _ in range(left)]
        made = search(words, folder / f"killed-{n}", moments)
        left -= len(made)
        found = results(folder / f"killed-{n}")
        differ = sorted(k for k in expected | found if expected.get(k) != found.get(k))
        for moment in made:
            yield f"after {moment:.2f} s", f"{differ} differ" if differ else None


def search(words: list[str], folder: Path, moments: list[float]) -> list[float]:
    """Carry out a search with kills after so many seconds each; returns those that were made."""
    made = []
    output = folder.with_suffix(".txt")
    process = begin([*words, f"tune.dir={folder}"], output)
    for moment in moments:
        process.join(moment)
        if process.exitcode is not None:
            break  # it ended before this moment
        process.kill()
        process.join()
        made.append(moment)
        process = begin([*words, f"tune.dir={folder}"], output)
    process.join()
    assert process.exitcode == 0, last_lines(output)
    return made


def results(folder: Path) -> dict[str, str]:
    """The table of trials, the best values, and what is compared of every run."""
    found = {name: (folder / name).read_text(encoding="utf-8") for name in ("trials.csv",)}
    best = (folder / "best.yaml").read_text(encoding="utf-8")
    found["best.yaml"] = best.replace(str(folder), "")
    for run_dir in sorted((folder / "trials").glob("[0-9]*[0-9]")):
        found |= {f"{run_dir.name}/{name}": sha for name, sha in result_of(run_dir).items()}
    return found
