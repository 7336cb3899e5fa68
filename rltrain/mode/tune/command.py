"""The command mode=tune: opens or continues a study, starts its processes, writes its results."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import signal
from collections.abc import Sequence
from dataclasses import asdict, replace
from multiprocessing import resource_tracker
from pathlib import Path
from types import FrameType
from typing import Any

from rltrain.common.files import (
    absolute_path,
    get_json,
    locked,
    put_text,
    require_empty,
    require_plain,
)
from rltrain.common.machine.child_processes import lead_group
from rltrain.common.machine.places import STUDY, require_no_folders, require_writable
from rltrain.common.machine.streams import keep_streams, say
from rltrain.config.schema import Settings
from rltrain.config.validate.constructor import show
from rltrain.errors import SIGNAL_CODES, RltrainError, UsageError, storage_errors
from rltrain.logger.screen import Screen, plural, shown
from rltrain.mode.signals import Interrupts, handling
from rltrain.mode.tune.space import validated_space
from rltrain.mode.tune.study import LOCK, open_study, require_optuna, require_trials
from rltrain.mode.tune.study_results import RESULTS, write_results
from rltrain.mode.tune.trials import StudySetup, config_digest, require_unchanged, work

HANDLED = tuple(signal.Signals[name] for name in SIGNAL_CODES)
"""Signals that stop a study."""
DONE = 64  # exit code of one of several processes at its end: an environment may exit with 0


def tune(settings: Settings, overrides: Sequence[str]) -> int:
    """Run a study, or continue it; returns the exit code.

    Args:
        overrides: what was typed, without ``mode=tune`` and ``tune.…``.

    Raises:
        UsageError: Optuna is missing, the search space is wrong, or the folder holds another study.
        CheckpointError: the journal of the study is damaged, or holds trials of another.
    """
    require_optuna()
    run = settings.run
    space = validated_space(run.tune.space or [], overrides)
    digest = hashlib.sha256("\n".join(sorted(overrides)).encode()).hexdigest()[:8]
    name = f"{settings.choices['algo']}-{settings.choices['env']}-{digest}"
    folder = absolute_path(run.tune.dir or Path("outputs", "tune", name))
    require_writable(folder, "tune.dir")
    job = StudySetup(folder, tuple(overrides), tuple(space), run, config_digest(overrides))
    known = begin(job)
    require_trials(folder, run, space)
    study = open_study(folder, run)
    screen = Screen()
    before = f"continues after {plural(len(study.trials), 'trial')}" if known else "begins"
    screen.lines(
        f"Study {shown(folder)} {before}: {run.tune.trials} trials of {len(space)} keys, "
        f"{plural(run.tune.jobs, 'process')}."
    )
    code = start(job, run.tune.jobs)
    failed = write_results(job, screen)
    return code if code in SIGNAL_CODES.values() else failed or code


def begin(job: StudySetup) -> bool:
    """Create the folder of a study; returns whether it already existed. UsageError if it holds
    another.
    """
    folder, identity = job.folder, asdict(job.run.tune)
    for changeable in ("trials", "jobs", "dir"):
        del identity[changeable]
    about = {"overrides": sorted(job.overrides), **identity}
    path = folder / STUDY
    if not os.path.lexists(path):
        advice = "Type tune.dir=FOLDER with a new or an empty folder, or leave it out."
        require_empty(folder, "a study", advice, (STUDY, f".{STUDY}.*", LOCK))
        folder.mkdir(parents=True, exist_ok=True)
        require_plain(folder)
        with locked(folder / LOCK):
            if not os.path.lexists(path):  # else of a command that was typed at the same time
                put_text(path, json.dumps({**about, "config_sha256": job.config_sha256}, indent=1))
                return False
    require_plain(folder)
    require_no_folders(folder, *RESULTS)
    advice = "Type tune.dir=FOLDER for a new one."
    try:
        before = {**get_json(path)}
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"{path} is not a valid study: {error!s:.300}. {advice}") from error
    pairs = {key: without_common(before.get(key), value) for key, value in about.items()}
    differ = [
        f"{key} {show(theirs):.80}, not {show(ours):.80}"
        for key, (theirs, ours) in pairs.items()
        if theirs != ours
    ]
    if differ:
        raise UsageError(f"{folder} holds a study with {'; '.join(differ)}. {advice}")
    require_unchanged(replace(job, config_sha256=str(before.get("config_sha256"))))
    return True


def without_common(one: Any, other: Any) -> tuple[Any, Any]:
    """Two values, of lists only what the other one does not have, if they differ in that."""
    if not isinstance(one, list) or not isinstance(other, list):
        return one, other
    rest = [each for each in one if each not in other], [each for each in other if each not in one]
    return rest if rest[0] or rest[1] else (one, other)


def start(job: StudySetup, jobs: int) -> int:
    """Work in this process, or in several of its own; returns the first exit code that is not 0."""
    if jobs == 1:
        with handling(Interrupts().handle):
            return work(job)
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=exit_with, args=(job,)) for _ in range(jobs)]

    def forward(number: int, frame: FrameType | None) -> None:
        for process in processes:
            if process.pid and process.is_alive():
                os.kill(process.pid, number)

    resource_tracker.ensure_running()  # unblocks signals; the first process would start it
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)  # inherited: until exit_with
    with handling(forward):
        try:
            for process in processes:
                process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for process in processes:
            process.join()
    codes = [process.exitcode or 0 for process in processes]
    ends = {0: "exited with 0"} | {-s: f"was killed by {s.name}" for s in signal.Signals}
    for how in sorted({ends[code] for code in codes if code in ends}):
        say(f"A process {how}. The same command continues its trial.", error=True)
    return next(((code or 1) if code >= 0 else 128 - code for code in codes if code != DONE), 0)


def exit_with(job: StudySetup) -> None:
    """Run one of several processes. Ctrl-C reaches it through the first one only; when that is
    gone, it stops as on SIGTERM.
    """
    keep_streams()
    lead_group(signal.SIGTERM)
    try:
        with handling(Interrupts().handle), storage_errors():
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
            raise SystemExit(work(job) or DONE)
    except KeyboardInterrupt as stopped:  # between two trials
        raise SystemExit(next(iter(stopped.args), SIGNAL_CODES["SIGINT"])) from None
    except RltrainError as error:
        say(f"rltrain: {error}", error=True)
        raise SystemExit(error.exit_code) from None
    finally:  # as at the end of a command
        signal.signal(signal.SIGINT, signal.SIG_IGN)
