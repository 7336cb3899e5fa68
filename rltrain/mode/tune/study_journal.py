"""``journal.log`` of a study: Optuna's record of all trials, which is untrusted.

Its values become overrides and the preset ``best.yaml``, so that only keys and values of the typed
search space are taken from it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rltrain.common.files import TRIALS, number_of, open_plain
from rltrain.common.json_text import is_number
from rltrain.errors import CheckpointError
from rltrain.logger.screen import shown
from rltrain.mode.tune.space import Parameter

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial

FILE = "journal.log"
JOURNAL_BYTES = 1 << 30
NEW = "Type tune.dir=FOLDER for a new study."


def drop_unfinished_line(folder: Path) -> None:
    """Cut what was being written when the power or the disk failed, so that the next record does
    not become a part of it. To be called under Optuna's lock.

    Raises:
        CheckpointError: the file cannot be read, or is larger than 1 GB.
    """
    path = folder / FILE
    if not os.path.lexists(path):
        return
    try:
        with open_plain(path, JOURNAL_BYTES) as file:
            size = length = file.seek(0, os.SEEK_END)
            while length:
                start = max(length - (1 << 16), 0)
                file.seek(start)
                end = file.read(length - start).rfind(b"\n")
                length = start + end + 1
                if end >= 0:
                    break
        if length < size:
            os.truncate(path, length)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{shown(path)} cannot be read: {error}. {NEW}") from error


def damaged(folder: Path, problem: str) -> CheckpointError:
    """The error for a journal that is not what this study wrote."""
    return CheckpointError(
        f"{shown(folder / FILE)} is damaged or belongs to another study: {problem} {NEW}"
    )


def require_trials(study: Study, folder: Path, space: Sequence[Parameter]) -> None:
    """Check that all trials belong to this search space, and that none of their runs is unknown.

    Raises:
        CheckpointError: names the trial and what is wrong with it.
    """
    numbers = [number_of(path.name) for path in (folder / TRIALS).glob("*/")]
    trials = study.get_trials(deepcopy=False)  # later: another process records a trial first
    for trial in trials:
        if problem := problem_of(trial, {parameter.key: parameter for parameter in space}):
            raise damaged(folder, f"trial {trial.number}: {problem}")
    if unknown := sorted(n for n in numbers if n is not None and n >= len(trials)):
        place = shown(folder / TRIALS / f"{unknown[0]:04d}")
        raise damaged(folder, f"it lacks the trial of {place}: move that folder away.")


def problem_of(trial: FrozenTrial, space: dict[str, Parameter]) -> str:
    """The problem with a trial, "" for none."""
    for key, value in trial.params.items():
        if key not in space:
            return f"{key!r} is not in tune.space."
        if trial.distributions[key] != space[key].distribution or not space[key].holds(value):
            return f"{key}={value} does not lie in tune.space."
    if trial.state.name == "COMPLETE" and (missing := set(space) - set(trial.params)):
        return f"it has no {', '.join(sorted(missing))}."
    numbers = [*trial.intermediate_values.values(), *(trial.values or ())]
    if not all(map(is_number, numbers)):
        return "its scores are not numbers."
    return ""
