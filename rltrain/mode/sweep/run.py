"""Begin a sweep, or continue one that was interrupted; one command at a time in its folder."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from rltrain.common import files
from rltrain.common.files import absolute_path, made, require_plain
from rltrain.common.json_text import flat
from rltrain.common.machine.places import require_no_folders
from rltrain.common.machine.streams import say
from rltrain.config.compose import compose_checked
from rltrain.config.hydra_sweep import Jobs, other_launcher, sweeper_for
from rltrain.config.overrides import typed_value
from rltrain.config.schema import Settings, SweepSettings
from rltrain.errors import SIGNAL_CODES, RltrainError, UsageError
from rltrain.logger.screen import Screen, plural, shown
from rltrain.mode.resume_settings import require_run_of
from rltrain.mode.run_folder import holds_run
from rltrain.mode.signals import TYPED, Interrupts, handling
from rltrain.mode.sweep.plan import (
    HOW,
    LAUNCHER,
    SweepJob,
    SweepPlan,
    plan_for,
    read_plan,
    record_failure,
)
from rltrain.mode.sweep.processes import Processes, shares
from rltrain.mode.sweep.saved import job_command, saved_jobs, type_again
from rltrain.mode.sweep.summary import FILE as RESULTS
from rltrain.mode.sweep.summary import summarize

OWN = ("seed", "name", "dataset.write")
"""Keys in which the runs of a batch may differ."""


def begin(overrides: Sequence[str], settings: Sequence[Settings]) -> int:
    """Carry out ``rltrain -m`` with the settings of every job; returns the exit code. UsageError
    for what is wrong with one of the jobs, before the first one begins.
    """
    other = other_launcher(overrides)
    if other is not None and (own := [o for o in overrides if o.startswith("sweep.")]):
        raise UsageError(
            f"{', '.join(own)} and {other} do not go together: sweep.jobs and the like belong to "
            "the launcher that is used when none is typed. Leave out one of them; the settings of "
            "another launcher are hydra.launcher.NAME=VALUE."
        )
    sweep = settings[0].run.sweep
    if sweep.batch_seeds:
        require_batches(settings)
    typed = typed_value(overrides, "hydra.sweep.dir")
    folder = None if typed is None else absolute_path(str(typed))
    plan, continues = plan_for(overrides, settings, folder)
    from rltrain.mode.sweep.job import run_in_process

    ordered = [override for override in plan.typed if not override.startswith(HOW)]
    how = [override for override in overrides if override.startswith(HOW)]
    train = None if other is None else partial(run_in_process, n_jobs=plan.n_jobs)
    jobs, start = sweeper_for([*ordered, *how], plan.folder, train)
    if typed is None and not continues:
        folder = made(plan.folder)
        if folder != plan.folder:  # of a sweep that began in the same second
            plan = replace(plan, folder=folder)
            jobs, start = sweeper_for([*ordered, *how], folder, train)
    if plan.folder.exists():
        require_plain(plan.folder)
        require_no_folders(plan.folder, RESULTS)
    local = Local(plan, sweep)
    with locked(plan.folder) as local.lock:
        require_unchanged(plan.folder, plan if continues else None)
        if continues:
            say(continued(plan))
        else:
            plan.write()
        if other is None:
            with local.stoppable():
                start()
                waiting = [job for job in local.list_jobs(jobs) if not job.finished]
                local.run({job: compose_checked(job.overrides).settings() for job in waiting})
        else:
            local.run_elsewhere(jobs, start, other)
        return summarize(local.plan, local.stopped, local.refused)


def resume_sweep(folder: Path, overrides: Sequence[str]) -> int:
    """Carry out ``resume=SWEEP_FOLDER``; returns the exit code.

    Args:
        overrides: what changes, as for the resumption of a run, and ``sweep.NAME=VALUE``.

    Raises:
        UsageError: overrides that a resumed run cannot change.
        CheckpointError: the sweep names classes that are not trusted.
    """
    require_plain(folder)
    require_no_folders(folder, RESULTS)
    plan = before = read_plan(folder)
    if plan is None:
        raise UsageError(f"{shown(folder)} holds no sweep. Run the command of the sweep again.")
    if not plan.jobs:
        plan = plan.with_jobs(job for job in plan.known_jobs if holds_run(job.folder))
    if not plan.jobs:
        raise UsageError(
            f"{shown(folder)} lists no jobs, since another sweeper chooses them, and none has "
            f"begun. {type_again(plan)}"
        )
    own = [override for override in overrides if override.startswith("sweep.")]
    others = [override for override in overrides if override not in own]
    local = Local(plan, compose_checked(own).settings().run.sweep)
    with locked(folder) as local.lock:
        require_unchanged(folder, before)
        jobs = saved_jobs(plan, others)
        say(continued(plan))
        if not plan.complete or any(o.startswith(LAUNCHER) for o in plan.typed):
            say(
                f"Its runs {'' if plan.complete else 'that have begun '}continue as processes of "
                "this machine. To continue the sweep as it began, type, when this command has "
                f"ended:\n  {plan.command}"
            )
        with local.stoppable():
            local.run(jobs, others)
        return summarize(plan, local.stopped, local.refused)


def require_unchanged(folder: Path, plan: SweepPlan | None) -> None:
    """UsageError if another command has changed the plan of a sweep before its lock was taken."""
    if read_plan(folder) != plan:
        raise UsageError(
            f"Another command has changed the sweep in {shown(folder)} meanwhile. Run this command "
            "again."
        )


def continued(plan: SweepPlan) -> str:
    """Return the message about a sweep that is resumed."""
    return (
        f"Continuing the sweep in {shown(plan.folder)}: {plan.n_finished} of "
        f"{plural(plan.n_jobs, 'run')} finished before. hydra.sweep.dir=FOLDER would begin a new "
        "one."
    )


@dataclass
class Local:
    """The sweep on this machine.

    Attributes:
        lock: what the jobs inherit of the sweep's lock.
        stopped: the signal that ended it.
        refused: as of ``Processes``.
    """

    plan: SweepPlan
    settings: SweepSettings
    lock: int | None = None
    stopped: str | None = None
    refused: Sequence[int] = ()

    @contextmanager
    def stoppable(self) -> Iterator[None]:
        """End with the signal that stops the sweep, also before its first job."""
        try:
            yield
        except KeyboardInterrupt as stop:
            self.stopped = self.stopped or ended_by(stop)

    def list_jobs(self, jobs: Jobs) -> list[SweepJob]:
        """Add jobs to the plan and its file; CheckpointError if the folder of one holds another."""
        new_jobs = [
            SweepJob(folder, tuple(o for o in typed if not o.startswith("sweep.")))
            for typed, folder in jobs
        ]
        for job in new_jobs:
            require_run_of(job.overrides, job.folder)
        self.plan = self.plan.with_jobs(new_jobs)
        self.plan.write()
        return new_jobs

    def run_elsewhere(self, jobs: Jobs, start: Callable[[], None], launcher: str) -> None:
        """Let another launcher run the jobs until they end, it fails or a signal ends it; record
        that runs have ended whose processes did not live to do so.
        """
        status, code, problem = "failed", 1, "its process ended"
        try:
            with handling(Interrupts().handle):
                self.list_jobs(jobs)
                start()
        except KeyboardInterrupt as stop:
            self.stopped = ended_by(stop) or "SIGINT"
            status, code = "interrupted", SIGNAL_CODES[self.stopped]
            problem = f"{TYPED[self.stopped]} ended its launcher"
        except RltrainError:
            raise
        except Exception as error:
            text = str(error).partition("\n---")[0]  # submitit quotes whole logs below
            problem = f"{type(error).__name__}: {' '.join(text.split())}"
            say(f"rltrain: {launcher} failed: {problem}", error=True)
            self.refused = [code]
        for job in self.plan.known_jobs:
            if job.status == "running":
                record_failure(job.folder, problem, code, 0, status)

    def run(self, jobs: Mapping[SweepJob, Settings], others: Sequence[str] = ()) -> None:
        """Run jobs with the overrides ``others``; KeyboardInterrupt if the sweep was stopped."""
        if not jobs:
            return
        settings = list(jobs.values())
        together = batches(jobs) if self.settings.batch_seeds else [(job,) for job in jobs]
        share = shares(self.settings.jobs, [jobs[batch[0]] for batch in together])
        screen = Screen(quiet=not any(each.logger.console for each in settings))
        where = f", on {plural(len(share.gpus), 'GPU')}" if share.gpus else ""
        by = f" by {plural(len(together), 'process')}" if self.settings.batch_seeds else ""
        screen.lines(
            f"{plural(len(jobs), 'run')}{by}, {share.at_once} at once{where}, in "
            f"{shown(self.plan.folder)}"
        )
        processes = Processes(
            n_jobs=self.plan.n_jobs,
            at_once=share.at_once,
            retries=self.settings.retries,
            fail_fast=self.settings.fail_fast,
            screen=screen,
            errors=Screen(stderr=True),
            command=lambda job: job_command(job, jobs[job], others, share.overrides(jobs[job])),
            environment=share.environment,
            lock=self.lock,
        )
        processes.run(together)
        self.stopped, self.refused = processes.stopped, processes.refused
        if processes.stopping:
            raise KeyboardInterrupt


def batches(jobs: Mapping[SweepJob, Settings]) -> list[tuple[SweepJob, ...]]:
    """The jobs that differ in their seed alone, together."""
    together: dict[str, list[SweepJob]] = {}
    for job, settings in jobs.items():
        together.setdefault(json.dumps(apart_from_seed(settings)), []).append(job)
    return [*map(tuple, together.values())]


def apart_from_seed(settings: Settings) -> dict[str, object]:
    """The resolved configuration by key, without what may differ in a batch."""
    return {key: value for key, value in flat(settings.record).items() if key not in OWN}


def require_batches(settings: Sequence[Settings]) -> None:
    """UsageError if no two runs of a sweep differ in their seed alone."""
    ours = [apart_from_seed(each) for each in settings]
    if all(a != b for i, a in enumerate(ours) for b in ours[:i]):
        differ = sorted({k for a in ours for k in a.keys() | ours[0] if a.get(k) != ours[0].get(k)})
        found = f"the runs differ in {', '.join(differ[:5])}" if differ else "there is one run"
        raise UsageError(
            "sweep.batch_seeds=true trains the runs of a sweep that differ in their seed alone in "
            f"one process, but {found}. Type several seeds, such as seed=1,2,3, or "
            "sweep.batch_seeds=false."
        )


def ended_by(stop: KeyboardInterrupt) -> str | None:
    """The signal whose exit code the exception holds; None for Ctrl-C and ``sweep.fail_fast``."""
    return next((name for name, code in SIGNAL_CODES.items() if code in stop.args), None)


def locked(folder: Path) -> AbstractContextManager[int | None]:
    """Hold the folder until this process and every process that inherits the yielded file
    descriptor have ended; None where the file system has no locks.

    If the command that held it was killed, wait for its runs: they save and end by themselves.

    Raises:
        UsageError: another command, here or on another machine, works in the folder.
    """

    def busy(holder: str) -> None:
        host, _, pid = holder.partition(" ")
        try:
            if host == platform.node():
                with suppress(PermissionError):
                    os.kill(int(pid), 0)
        except (ProcessLookupError, ValueError):
            say(f"Waiting until the runs of the stopped sweep in {shown(folder)} have saved.")
            return
        raise UsageError(
            f"The sweep in {shown(folder)} is running already (process {pid} on {host}). Wait "
            "until it has ended, or type hydra.sweep.dir=FOLDER for a second one of the same "
            "overrides."
        )

    folder.mkdir(parents=True, exist_ok=True)
    return files.locked(folder / ".lock", busy)
