"""Typed overrides applied to the ``config.json`` of a run. The file is untrusted data: no
interpolation in it is resolved, and only classes that rltrain ships or the user trusts are built.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from hydra.core.override_parser.types import Sweep

from rltrain.common import checkpoint
from rltrain.common.checkpoint.opponent_files import BUILTIN, kept_file, kept_opponent
from rltrain.common.files import JsonObject, get_json, json_object
from rltrain.common.json_text import entry_name
from rltrain.config.catalog import PRESETS, SHIPPED, MutableTree, Tree
from rltrain.config.command_line import shell_word
from rltrain.config.overrides import (
    Leaves,
    flat_keys,
    parse,
    part_targets,
    pick,
    put,
    set_value,
    typed_leaves,
    typed_targets,
    with_targets,
)
from rltrain.config.schema import Settings
from rltrain.config.trust import (
    ENVS,
    FILES,
    NOT_LOADED,
    acts,
    gate,
    key_kind,
    leave_out,
    refuse_interpolations,
)
from rltrain.config.validate.mode_keys import differing
from rltrain.errors import CheckpointError, UsageError

CONFIG_BYTES = 1 << 24
"""A larger ``config.json`` is not read."""
OPPONENTS = ("env.opponent", "test.opponent")
"""The keys that name one opponent."""
OF_TRAINING = ("callbacks", "dataset", "stop", "self_play", "checkpoint", "load_step")
"""Keys that a run does not keep when it is loaded to act."""
NEW_RUN = (
    "To train on with other settings, start a new run from these weights: rltrain "
    "checkpoint=RUN_FOLDER algo=… env=… key=value."
)
"""Advice where an override would change a setting that a resumed run keeps."""


def read_config(path: Path) -> JsonObject:
    """A run's ``config.json``: untrusted data that is neither composed nor resolved.

    Raises:
        CheckpointError: unreadable, not a JSON object, or an interpolation in it.
    """
    try:
        tree = get_json(path, CONFIG_BYTES)
    except (FileNotFoundError, IsADirectoryError) as error:
        names = SHIPPED.options("algo")
        other = f" The algorithm is algo={path.name}." if path.name in names else ""
        raise CheckpointError(
            f"{path} is {'a folder' if path.is_dir() else 'not there'}: expected the config.json "
            f"of a run, such as outputs/<algo>-<env>/<run>/config.json.{other}"
        ) from error
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read as JSON: {error}.") from error
    if not isinstance(tree, dict):
        raise CheckpointError(f"{path}: expected a JSON object, got {type(tree).__name__}.")
    refuse_interpolations(tree, path)
    return tree


def load_config(
    file: Path, overrides: Sequence[str], *, learns: bool, env: bool = True, resumes: bool = False
) -> tuple[MutableTree, dict[str, str], list[str]]:
    """Read a run's configuration and apply the typed overrides; only classes that may be built
    remain. The ``trust`` in the file does not count, only the typed one.

    Args:
        learns: keep its callbacks and the parts that only learning needs; without them their
            classes need no trust, and cannot be built.
        env: keep its environment's class; without it that needs no trust, and cannot be built.
        resumes: the run itself is to go on, and what is wrong says so.

    Returns:
        the configuration, the chosen options, and the typed keys that differ from the file: of a
        mapping those inside.

    Raises:
        CheckpointError: the file cannot be read or names classes that are not trusted.
        UsageError: overrides that do not fit it; NotTypedError: keys that must be typed.
    """
    saved = read_config(file)
    choices = saved.pop("choices", None)
    if not isinstance(choices, dict) or not {"algo", "env"} <= set(choices):
        raise CheckpointError(f"{file} has no choices of algo and env.")
    for group in ("algo", "env"):  # in the name of a new run's folder
        try:
            for part in (*str(choices[group]).split("/"), str(choices[group]).replace("/", "-")):
                entry_name(part)
        except ValueError as error:
            raise CheckpointError(
                f"{file}: its choice of {group} is {error}. Expected a name as in mode=list."
            ) from error
    shipped = SHIPPED.tree("config")
    for name, default in shipped.items():  # keys that an earlier version did not have
        if isinstance(default, dict) and isinstance(saved.get(name), dict):
            saved[name] = default | saved[name]
    saved |= {name: shipped[name] for name in (*NOT_LOADED, *(() if learns else OF_TRAINING))}
    if not learns:
        if isinstance(saved.get("test"), dict):
            saved["test"] |= {"function": None, "video_interval": None, "record": "video"}
            saved["test"]["opponent"] = saved["test"].get("opponent", BUILTIN) if env else BUILTIN
        if isinstance(saved.get("env"), dict) and "opponent_epsilon" in saved["env"]:
            saved["env"] |= {"opponent": BUILTIN, "opponents": None}
        for key in ("buffer.folder", "hardware.address"):
            if pick(saved, key) is not None:
                put(saved, key, None)
        if pick(saved, "hardware.worker_resources"):
            put(saved, "hardware.worker_resources", {})
    repeats = choices if learns and not resumes else None
    tree, changed = apply(overrides, saved, resumes=resumes, repeats=repeats)
    if resumes:
        changed = [key for key in changed if not same_place(key, pick(saved, key), pick(tree, key))]
    trust = tree["trust"]
    if not isinstance(trust, list) or not all(isinstance(name, str) for name in trust):
        typed_text = trust if isinstance(trust, str) else "my_package"
        raise UsageError(f"trust={trust}: expected a list of packages. Type trust=[{typed_text}].")
    typed, run_dir = typed_leaves(parse(overrides)), file.parent
    as_saved = {tuple(k.split(".")) for k in FILES if k not in changed} if resumes else set()
    run_dir = run_dir.parents[1] if run_dir.parent.name in ("checkpoints", "pool") else run_dir
    begun = resumes and checkpoint.resumable(run_dir / "checkpoints")
    other = {names: value for names, value in typed.items() if names not in as_saved}
    unused = use_kept_copies(tree, other, run_dir) + (["checkpoint"] if begun else [])
    left_out = [part for part, target in part_targets(tree) if not (learns or acts(part, target))]
    left_out += () if env else ENVS
    gate(tree, file, trust=trust, typed=typed, left_out=left_out, unused=unused)
    leave_out(tree, left_out)
    picked: dict[str, Any] = {str(k): v if v is None else str(v) for k, v in choices.items()}
    return tree, picked, changed


def same_place(key: str, *values: object) -> bool:
    """Whether two values of a key are one path: typed absolute, and saved from the folder that the
    run was begun in.
    """
    if key_kind(tuple(key.split("."))) not in ("file", "place") or not all(
        isinstance(x, str) for x in values
    ):
        return False
    one, other = (Path(str(value)).absolute() for value in values)
    return os.path.normpath(one) == os.path.normpath(other)


def use_kept_copies(tree: MutableTree, typed: Leaves, run_dir: Path) -> list[str]:
    """Put the copies in a run's folder in place of files and opponents that were not typed; returns
    their keys.
    """
    kept = {key: kept_file(run_dir, key) for key in FILES if pick(tree, key) is not None}
    for key in OPPONENTS:
        if isinstance(opponent := pick(tree, key), str):
            kept[key] = kept_opponent(run_dir, opponent)
    keys = [k for k, copy in kept.items() if copy is not None and tuple(k.split(".")) not in typed]
    for key in keys:
        put(tree, key, str(kept[key]))
    several = pick(tree, "env.opponents")
    if isinstance(several, dict) and not any(at[:2] == ("env", "opponents") for at in typed):
        copies = {one: kept_opponent(run_dir, one) for one in several}
        tree["env"]["opponents"] = {str(copies[one] or one): several[one] for one in several}
        keys += [f"env.opponents.{copy}" for copy in copies.values() if copy is not None]
    return keys


def config_text(settings: Settings, run_dir: Path) -> str:
    """``config.json`` in the folder of a run. One that is resumed plays with copies in that folder;
    the files and opponents that it was begun with stay named.
    """
    record, old = deepcopy(settings.record), json_object(run_dir / "config.json")
    named = {kept_file(run_dir, key): pick(old, key) for key in FILES}
    several = pick(old, "env.opponents")
    opponents = [pick(old, key) for key in OPPONENTS]
    opponents += several if isinstance(several, dict) else ()
    named |= {kept_opponent(run_dir, one): one for one in opponents if isinstance(one, str)}
    typed = {str(copy.resolve()): original for copy, original in named.items() if copy is not None}

    def original(value: object) -> object:
        return typed.get(str(Path(value).resolve()), value) if isinstance(value, str) else value

    for key in (*FILES, *OPPONENTS):
        if (value := pick(record, key)) is not None:
            put(record, key, original(value))
    if isinstance(several := pick(record, "env.opponents"), dict):
        put(record, "env.opponents", {original(one): share for one, share in several.items()})
    return json.dumps(record, indent=1)


def apply(
    overrides: Sequence[str],
    saved: Tree,
    *,
    resumes: bool = False,
    repeats: Mapping[str, object] | None = None,
) -> tuple[MutableTree, list[str]]:
    """Apply typed ``key=value`` overrides to a saved configuration.

    Args:
        resumes: as in ``load_config``.
        repeats: the choices of a run that another one is to repeat.

    Returns:
        the new configuration, and the typed keys that differ from the saved one, of a mapping those
        inside.

    Raises:
        UsageError: new keys and group choices, both refused.
    """
    from rltrain.config.names import key_problem

    problems, parsed = [], parse(overrides)
    custom = typed_targets(parsed)
    tree = json.loads(json.dumps(with_targets(saved, custom)))
    for o in parsed:
        if isinstance(o.value(), Sweep):
            problems.append(f"{o.input_line}: a loaded run takes one value per key.")
        elif o.key_or_group in SHIPPED.groups and o.key_or_group != "tune":  # of no run
            problems.append(choice_problem([str(o.input_line)], o.key_or_group, resumes, repeats))
        elif "${" in str(o.input_line):
            problems.append(f"{o.input_line}: a loaded run resolves no ${{…}}. Type the value.")
        elif wrong := key_problem(o, tree, custom, SHIPPED):
            if home := find_choice(o.key_or_group, tree):
                typed, group = [home, str(o.input_line)], home.partition("=")[0]
                why = choice_problem(typed, group, resumes, repeats)
                wrong = [f"Unknown key '{o.key_or_group}'. It is a key of {home}. {why}"]
            problems += wrong
        else:
            set_value(tree, o)
    if problems:
        raise UsageError("\n".join(problems))
    keys = dict.fromkeys(o.key_or_group for o in parsed)
    changed = [leaf for k in keys for leaf in differing(pick(saved, k), pick(tree, k), k)]
    return tree, list(dict.fromkeys(changed))


def find_choice(key: str, tree: Tree) -> str | None:
    """The choice of a group, other than those of ``tree``, that has a key; None: there is none."""
    takes_any = key.startswith("env.") and pick(tree, "env.kwargs") is not None
    homes = [] if takes_any or key in flat_keys(tree) else SHIPPED.homes.get(key, [])
    return next(iter(homes), None)


def choice_problem(
    overrides: Sequence[str], group: str, resumes: bool, repeats: Mapping[str, object] | None
) -> str:
    """Return the message about another option for a loaded run, with what to type instead."""
    typed = " ".join(map(shell_word, overrides))
    if repeats is not None:
        others = " ".join(shell_word(f"{g}={repeats[g]}") for g in ("algo", "env") if g != group)
        return (
            f"{typed}: config= repeats a run with its {group}. For another one leave config= out: "
            f"rltrain {others} {typed}, and the other overrides of that run, which are in "
            ".hydra/overrides.yaml in its folder."
        )
    part = "algo" if group in PRESETS else group.replace("/", ".")
    single = f" Set single keys, such as {part}.NAME=VALUE."
    if not resumes:
        return f"{typed}: a loaded run keeps its {group}.{single}"
    allowed = single if group in ("hardware", "logger") else ""
    return f"{typed}: a resumed run keeps its {group}.{allowed} {NEW_RUN}"
