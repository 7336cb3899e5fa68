"""What can go wrong in a way that a person can mend: each kind has its exit code."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class RltrainError(Exception):
    """One clear paragraph for the person at the keyboard: what was wrong, expected, got, what to
    type.
    """

    exit_code = 1


class UsageError(RltrainError):
    """A wrong command or configuration; nothing was written."""

    exit_code = 2


class CheckpointError(RltrainError):
    """A checkpoint or run folder that cannot be trusted or read."""

    exit_code = 3


class DatasetError(RltrainError):
    """A dataset that cannot be trusted or read."""

    exit_code = 3


class WorldError(RltrainError):
    """The environment or a worker is broken beyond the retry budget."""

    exit_code = 4


class DivergedError(RltrainError):
    """Learning diverged; the last good checkpoint is kept."""

    exit_code = 5


class Interrupted(Exception):
    """A test was left because the run is to end."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`` Did you mean 'qmix'?`` for the nearest known name, or nothing."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" Did you mean '{near[0]}'?" if near else ""
