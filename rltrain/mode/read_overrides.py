"""Read the overrides of a command: settings of a run, or a checkpoint."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rltrain.common.files import require_possible
from rltrain.config.overrides import PATH_KEYS, typed_value
from rltrain.config.schema import Settings
from rltrain.errors import UsageError

OF_MODES = {"runs": "report", "report": "report", "tune": "tune", "hub": "push"}
"""Settings that only one mode reads, by the first part of their key."""
TYPED_ONCE = ("mode", "load_step", *PATH_KEYS)
"""Keys that choose a command and its files. Of other keys the last value counts."""


def require_paths(overrides: Sequence[str]) -> None:
    """UsageError for paths that no file system takes, and for empty ones, which would mean the
    folder that the command is typed in.
    """
    for key, _, value in (override.partition("=") for override in overrides):
        if key.lstrip("+") in PATH_KEYS and not value:
            raise UsageError(f"{key}=: expected a path, got nothing. Type it, or leave it out.")
        if key.lstrip("+") in PATH_KEYS and not value.startswith("["):
            require_possible(Path(value), key.lstrip("+"))


def require_once(overrides: Sequence[str]) -> None:
    """UsageError for two values of what a command does, or of a file it reads or writes."""
    keys = {override: override.lstrip("+").partition("=")[0] for override in overrides}
    for key in TYPED_ONCE:
        typed = [override for override in overrides if keys[override] == key]
        if len(typed) > 1:
            raise UsageError(f"{key} is typed twice ({', '.join(typed)}). Keep one of them.")


def require_effect(overrides: Sequence[str]) -> None:
    """UsageError for settings that a new run does not read."""
    for override in overrides:
        mode = OF_MODES.get(re.split(r"[.=]", override.lstrip("+"))[0])
        if mode is not None:
            raise UsageError(
                f"{override}: only for mode={mode}. Leave it out, or type mode={mode}."
            )


def require_training(settings: Settings) -> None:
    """UsageError for settings that ask for another mode, or to resume a run, which takes effect
    only where it is typed: nothing is composed before.
    """
    run = settings.run
    asked = [f"mode={run.mode}"] if run.mode != "train" else []
    asked += [f"resume={run.resume}"] if run.resume is not None else []
    if asked:
        raise UsageError(
            f"{asked[0]} takes effect only where it is typed, and not in a file, in a sweep or in "
            f"quotes. Leave it out there, or type rltrain {asked[0]}."
        )


def loaded(
    overrides: Sequence[str], names: Sequence[str] = ("best",)
) -> tuple[str | None, Any, list[str]]:
    """The checkpoint that was typed, its step (of a whole number or one of ``names``; UsageError
    for others), and the other overrides.
    """
    path, load_step = typed_value(overrides, "checkpoint"), typed_value(overrides, "load_step")
    whole = isinstance(load_step, int) and not isinstance(load_step, bool)
    if path is not None and not (whole or load_step in (None, *names)):
        listed = " or ".join(names)
        raise UsageError(
            f"load_step={load_step}: expected the env step of a checkpoint, or {listed}."
        )
    others = other_overrides(overrides, ("mode", "load_step", "checkpoint"), ("resume",))
    return None if path is None else str(path), load_step, others


def other_overrides(
    overrides: Sequence[str], about: Sequence[str], never: Sequence[str]
) -> list[str]:
    """The overrides without those in ``about``; UsageError for any of ``never``, which have no
    effect beside them.
    """
    names = {override: override.partition("=")[0] for override in overrides}
    if unused := [override for override, name in names.items() if name in never]:
        raise UsageError(
            f"{', '.join(unused)}: not used together with {about[-1]}=. Leave out one of them."
        )
    return [override for override, name in names.items() if name not in about]
