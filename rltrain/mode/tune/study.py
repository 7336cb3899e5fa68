"""An Optuna study in a folder: its journal, its samplers and pruners, and who runs which trial.

A process holds the lock of the trial that it runs, which the system releases when the process ends
in whatever way. A trial that is running and whose lock is free was interrupted: the next process
continues it from its checkpoint.

The journal, Optuna's record of all trials, is untrusted. Its values become overrides and the preset
``best.yaml``, so that only keys and values of the typed search space are taken from it.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rltrain.common.files import (
    TRIALS,
    JsonObject,
    locked,
    open_plain,
    parsed,
    take_lock,
    whole_number,
)
from rltrain.common.json_text import is_number
from rltrain.common.machine.install import require_extra
from rltrain.config.schema import RunSettings
from rltrain.errors import CheckpointError, StorageError, reason, usage_errors
from rltrain.logger.screen import shown
from rltrain.mode.tune.space import NEW, Parameter

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial

JOURNAL = "journal.log"
LOCK = "lock"
"""Held while a study or one of its trials begins."""
JOURNAL_BYTES = 1 << 30
FIRST = b'{"op_code":0,'
"""How a journal begins."""
STUDY_NAME = "rltrain"
RUNG = re.compile("completed_rung_[0-9]+")
"""Attributes of trials in which successive halving and Hyperband keep tests that they compared."""
SUGGESTED = re.compile("(tpe|gp):relative_params:[0-9]+")
"""Those in which samplers keep what they suggest for a running trial: parts of one JSON text."""


def require_optuna() -> Any:
    """The package optuna; UsageError if it is not installed."""
    with usage_errors():
        require_extra("tune", "optuna", "mode=tune")
    import optuna

    return optuna


def open_study(folder: Path, run: RunSettings) -> Study:
    """The study in a folder, created if missing; first ``require_trials``.

    Raises:
        CheckpointError: its journal is damaged.
    """
    optuna = require_optuna()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    path, first = str(folder / JOURNAL), sampler(run, 0)
    lock: Any = JournalLock(folder)
    direction = "maximize" if run.tune.mode == "max" else "minimize"
    with locked(lock.path):
        drop_unfinished_line(folder)
    with journal_errors(folder):
        storage = JournalStorage(JournalFileBackend(path, lock))
        study = optuna.create_study(
            study_name=STUDY_NAME,
            storage=storage,
            load_if_exists=True,
            direction=direction,
            sampler=first,
            pruner=pruner(run, run.total_env_steps),
        )
        study.get_trials(deepcopy=False)
    return study


@contextmanager
def journal_errors(folder: Path) -> Iterator[None]:
    """Errors of Optuna on its journal as StorageError or CheckpointError."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"{shown(folder / JOURNAL)} cannot be written: {error}.") from error
    except Exception as error:  # of any kind, since Optuna takes its own records on trust
        raise damaged(folder, f"{reason(error).rstrip('.'):.300}.") from error


class Records:
    """The whole records of a journal, in place of Optuna's backend: nothing is written."""

    def __init__(self, content: bytes) -> None:
        self.lines = content.split(b"\n")[:-1]

    def read_logs(self, log_number_from: int) -> list[JsonObject]:
        return [parsed(line.decode("utf-8")) for line in self.lines[log_number_from:]]


class JournalLock:
    """The lock of a journal, in place of Optuna's, which a killed process would leave held."""

    def __init__(self, folder: Path) -> None:
        self.path, self.held = folder / "journal.lock", ExitStack()

    def acquire(self) -> bool:
        self.held.enter_context(locked(self.path))
        return True

    def release(self) -> None:
        self.held.close()


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


def pruner(run: RunSettings, total_env_steps: int) -> BasePruner:
    """The pruner of ``tune.pruner`` for a trial of so many env steps, of which it never cuts the
    first fifth.
    """
    optuna = require_optuna()
    pruners, start, end = optuna.pruners, total_env_steps // 5, total_env_steps
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
    with locked(folder / LOCK):
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


def drop_unfinished_line(folder: Path) -> None:
    """Cut what was being written when the power or the disk failed, so that the next record does
    not become a part of it. To be called under the lock of the journal; errors as ``read_journal``.
    """
    content = read_journal(folder)
    if content and not content.endswith(b"\n"):
        with journal_errors(folder):
            os.truncate(folder / JOURNAL, content.rfind(b"\n") + 1)


def read_journal(folder: Path) -> bytes:
    """The content of a journal, empty if there is none.

    Raises:
        CheckpointError: it cannot be read, or is larger than 1 GB.
    """
    path = folder / JOURNAL
    if not os.path.lexists(path):
        return b""
    try:
        with open_plain(path, JOURNAL_BYTES) as file:
            return file.read()
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{shown(path)} cannot be read: {error}. {NEW}") from error


