"""``sweep.json``: the jobs of a sweep, and which sweep a typed command continues; ``run.json`` of a
job that did not live to write it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

import rltrain
from rltrain.common.files import (
    JSON_BYTES,
    MOST_ENTRIES,
    JsonObject,
    dated,
    get_text,
    json_object,
    put_text,
    require_empty,
)
from rltrain.common.json_text import entry_name, is_number, json_text, read_strictly
from rltrain.common.machine.places import SWEEP, require_writable
from rltrain.common.metrics import read_test
from rltrain.config.command_line import shell_word
from rltrain.config.schema import Settings
from rltrain.errors import CheckpointError, UsageError
from rltrain.logger.screen import shown
from rltrain.mode.resume_settings import require_run_of
from rltrain.mode.run_folder import holds_run, now, require_own, run_lock

log = logging.getLogger("rltrain")
LAUNCHER = ("hydra/launcher=", "hydra.launcher.")
HOW = ("sweep.", "hydra.sweep.dir=", *LAUNCHER)
"""Overrides that say how the jobs are run, not which jobs there are."""


@dataclass(frozen=True)
class SweepJob:
    """One run of a sweep: its folder, and the overrides that would make it as a single run."""

    folder: Path
    overrides: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of its folder, which begins with its number from 0."""
        return self.folder.name

    @property
    def record(self) -> JsonObject:
        """Its ``run.json``; empty if it has not started."""
        return json_object(self.folder / "run.json")

    @property
    def status(self) -> str:
        return str(self.record.get("status", "not started"))

    @property
    def finished(self) -> bool:
        return self.status == "finished"

    def test(self, which: Literal["final", "best"] = "final") -> Mapping[str, float]:
        """Its last test, or its best one; empty if there was none."""
        return read_test(self.record.get(f"{which}_test")) or {}

    @property
    def env_steps(self) -> int:
        """Its env steps; 0 where they cannot be read."""
        steps = self.record.get("env_steps")
        return int(steps) if is_number(steps) else 0

    @property
    def exit_code(self) -> int:
        """Its exit code; 1 where that cannot be read."""
        code = self.record.get("exit_code")
        return code if type(code) is int and code in range(256) else 1


@dataclass(frozen=True)
class SweepPlan:
    """A sweep.

    Attributes:
        typed: the overrides, in order, without ``hydra.sweep.dir``.
        digest: SHA-256 of the resolved configurations of all jobs, in any order.
        jobs: those known so far; of another sweeper none are.
    """

    folder: Path
    typed: tuple[str, ...]
    digest: str
    n_jobs: int
    started: str
    jobs: tuple[SweepJob, ...] = ()

    @property
    def overrides(self) -> list[str]:
        """Those that say which jobs there are, sorted."""
        return sorted(override for override in self.typed if not override.startswith(HOW))

    @property
    def command(self) -> str:
        """The command that began it, with its folder."""
        words = ["rltrain", "-m", *self.typed, f"hydra.sweep.dir={self.folder}"]
        return " ".join(map(shell_word, words))

    def write(self) -> None:
        """Write ``sweep.json``."""
        self.folder.mkdir(parents=True, exist_ok=True)
        jobs = [{"folder": job.name, "overrides": list(job.overrides)} for job in self.jobs]
        facts = {
            "overrides": self.overrides,
            "typed": list(self.typed),
            "config_sha256": self.digest,
            "n_jobs": self.n_jobs,
            "started": self.started,
            "version": rltrain.__version__,
            "jobs": jobs,
        }
        put_text(self.folder / SWEEP, json.dumps(facts, indent=1))

    def with_jobs(self, jobs: Iterable[SweepJob]) -> SweepPlan:
        """The plan with those jobs that it does not have yet."""
        known = {job.name: job for job in self.jobs}
        for job in jobs:
            if known.setdefault(job.name, job).overrides != job.overrides:
                raise UsageError(
                    f"{job.folder} belongs to another job of this sweep "
                    f"({' '.join(known[job.name].overrides):.300}). Type hydra.sweep.dir=FOLDER "
                    "for its own folder."
                )
        return replace(self, jobs=tuple(known.values()), n_jobs=max(self.n_jobs, len(known)))

    @property
    def complete(self) -> bool:
        """Whether it lists all of its jobs, which another sweeper does not."""
        return len(self.jobs) == self.n_jobs

    @property
    def known_jobs(self) -> Sequence[SweepJob]:
        """Its jobs; of another sweeper's those that have started, by number."""
        if self.jobs:
            return self.jobs
        found = sorted((file.parent for file in self.folder.glob("*/run.json")), reverse=True)
        by_number = {folder.name.partition("_")[0]: folder for folder in found}
        return [SweepJob(by_number[n], ()) for n in sorted(by_number, key=lambda n: (len(n), n))]

    @property
    def n_finished(self) -> int:
        return sum(job.finished for job in self.known_jobs)

    @property
    def finished(self) -> bool:
        return self.n_finished >= self.n_jobs


@dataclass(frozen=True)
class SavedJob:
    """A job in ``sweep.json``."""

    folder: Annotated[str, AfterValidator(entry_name)]
    overrides: tuple[str, ...]


@dataclass(frozen=True)
class SavedPlan:
    """Fields that ``sweep.json`` must have."""

    overrides: tuple[str, ...]
    config_sha256: str
    n_jobs: Annotated[int, Field(ge=0, le=MOST_ENTRIES)]
    started: str
    jobs: tuple[SavedJob, ...]
    typed: tuple[str, ...]

    def __post_init__(self) -> None:
        if len({job.folder for job in self.jobs}) < len(self.jobs):
            raise ValueError("two of its jobs have one folder")
        if self.n_jobs < len(self.jobs):
            raise ValueError(f"it lists {len(self.jobs)} jobs, and n_jobs is {self.n_jobs}")


