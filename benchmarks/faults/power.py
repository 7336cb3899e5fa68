"""Power losses: a run under strace, and the states of its folder that POSIX permits at every
moment: unsynced data may be absent, present or partial.

The newest finished checkpoint is found, a later one is complete if it has a manifest, and the
resumed run has the weights, replay and metrics of a run without a power loss, byte for byte.

Needs strace.
"""

from __future__ import annotations

import random
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.faults.disk_trace import Change, Trace, restore, trace
from benchmarks.faults.runs import SMALL, digests, result_of, warm_up
from benchmarks.faults.signals import run
from rltrain.common import checkpoint
from rltrain.common.checkpoint.run_checkpoints import MANIFEST
from rltrain.errors import CheckpointError

RUN = [*SMALL, "total_env_steps=150", "logger=[csv,wandb]", "save.keep_last=2"]
RESUMED = 120
"""Cases of which the run is resumed to its end."""


def cases(folder: Path, seed: int, n_cases: int | None) -> Iterator[tuple[str, str | None]]:
    """Every moment between two changes with every kind of loss, or so many of them."""
    rng = random.Random(seed)
    warm_up(folder)
    plain = folder / "plain"
    command = [sys.executable, "-m", "rltrain", *RUN, f"hydra.run.dir={plain}"]
    found = trace(command, plain, folder / "logs")
    restore(found, found.n_calls + 1, folder / "all", lambda change: 1.0)
    assert digests(folder / "all") == digests(plain), "the trace is not complete"
    expected, finished = result_of(plain), finished_checkpoints(found)
    moments = sorted({change.at + 1 for change in found.changes} | syncs(found))
    made = [(at, kind) for at in moments for kind in losses(rng)]
    chosen = made if n_cases is None else sorted(rng.sample(made, n_cases))
    resumed = set(rng.sample(range(len(chosen)), min(RESUMED, len(chosen))))
    for n, (at, kind) in enumerate(chosen):
        left = folder / "left"
        restore(found, at, left, losses(rng)[kind])
        latest = max((step for step, since in finished.items() if since < at), default=None)
        problem = damaged(left, latest)
        if problem is None and n in resumed:
            problem = resumed_wrong(left, expected)
        yield f"call {at}, {kind}", problem
        shutil.rmtree(left)
        left.with_suffix(".txt").unlink(missing_ok=True)


def losses(rng: random.Random) -> dict[str, Callable[[Change], float]]:
    """What is left of changes that were not synced, by name."""
    return {
        "all lost": lambda change: 0.0,
        "nothing lost": lambda change: 1.0,
        "names kept, data lost": lambda change: float(change.file is None),
        "data kept, names lost": lambda change: float(change.file is not None),
        "some lost": lambda change: float(rng.random() < 0.5),
        "some lost, data in part": lambda change: rng.choice([0.0, 0.5, 1.0]),
    }


def syncs(found: Trace) -> set[int]:
    """The moments after which something was durable."""
    return {change.synced + 1 for change in found.changes if change.synced is not None}


def finished_checkpoints(found: Trace) -> dict[int, int]:
    """Since which call each full checkpoint is durable under its name."""
    finished = {}
    for change in found.changes:
        for folder, name, number in change.entries:
            is_new = folder == found.folders[0]["checkpoints"] and number is not None
            if is_new and name.isdigit() and "trainer.json" in ever_in(found, number):
                assert change.synced is not None, "a checkpoint that was not synced"
                finished[int(name)] = change.synced
    return finished


def ever_in(found: Trace, number: int | None) -> set[str]:
    """The names that were ever in a folder."""
    entries = [entry for change in found.changes for entry in change.entries]
    return {name for folder, name, _ in entries if folder == number}


def damaged(run_dir: Path, latest: int | None) -> str | None:
    """What is wrong with the checkpoints that are left; or None."""
    checkpoints = run_dir / "checkpoints"
    for step in checkpoint.list_steps(checkpoints):
        if latest is not None and step < latest:
            continue  # it may be half deleted
        try:
            checkpoint.single(checkpoints / str(step))
        except CheckpointError as error:
            if (checkpoints / str(step) / MANIFEST).exists():
                return f"checkpoint {step}: {error}"
    if latest is None:
        return None
    try:
        found = checkpoint.find(run_dir, full=True)
    except CheckpointError as error:
        return f"checkpoint {latest} was finished: {error}"
    if found.step < latest:
        return f"checkpoint {latest} was finished, found is {found.step}"
    return None if checkpoint.has(found.folder, "replay") else f"{found.step} has no replay"


def resumed_wrong(run_dir: Path, expected: dict[str, str]) -> str | None:
    """What is wrong with a run that is resumed, or begun if nothing is left of it; or None."""
    code = run(RUN, run_dir)
    if code != 0:
        return f"exit code {code}: " + run_dir.with_suffix(".txt").read_text(encoding="utf-8")
    found = result_of(run_dir)
    differ = sorted(k for k in expected | found if expected.get(k) != found.get(k))
    return f"{differ} differ" if differ else None
