"""The settings that a resume keeps: not typed otherwise, and as the newest checkpoint has them. Its
``config.json`` has a checksum; that in the run's folder can be edited, or decay.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rltrain.common import checkpoint
from rltrain.common.checkpoint.opponent_files import FOLDER, opponent_name
from rltrain.common.checkpoint.run_checkpoints import list_steps, read_kind, stored_manifest
from rltrain.common.files import digest, json_object
from rltrain.common.machine.places import SWEEP, enclosing, require_writable
from rltrain.config.catalog import PRESETS, Tree
from rltrain.config.command_line import shell_word
from rltrain.config.overrides import Leaves, leaves, parse, parse_one, typed_leaves
from rltrain.config.saved_config import NEW_RUN, load_config, read_config
from rltrain.config.schema import Settings
from rltrain.config.trust import HANDED_OVER, key_kind
from rltrain.config.validate.checker import check
from rltrain.errors import CheckpointError, UsageError
from rltrain.logger.screen import shown
from rltrain.mode.find_run import find_run, typed_path
from rltrain.mode.run_folder import COPY

log = logging.getLogger("rltrain")
KEPT_ON_RESUME = (
    "seed",
    "env.",
    "algo.",
    "buffer.",
    "dataset.",
    "self_play.",
    "checkpoint",
    "load_step",
    "hardware.n_envs",
    "hardware.n_workers",
    "hardware.overlap",
)
"""Keys that a resume cannot change: it would no longer be the same run."""
LONGEST = 10_000
"""Characters of an override that is taken from a file: a longer one takes minutes to parse."""
MOVES = ("file", "place", "command")
"""Kinds of keys whose values lead to what may have moved."""


def resumed_settings(
    path: str | Path, overrides: Sequence[str], *, env: bool = True
) -> tuple[Settings, Path]:
    """The settings and the folder of a run that continues in its own folder.

    Args:
        path: a run folder, a folder of runs for the newest one, or ``latest``.
        overrides: what changes; not what makes it this run.
        env: build the environment that its configuration names.

    Raises:
        RltrainError: the run cannot continue; the folder is as it was.
    """
    run_dir = find_run(path)
    whole = enclosing(run_dir)
    if whole and not typed_path(path).is_relative_to(run_dir):
        again = "the command of the search, typed again,"
        again = shell_word(f"resume={shown(whole)}") if (whole / SWEEP).exists() else again
        text = "Only %s is resumed, the newest run below %s: %s continues the others of %s too."
        log.warning(text, shown(run_dir), path, again, shown(whole))
    config = run_dir / "config.json"
    tree, choices, changed = load_config(config, overrides, learns=True, env=env, resumes=True)
    refuse_changes(changed, overrides)
    require_saved_settings(run_dir)
    require_writable(run_dir, advice=COPY)
    saved = replace(check(tree, choices, {}, overrides), resumes_from=run_dir / "checkpoints")
    return replace(saved, typed=frozenset(changed)), run_dir


def refuse_changes(changed: Sequence[str], overrides: Sequence[str]) -> None:
    """UsageError for changed keys without which a resumed run would not be the run it was, and the
    overrides that change them.
    """
    bad = [k for k in changed if k.startswith(KEPT_ON_RESUME)]
    if bad:
        keys = zip(overrides, (f"{o.key_or_group}." for o in parse(overrides)), strict=True)
        typed = [text for text, key in keys if any(f"{k}.".startswith(key) for k in bad)]
        raise UsageError(
            f"A resumed run keeps its {', '.join(bad)}: leave out "
            f"{', '.join(map(shell_word, typed))}. {NEW_RUN}"
        )


def require_saved_settings(run_dir: Path) -> None:
    """Refuse a ``config.json`` that would make a resumed run another one.

    Raises:
        CheckpointError: the first setting that differs, with both values.
    """
    path = run_dir / "config.json"
    step, saved = newest_config(run_dir / "checkpoints")
    if step is None:
        return
    now, then = kept_settings(read_config(path)), kept_settings(saved)
    for names in {**then, **now}:
        added = names not in then and key_kind(names) != "free"  # a key of a newer version
        if not added and now.get(names) != then.get(names):
            here, there = (json.dumps(each.get(names))[:200] for each in (now, then))
            raise CheckpointError(
                f"{path} says {'.'.join(names)}={here}, the run's checkpoint {step} says {there}: "
                f"put it back. {NEW_RUN}"
            )


def require_run_of(overrides: Sequence[str], run_dir: Path) -> None:
    """Refuse a folder whose ``config.json`` has other values of the keys of these overrides that a
    resume keeps, if they are of the type that was typed.

    Raises:
        CheckpointError: the first key that differs, with both values.
    """
    config = json_object(run_dir / "config.json")
    groups = config["choices"].items() if isinstance(config.get("choices"), dict) else ()
    saved = {**kept_settings(config)}
    saved |= {(group,): one for group, one in groups if group not in (*PRESETS, "logger")}
    short = (parse_one(text) for text in overrides if len(text) <= LONGEST)
    for names, typed in typed_leaves([o for o in short if o and not o.is_delete()]).items():
        there, key = saved.get(names, typed), ".".join(names)
        alike = type(typed) is type(there) or None in (typed, there)
        alike = alike or {type(typed), type(there)} == {int, float}
        resolved = "${" in str(typed) or key.startswith("env.opponent")
        if alike and typed != there and not resolved:
            raise CheckpointError(
                f"{shown(run_dir)} holds another run: its config.json says {key}="
                f"{json.dumps(there)[:200]}, and {key}={json.dumps(typed)[:200]} belongs into this "
                "folder. Put the right folder there, or move it away to begin its run again."
            )


def newest_config(checkpoints: Path) -> tuple[int | None, Tree]:
    """The configuration in the newest full checkpoint in which it is not damaged, and its env step;
    None without one.
    """
    for step in list_steps(checkpoints):
        folder, name = checkpoints / str(step), f"{checkpoint.CONFIG}.json"
        if read_kind(folder) == "full":
            try:
                if digest(folder / name) == stored_manifest(folder)["files"][name]["sha256"]:
                    return step, checkpoint.read(folder, checkpoint.CONFIG)
            except (OSError, ValueError, KeyError, TypeError, CheckpointError):
                continue  # the restore skips it too
    return None, {}


def kept_settings(config: Tree) -> Leaves:
    """Settings that a resume keeps, by the names that lead to them, without those that may change;
    opponents by name, since their copies in the run's folder take their place.
    """
    kept: dict[tuple[str, ...], Any] = {}
    for names, value in leaves(config):
        if not ".".join(names).startswith(KEPT_ON_RESUME) or key_kind(names) in MOVES:
            continue
        if names[:2] == ("env", "opponents"):
            names = (*names[:2], *map(plain_name, names[2:]))
        elif names == ("env", "opponent") and isinstance(value, str):
            value = plain_name(value)
        elif names == ("env", "maker") and config["env"].get("_target_") == HANDED_OVER:
            continue  # it is passed again
        kept[names] = value
    return kept


def plain_name(opponent: str) -> str:
    """The name of an opponent, the same for its copy."""
    return opponent_name(opponent).removeprefix(f"{FOLDER}-")
