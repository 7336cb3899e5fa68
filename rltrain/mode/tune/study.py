"""An Optuna study in a folder: its journal, its samplers and pruners, and who runs which trial.

A process holds the lock of the trial that it runs, which the system releases when the process ends
in whatever way. A trial that is running and whose lock is free was interrupted: the next process
continues it from its checkpoint.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rltrain.common.files import TRIALS, locked, take_lock
from rltrain.common.machine.install import require_extra
from rltrain.config.schema import RunSettings
from rltrain.errors import StorageError, reason, usage_errors
from rltrain.logger.screen import shown
from rltrain.mode.tune.space import Parameter
from rltrain.mode.tune.study_journal import FILE as JOURNAL
from rltrain.mode.tune.study_journal import damaged, drop_unfinished_line

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler


def require_optuna() -> Any:
    """The package optuna; UsageError if it is not installed."""
    with usage_errors():
        require_extra("tune", "optuna", "mode=tune")
    import optuna

    return optuna


def open_study(folder: Path, run: RunSettings) -> Study:
    """The study in a folder, created if missing.

    Raises:
        CheckpointError: its journal is damaged.
    """
    optuna = require_optuna()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

    path, first = str(folder / JOURNAL), sampler(run, 0)
    lock = JournalFileOpenLock(path)
    lock.acquire()
    try:
        drop_unfinished_line(folder)
    finally:
        lock.release()
    try:
        storage = JournalStorage(JournalFileBackend(path, lock))
        study = optuna.create_study(
            study_name="rltrain",
            storage=storage,
            load_if_exists=True,
            direction="maximize" if run.tune.mode == "max" else "minimize",
            sampler=first,
            pruner=pruner(run),
        )
        study.get_trials(deepcopy=False)
    except OSError as error:
        raise StorageError(f"{shown(folder / JOURNAL)} cannot be written: {error}.") from error
    except Exception as error:  # of any kind, since Optuna takes its own records on trust
        raise damaged(folder, f"{reason(error)}.") from error
    return study


def sampler(run: RunSettings, *number: int) -> BaseSampler:
    """The sampler of ``tune.sampler`` for one trial: seeded by the trial's number, so that several
    processes, and one that continues with a study, do not suggest the same values again. A second
    number is that of a parameter.

    Raises:
        UsageError: it needs a package that is not installed.
    """
    optuna = require_optuna()
    seed = int(np.random.SeedSequence((run.seed, *number)).generate_state(1)[0])
    if run.tune.sampler == "tpe":
        return optuna.samplers.TPESampler(seed=seed, constant_liar=True, multivariate=True)
    if run.tune.sampler == "gp":
        with usage_errors():
            require_extra("tune", "scipy", "tune.sampler=gp")
        return optuna.samplers.GPSampler(seed=seed)
    return optuna.samplers.RandomSampler(seed=seed)


def pruner(run: RunSettings) -> BasePruner:
    """The pruner of ``tune.pruner``; a fifth of the training is never cut."""
    optuna = require_optuna()
    pruners, start, end = optuna.pruners, run.total_env_steps // 5, run.total_env_steps
    if run.tune.pruner == "median":
        return pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=start)
    if run.tune.pruner == "successive_halving":
        return pruners.SuccessiveHalvingPruner(min_resource=max(start, 1), reduction_factor=3)
    if run.tune.pruner == "hyperband":
        return pruners.HyperbandPruner(min_resource=max(start, 1), max_resource=end)
    return pruners.NopPruner()


def next_trial(study: Study, folder: Path, run: RunSettings) -> tuple[Trial, int] | None:
    """An interrupted trial or a new one, with its lock, which is released when it is closed; None
    if there are enough trials already.
    """
    optuna = require_optuna()
    with locked(folder / "lock"):
        trials = study.get_trials(deepcopy=False)
        running = [t for t in trials if t.state == optuna.trial.TrialState.RUNNING]
        for left in running:
            lock = try_lock(trial_dir(folder, left.number))
            if lock is not None:
                study.sampler = sampler(run, left.number)
                return optuna.trial.Trial(study, left._trial_id), lock
        if len(trials) >= run.tune.trials:
            return None
        study.sampler = sampler(run, len(trials))
        trial = study.ask()
        lock = try_lock(trial_dir(folder, trial.number))
        assert lock is not None
        return trial, lock


def suggest(study: Study, trial: Trial, space: Sequence[Parameter], run: RunSettings) -> list[str]:
    """The overrides of a trial. Each has its own seed, so that a process that continues a
    trial, of which some values are stored, suggests the others as the process before it would have.
    """
    overrides = []
    for i, parameter in enumerate(space):
        study.sampler = sampler(run, trial.number, i)
        overrides.append(parameter.suggest(trial))
    return overrides


def trial_dir(folder: Path, number: int) -> Path:
    """The run folder of a trial."""
    return folder / TRIALS / f"{number:04d}"


def try_lock(run_dir: Path) -> int | None:
    """The lock of a trial as an open file, or None if another process holds it."""
    run_dir.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(run_dir.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o644)
    if take_lock(handle):
        return handle
    os.close(handle)
    return None
