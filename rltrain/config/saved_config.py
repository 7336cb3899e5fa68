"""Typed overrides over the ``config.json`` of a run, which is data from somewhere else: nothing in
it is resolved, and only classes that rltrain ships or the user trusts are built.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.core.override_parser.types import Sweep
from omegaconf import OmegaConf

from rltrain.config.catalog import Catalog, conf_dir
from rltrain.config.names import key_problem
from rltrain.config.overrides import parse, set_value, typed_targets, with_targets
from rltrain.config.tree import pick
from rltrain.config.trust import leave_out, read_config, refuse_foreign_targets, shipped_targets
from rltrain.errors import CheckpointError, UsageError


def load_config(
    file: Path, overrides: Sequence[str], *, learns: bool, env: bool = True
) -> tuple[dict[str, Any], dict[str, str], list[str]]:
    """A run's configuration with the typed overrides applied, and only classes that may be built.

    A file cannot vouch for itself: what counts is the ``trust`` that was typed.

    Args:
        learns: keep its callbacks and the parts that only learning needs; without them their
            classes need no trust, and cannot be built.
        env: keep its environment's class; without it that needs no trust, and cannot be built.

    Returns:
        the configuration, the chosen options, and the keys that differ from the file.

    Raises:
        CheckpointError: the file cannot be read or names classes that are not trusted.
        UsageError: overrides that do not fit it.
    """
    saved = read_config(file)
    choices = saved.pop("choices", None)
    if not isinstance(choices, dict) or not {"algo", "env"} <= set(choices):
        raise CheckpointError(f"{file} does not say which algo and env were chosen.")
    shipped = OmegaConf.to_container(OmegaConf.load(conf_dir() / "config.yaml"), resolve=False)
    assert isinstance(shipped, dict)
    saved["trust"] = []
    saved["record"] = False
    saved["config"] = None
    tests = saved.get("test")
    if isinstance(tests, dict):  # keys that older runs do not have
        saved["test"] = {"env": {}, "function": None, **tests}
    saved.setdefault("dataset", shipped["dataset"])  # older runs know nothing of it
    if not learns:
        saved["callbacks"] = []
        saved["dataset"] = shipped["dataset"]  # what training wrote or read is its own affair
        if isinstance(tests, dict):
            saved["test"]["function"] = None
        if isinstance(saved.get("stop"), dict):  # it may wait for what that function says
            saved["stop"] = shipped["stop"]
    tree, changed = apply(overrides, saved, with_newer_keys(saved, str(choices["env"])))
    leave_out(tree, learns=learns, env=env)
    trust = tree["trust"]
    if not isinstance(trust, list) or not all(isinstance(name, str) for name in trust):
        raise UsageError(f"trust={trust}: expected a list of packages, such as trust=[my_package].")
    refuse_foreign_targets(tree, trust, file, shipped_targets(conf_dir()))
    picked: dict[str, Any] = {str(k): v if v is None else str(v) for k, v in choices.items()}
    return tree, picked, changed


def with_newer_keys(saved: Mapping[str, Any], env: str) -> Mapping[str, Any]:
    """A saved configuration and the keys that its environment has got since then."""
    files = {p.stem: p for p in (conf_dir() / "env").glob("*.yaml")}
    if env not in files or not isinstance(saved.get("env"), dict):
        return saved
    shipped = OmegaConf.to_container(OmegaConf.load(files[env]), resolve=False)
    assert isinstance(shipped, dict)
    if shipped.get("_target_") != saved["env"].get("_target_"):
        return saved
    return {**saved, "env": {**shipped, **saved["env"]}}


def apply(
    overrides: Sequence[str], saved: Mapping[str, Any], known: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], list[str]]:
    """Typed ``key=value`` overrides over a saved configuration.

    Args:
        known: the keys that can be typed; those of the saved configuration if not given.

    Returns:
        the new configuration and the keys that differ from the saved one.

    Raises:
        UsageError: new keys and group choices, both refused.
    """
    problems, changed, parsed = [], [], parse(overrides)
    custom = typed_targets(parsed)
    tree = json.loads(json.dumps(with_targets(saved, custom)))
    for o in parsed:
        key, before = o.key_or_group, pick(tree, o.key_or_group)
        if isinstance(o.value(), Sweep):
            problems.append(f"{o.input_line}: a loaded run takes one value per key.")
        elif key in ("algo", "env", "buffer", "hardware", "logger", "tuned", "experiment"):
            problems.append(
                f"{o.input_line}: a loaded run keeps its {key}. Set single keys, such as "
                f"{key}.NAME=VALUE."
            )
        elif found := key_problem(o, known or tree, custom, Catalog()):
            problems += found
        else:
            set_value(tree, o)
            if pick(tree, key) != before or pick(saved, key) != before:
                changed.append(key)
    if problems:
        raise UsageError("\n".join(problems))
    return tree, changed
