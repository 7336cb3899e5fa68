"""A process of a study: takes trials until there are enough, trains each, and reports its tests."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rltrain.callback import Callback
from rltrain.callback.training import Training
from rltrain.common.files import JsonObject
from rltrain.config.compose import compose_checked
from rltrain.config.hydra_sweep import fixed_settings
from rltrain.config.schema import RunSettings
from rltrain.errors import (
    SIGNAL_CODES,
    CheckpointError,
    RltrainError,
    UsageError,
    failure,
    is_of_machine,
)
from rltrain.logger.metric_files import read_rows
from rltrain.logger.screen import Screen
from rltrain.mode.resume_settings import require_run_of
from rltrain.mode.run_folder import holds_run
from rltrain.mode.sweep.plan import digest
from rltrain.mode.train import run_training
from rltrain.mode.tune.space import Parameter
from rltrain.mode.tune.study import next_trial, open_study, pruner, suggest, trial_dir

if TYPE_CHECKING:
    from optuna import Study, Trial

MOST_KILLS = 3
"""Processes of one trial that are killed before it counts as failed."""


@dataclass(frozen=True)
class StudySetup:
    """The settings of a study that each of its processes is given."""

    folder: Path
    overrides: tuple[str, ...]  # of training, without what is searched
    space: tuple[Parameter, ...]
    run: RunSettings
    config_sha256: str  # of ``config_digest``


def config_digest(overrides: Sequence[str]) -> str:
    """SHA-256 of the configuration that overrides compose to, without the node ``tune``."""
    settings = fixed_settings(overrides, compose_checked(overrides))
    return digest([replace(settings, plain={**settings.plain, "tune": None})])


def require_unchanged(job: StudySetup) -> None:
    """UsageError if files of the configuration have changed since the study began."""
    if config_digest(job.overrides) != job.config_sha256:
        raise UsageError(
            f"{job.folder} holds a study of the same overrides with other settings: files of the "
            "configuration (a preset, those of --config-dir, or shipped ones) have changed since "
            "it began. Put them back, or type tune.dir=FOLDER for a new study."
        )


class ReportTests(Callback):
    """Reports every test to a trial of Optuna, and ends the run when the trial is to be pruned. A
    test that a process had reported before it was killed is not reported again, but it may still
    be the last one.
    """

    def __init__(self, trial: Trial, metric: str) -> None:
        self.trial, self.metric = trial, metric
        self.known = set(trial.study.get_trials(deepcopy=False)[trial.number].intermediate_values)
        self.pruned = False

    def on_train_start(self, trainer: Training, value: None = None) -> None:
        self.prune(trainer)

    def on_test_end(self, trainer: Training, value: dict[str, float]) -> dict[str, float]:
        name, step = metric_name(self.metric, value), trainer.tests.clock.env_steps
        if name in value and np.isfinite(value[name]):
            if step not in self.known:
                self.trial.report(value[name], step)
                self.known.add(step)
            self.prune(trainer)
        return value

    def prune(self, trainer: Training) -> None:
        """End the run if its last test was just made and is worse than those of other trials."""
        latest = trainer.tests.clock.env_steps == max(self.known, default=None)
        if latest and not self.pruned and self.trial.should_prune():
            self.pruned = True
            trainer.stop("pruned: its tests are worse than those of other trials")


def settings_text(params: Mapping[str, object]) -> str:
    """The values of a trial, short enough to be read."""
    values = {k: f"{v:.4g}" if isinstance(v, float) else str(v) for k, v in params.items()}
    return " ".join(f"{k.rpartition('.')[2]}={v}" for k, v in values.items())


def metric_name(metric: str, value: Collection[str]) -> str:
    """The metric that is optimized; ``auto`` is the win rate where there is one."""
    if metric != "auto":
        return metric
    return "test/win_rate" if "test/win_rate" in value else "test/return_mean"


def work(job: StudySetup) -> int:
    """Run trials until the study has enough; returns the exit code."""
    study = open_study(job.folder, job.run)
    screen = Screen()
    while (claimed := next_trial(study, job.folder, job.run)) is not None:
        trial, lock = claimed
        kills = os.fstat(lock).st_size  # one byte for each process that was killed
        try:
            require_unchanged(job)
            if kills >= MOST_KILLS:
                problem = f"{kills} of its processes were killed (is there too little memory?)"
                failed(study, trial, problem)
                screen.lines(f"trial {trial.number} failed: {problem}. It is not tried again.")
                continue
            os.pwrite(lock, b"k", kills)
            code = run_trial(job, study, trial, screen)
        finally:
            os.ftruncate(lock, kills)
            os.close(lock)
        if code in SIGNAL_CODES.values():
            return code
    return 0


def run_trial(job: StudySetup, study: Study, trial: Trial, screen: Screen) -> int:
    """Train one trial, or the rest of an interrupted one, and tell the study how it ended."""
    overrides = suggest(study, trial, job.space, job.run)
    run_dir = trial_dir(job.folder, trial.number)
    again = holds_run(run_dir)
    screen.lines(
        f"trial {trial.number} {'continues' if again else 'begins'}: {settings_text(trial.params)}"
    )
    try:
        require_run_of([*job.overrides, *overrides], run_dir)
        composed = compose_checked([*job.overrides, *overrides])
        settings = composed.settings()
        study.pruner = pruner(job.run, settings.run.total_env_steps)
        report = ReportTests(trial, job.run.tune.metric)
        done = run_training(
            settings,
            run_dir,
            files=composed.files(run_dir),
            resume=again,
            loud=False,
            callbacks=[report],
        )
    except RltrainError as error:
        require_of_trial(error, again)
        failed(study, trial, str(error))
        if no_result(study):
            raise
        screen.lines(f"trial {trial.number} failed: {error}")
        return error.exit_code
    if done.exit_code in SIGNAL_CODES.values():
        screen.lines(f"trial {trial.number} is interrupted; the same command continues it.")
    elif done.error is not None:
        require_of_trial(done.error, again)
        failed(study, trial, failure(done.error))
        screen.lines(f"trial {trial.number} failed: {failure(done.error)}")
    else:
        tell(job, study, trial, report.pruned, screen)
    return done.exit_code


def require_of_trial(error: BaseException, again: bool) -> None:
    """Raise an error that does not come from the values of a trial, which stays interrupted.

    Args:
        again: the trial was interrupted before.
    """
    if is_of_machine(error) or (again and isinstance(error, CheckpointError)):
        raise error


def no_result(study: Study) -> bool:
    """Whether no trial has a result so far."""
    states = {t.state.name for t in study.get_trials(deepcopy=False)}
    return not states & {"COMPLETE", "PRUNED"}


def tell(job: StudySetup, study: Study, trial: Trial, pruned: bool, screen: Screen) -> None:
    """Tell the study the score of a trial that finished, the mean of its last tests, or that
    it was pruned.

    Raises:
        UsageError: no trial has a score so far, since tests do not report the metric.
    """
    from optuna.trial import TrialState

    metric, score = job.run.tune.metric, trial_score(trial_dir(job.folder, trial.number), job.run)
    if pruned:
        study.tell(trial, state=TrialState.PRUNED)
        screen.lines(f"trial {trial.number} pruned at {score:g}")
    elif np.isfinite(score):
        study.tell(trial, score)
        best = study.best_trial
        screen.lines(f"trial {trial.number}: {score:g} (best {best.value:g}, trial {best.number})")
    else:
        rows = read_tests(trial_dir(job.folder, trial.number))
        names = ", ".join(sorted({name for row in rows for name in row if "/" in name}))
        known = any(metric_name(metric, row) in row for row in rows)
        problem = f"no test of trial {trial.number} reported it"
        if known:
            problem = "it was not a finite number in one of the last tests"
        reason = f"tune.metric={metric}: {problem}"
        failed(study, trial, reason)
        if not known and no_result(study):
            raise UsageError(f"{reason}. Expected one of {names}: type tune.metric=NAME.")
        screen.lines(f"trial {trial.number} failed: {reason}")


def trial_score(run_dir: Path, run: RunSettings) -> float:
    """The mean of the last tests of a trial; NaN if it has none, or one was not finite."""
    pairs = [(metric_name(run.tune.metric, row), row) for row in read_tests(run_dir)]
    values = [row[name] for name, row in pairs if name in row][-run.tune.last_tests :]
    return float(np.mean(np.array(values, float))) if values else np.nan


def read_tests(run_dir: Path) -> list[JsonObject]:
    """The tests of a run."""
    rows = read_rows(run_dir / "metrics.jsonl")
    return [row for row in rows if any(name.startswith("test/") for name in row)]


def failed(study: Study, trial: Trial, reason: str) -> None:
    """Tell the study that a trial failed."""
    from optuna.trial import TrialState

    trial.set_user_attr("error", reason)
    study.tell(trial, state=TrialState.FAIL)
