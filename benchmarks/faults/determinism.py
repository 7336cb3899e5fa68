"""The same command twice, for every algorithm in every supported environment: in two interpreters
with different hash seeds, and once more with other loggers, tests and saves.

The second run equals the first in weights, replay, all other state and metrics, byte for byte; the
third in all but the metrics, which depend on tests.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.faults.runs import QUIET, begin, last_lines, result_of, warm_up
from rltrain.config.catalog import CONF

SHORT = ["env.max_episode_steps=12"]
ENVS = {
    "acrobot": SHORT,
    "atari": [*SHORT, "total_env_steps=60", "test.interval=1000", "test.episodes=1"],
    "cartpole": [],
    "gymnasium": ["env.id=Taxi-v4", *SHORT],
    "lbf": ["env.id=Foraging-5x5-2p-1f-v3", *SHORT],
    "lunarlander": SHORT,
    "magent": SHORT,
    "matrix": ["env.length=3"],
    "minatar": SHORT,
    "mountaincar": SHORT,
    "mpe": SHORT,
    "pettingzoo": SHORT,
    "rware": ["env.id=rware-tiny-2ag-v2", *SHORT],
    "smac": ["test.episodes=1"],
    "smaclite": ["env.map_name=3m", "test.episodes=1"],
    "smacv2": ["total_env_steps=600", "test.interval=300", "test.episodes=1"],
    "stag_hunt": SHORT,
    "trading": ["env.episode_length=12"],
    "two_step": [],
}
"""Every environment of ours, with what makes its episodes short."""
WINDOWS = ["buffer.sequence_length=4", "algo.learning_starts=40"]
ALGOS = {
    "pqn": ["algo.steps_per_collect=15"],
    "drqn": WINDOWS,
    "r2d2": [*WINDOWS, "buffer.burn_in=2"],
}
for path in sorted((CONF / "algo").glob("*.yaml")):
    one_agent = "single_agent" in path.read_text(encoding="utf-8")
    ALGOS.setdefault(path.stem, ["algo.learning_starts=40"] if one_agent else [])
del ALGOS["scripted"]
"""Every algorithm that learns."""
RUN = [
    "total_env_steps=120",
    "hardware.n_envs=2",
    "algo.batch_size=4",
    "test.interval=60",
    "test.episodes=2",
    "test.n_envs=2",
    "save.interval=1000",
    "log.interval=30",
    *QUIET,
]
OTHERWISE = [
    "logger=[csv,tensorboard,wandb]",
    "logger.console=true",
    "test.interval=40",
    "test.n_envs=1",
    "save.interval=40",
    "log.interval=10",
]
REFUSED = 2
"""The exit code where an algorithm cannot be used in an environment."""


def cases(
    folder: Path, seed: int, n_cases: int | None, envs: Sequence[str] = tuple(ENVS)
) -> Iterator[tuple[str, str | None]]:
    """All pairs, or so many of them."""
    rng = random.Random(seed)
    pairs = [(algo, env) for env in envs for algo in ALGOS]
    chosen = pairs if n_cases is None else rng.sample(pairs, n_cases)
    first, second = (interpreter(folder, hash_seed) for hash_seed in ("1", "2"))
    for algo, env in chosen:
        words = [f"algo={algo}", f"env={env}", *RUN, *ALGOS[algo], *ENVS[env]]
        problem = three_runs(folder, words, seed, first, second)
        if problem != "refused":
            yield f"{algo} in {env}", problem
    for connection in (first, second):
        connection.send(None)


def three_runs(
    folder: Path, words: Sequence[str], seed: int, first: Connection, second: Connection
) -> str | None:
    """What differs between runs of a command; ``refused`` if there are none; or None."""
    found = []
    made = [(first, []), (second, []), (second, OTHERWISE)]
    for n, (connection, more) in enumerate(made):
        run_dir = folder / f"run-{n}"
        shutil.rmtree(run_dir, ignore_errors=True)
        output = folder / f"run-{n}.txt"
        output.unlink(missing_ok=True)
        connection.send([*words, *more, f"seed={seed}", f"hydra.run.dir={run_dir}"])
        code = connection.recv()
        if code == REFUSED and n == 0:
            return "refused"
        if code != 0:
            return f"run {n} ends with {code}: {last_lines(output)}"
        found.append(result_of(run_dir))
    record = json.loads((folder / "run-0/run.json").read_text(encoding="utf-8"))
    if not record["updates"]:
        return "it did not learn"
    with_metrics = differing(found[0], found[1])
    found[0].pop("metrics.jsonl"), found[2].pop("metrics.jsonl")
    without = differing(found[0], found[2])
    if with_metrics or without:
        return f"again: {with_metrics} differ; with other loggers, tests and saves: {without}"
    return None


def differing(one: dict[str, str], other: dict[str, str]) -> list[str]:
    """The names of what differs between two results."""
    return sorted(name for name in one | other if one.get(name) != other.get(name))


def interpreter(folder: Path, hash_seed: str) -> Connection:
    """Start an interpreter with a hash seed, which carries out the commands that it is sent, each
    in a fork of itself, and answers with their exit codes.
    """
    ours, theirs = multiprocessing.Pipe()
    before = os.environ.get("PYTHONHASHSEED")
    os.environ["PYTHONHASHSEED"] = hash_seed
    context = multiprocessing.get_context("spawn")
    context.Process(target=serve, args=(theirs, folder / hash_seed)).start()
    if before is None:
        del os.environ["PYTHONHASHSEED"]
    else:
        os.environ["PYTHONHASHSEED"] = before
    return ours


def serve(connection: Connection, folder: Path) -> None:
    """The work of an ``interpreter``."""
    folder.mkdir()
    warm_up(folder)
    while words := connection.recv():
        run_dir = Path(words[-1].partition("=")[2])
        process = begin(words, run_dir.with_suffix(".txt"))
        process.join()
        connection.send(process.exitcode)