def read_plan(folder: Path) -> SweepPlan | None:
    """The plan in a folder, None if there is none; CheckpointError for one that is damaged or of
    someone else's making.
    """
    file = folder / SWEEP
    if not os.path.lexists(file):
        return None
    try:
        saved: SavedPlan = read_strictly(SavedPlan, get_text(file, JSON_BYTES))
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"{shown(file)} cannot be read as the list of a sweep's jobs ({error}). Its "
            "runs are in the folders next to it: type resume=FOLDER for each, or the command of "
            "the sweep again with a new hydra.sweep.dir."
        ) from error
    jobs = tuple(SweepJob(folder / job.folder, job.overrides) for job in saved.jobs)
    digest, n_jobs = saved.config_sha256, saved.n_jobs
    return SweepPlan(folder, saved.typed, digest, n_jobs, saved.started, jobs)


def plan_for(
    overrides: Sequence[str], settings: Sequence[Settings], typed: Path | None
) -> tuple[SweepPlan, bool]:
    """The plan that a command begins or continues, and whether it continues one.

    Args:
        settings: of every job, in order.
        typed: the folder of ``hydra.sweep.dir``; None for a new one, which is to be ``made``.

    Raises:
        UsageError: the typed folder holds something else, or two jobs would write one dataset.
        CheckpointError: the folder of a job of a finished sweep holds another run.
    """
    require_own_datasets(settings)
    wanted = SweepPlan(
        folder=typed or dated("multirun", settings[0].run.name),
        typed=tuple(o for o in overrides if not o.startswith("hydra.sweep.dir=")),
        digest=digest(settings),
        n_jobs=len(settings),
        started=now(),
    )
    if typed is None:
        root = wanted.folder.parent
        for other in sorted(plans_below(root), key=lambda p: p.started, reverse=True):
            if other.overrides != wanted.overrides or other.finished:
                continue
            if other.digest == wanted.digest:
                return other, True
            log.warning(
                "%s is an unfinished sweep of the same overrides, but with other settings: files "
                "of the configuration have changed since. A new sweep starts; %s would "
                "continue with that one.",
                shown(other.folder),
                shell_word(f"resume={shown(other.folder)}"),
            )
            break
    elif plan := read_plan(typed):
        if (plan.overrides, plan.digest) == (wanted.overrides, wanted.digest):
            if plan.finished:
                for job in plan.jobs:
                    require_run_of(job.overrides, job.folder)
                raise UsageError(f"{typed} holds this sweep, and all of its runs are finished.")
            return plan, True
        raise UsageError(
            f"{typed} holds another sweep ({' '.join(plan.overrides):.300}). Choose another "
            f"hydra.sweep.dir, leave it out, or type {shell_word(f'resume={typed}')} to continue "
            "that one."
        )
    elif any(typed.glob("*/run.json")):
        raise UsageError(
            f"{typed} already holds runs. Choose another hydra.sweep.dir, or leave it out for a "
            "new folder below outputs/multirun."
        )
    else:
        advice = "Type hydra.sweep.dir=FOLDER with a new or an empty folder, or leave it out."
        require_empty(typed, "a sweep", advice, (".lock*", f".{SWEEP}.*"))
    require_writable(wanted.folder, "hydra.sweep.dir")
    return wanted, False


def plans_below(root: Path) -> list[SweepPlan]:
    """The sweeps in a folder; a ``sweep.json`` that cannot be read is skipped."""
    plans = []
    for file in root.glob(f"*/{SWEEP}"):
        try:
            plan = read_plan(file.parent)
        except CheckpointError as error:
            log.warning("%s", error)
            continue
        plans += [plan] if plan else []
    return plans


def digest(settings: Sequence[Settings]) -> str:
    """SHA-256 of the resolved configurations of all jobs, in any order."""
    texts = sorted(json.dumps(each.record, sort_keys=True, default=str) for each in settings)
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def require_own_datasets(settings: Sequence[Settings]) -> None:
    """UsageError if two jobs of a sweep would write their datasets into one folder."""
    for folder, n in Counter(each.run.dataset.write for each in settings).items():
        if folder is not None and n > 1:
            raise UsageError(
                f"dataset.write={folder}: {n} jobs cannot write into one folder. Type a folder for "
                "each with the keys that differ, such as 'dataset.write=data/${seed}'."
            )


def record_failure(
    run_dir: Path, error: str, exit_code: int, process: int, status: str = "failed"
) -> None:
    """Record in ``run.json``, if it can be written, that a run ended before or apart from its own
    records. The record of a run that ended before ``process`` began or continued it, or that
    another process holds, stays as it is, and so does a folder of other files.
    """
    facts = {"status": status, "exit_code": exit_code, "error": error, "finished": now()}
    path = run_dir / "run.json"
    before = json_object(path)
    at_work = before.get("process")
    if before.get("status") != "running" and (at_work is not None or holds_run(run_dir)):
        return
    try:
        with suppress(UsageError):
            require_own(run_dir)
            run_dir.mkdir(parents=True, exist_ok=True)
            with nullcontext() if at_work == process else run_lock(run_dir):
                put_text(path, json_text(before | facts))
    except OSError as failure:
        log.warning("%s could not be written (%s)", path, failure)