def damaged(folder: Path, problem: str) -> CheckpointError:
    """The error for a journal that is not what this study wrote."""
    return CheckpointError(
        f"{shown(folder / JOURNAL)} is damaged or belongs to another study: {problem} {NEW}"
    )


def require_trials(folder: Path, run: RunSettings, space: Sequence[Parameter]) -> None:
    """Check, before a file is changed, that the journal is whole but for its last line, that all
    trials belong to this search space, and that none of their runs is unknown.

    Raises:
        CheckpointError: names the trial and what is wrong with it.
    """
    numbers = [whole_number(path.name) for path in (folder / TRIALS).glob("*/")]
    trials = recorded_trials(folder, run)  # later: another process records a trial first
    for trial in trials:
        if problem := trial_problem(trial, {parameter.key: parameter for parameter in space}):
            raise damaged(folder, f"trial {trial.number}: {problem}")
    if unknown := sorted(n for n in numbers if n is not None and n >= len(trials)):
        place = shown(folder / TRIALS / f"{unknown[0]:04d}")
        raise damaged(folder, f"it lacks the trial of {place}: move that folder away.")


def recorded_trials(folder: Path, run: RunSettings) -> list[FrozenTrial]:
    """The trials in a journal, of which nothing is changed.

    Raises:
        CheckpointError: it cannot be read, is damaged, or is of a study of another kind.
    """
    from optuna.storages import JournalStorage

    content = read_journal(folder)
    if b"\n" not in content:
        if content[: len(FIRST)] != FIRST[: len(content)]:
            raise damaged(folder, "it has no records.")
        return []
    with journal_errors(folder):
        backend: Any = Records(content)
        storage = JournalStorage(backend)
        study_id = storage.get_study_id_from_name(STUDY_NAME)
        directions = [each.name.lower() for each in storage.get_study_directions(study_id)]
        attributes = storage.get_study_system_attrs(study_id)
        trials: list[FrozenTrial] = storage.get_all_trials(study_id, deepcopy=False)
    direction = "maximize" if run.tune.mode == "max" else "minimize"
    if directions != [direction]:
        raise damaged(folder, f"it does not {direction} one score, as tune.mode says.")
    if attributes:
        raise damaged(folder, f"no search sets {next(iter(attributes))!a:.80} of a study.")
    return trials


def trial_problem(trial: FrozenTrial, space: Mapping[str, Parameter]) -> str:
    """The problem with a trial, "" for none."""
    if trial.params.keys() != trial.distributions.keys():
        return "its values are not those of its distributions."
    for key, value in trial.params.items():
        if key not in space:
            return f"{key!a:.80} is not in tune.space."
        if trial.distributions[key] != space[key].distribution or not space[key].holds(value):
            return f"{key}={value!s:.80} does not lie in tune.space."
    if trial.state.name == "COMPLETE" and (missing := set(space) - set(trial.params)):
        return f"it has no {', '.join(sorted(missing))}."
    if not (isinstance(trial.user_attrs, dict) and isinstance(trial.system_attrs, dict)):
        return "its attributes are not an object."
    if not isinstance(trial.user_attrs.get("error", ""), str):
        return "its error is not text."
    if attribute := next((k for k, v in trial.system_attrs.items() if not is_known(k, v)), None):
        return f"its attribute {attribute!a:.80} is not what a sampler or a pruner sets."
    for name in ("tpe", "gp"):
        if not fits(suggested_text(trial.system_attrs, name), space):
            return f"its attribute '{name}:relative_params:0' does not lie in tune.space."
    if trial.values is None and trial.state.name == "COMPLETE":
        return "it has no score."
    values = [0.0] if trial.values is None else trial.values
    if len(values) != 1:
        return f"it has {len(values)} scores, not one."
    numbers = [*trial.intermediate_values, *trial.intermediate_values.values(), *values]
    if not all(map(is_number, numbers)):
        return "its scores are not numbers."
    return ""


def is_known(key: str, value: object) -> bool:
    """Whether a sampler or a pruner of ``tune`` sets such an attribute of a trial."""
    if RUNG.fullmatch(key):
        return is_number(value)
    return SUGGESTED.fullmatch(key) is not None and isinstance(value, str)


def suggested_text(attributes: Mapping[str, str], name: str) -> str:
    """The JSON text of what a sampler suggests for a trial, "" for none, as Optuna joins it."""
    keys = (f"{name}:relative_params:{i}" for i in itertools.count())
    return "".join(attributes[key] for key in itertools.takewhile(attributes.get, keys))


def fits(text: str, space: Mapping[str, Parameter]) -> bool:
    """Whether a JSON text is an object of keys and values of a search space."""
    try:
        values = parsed(text or "{}")
    except ValueError:
        return False
    return isinstance(values, dict) and all(
        key in space and space[key].holds(value) for key, value in values.items()
    )
