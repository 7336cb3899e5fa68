"""A configuration as text, which ``--cfg job`` prints, and what is unusual in it; and Hydra's own
answers to questions about Hydra.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import hydra
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from rltrain.common.files import JsonObject
from rltrain.config.catalog import CONF, RECOMMENDED, SHIPPED, split_options
from rltrain.config.compose import Composition, compose_checked
from rltrain.config.overrides import flat_keys, leaves, quoted
from rltrain.errors import UsageError


def config_text(composed: Composition, package: str | None, *, resolve: bool) -> str:
    """The composed configuration as YAML, or what is at the key ``package`` of it.

    Raises:
        UsageError: there is no such key.
    """
    tree = composed.plain if resolve else composed.tree
    if package in (None, "_global_"):
        groups = sorted(group for group in composed.choices if group in SHIPPED.groups)
        chosen = [f"{g}={composed.choices[g]}" for g in groups if composed.choices[g] is not None]
        head = [f"# {' '.join(chosen)}"]
        if composed.env_chose_algo:
            head.append(f"# algo={composed.choices['algo']} is chosen for this environment")
        return "\n".join([*head, OmegaConf.to_yaml(tree)])
    keys = flat_keys(tree)
    if package not in keys:
        raise UsageError(f"--package {package}: there is no such key. Type rltrain --cfg job.")
    part = keys[package]
    if not isinstance(part, (dict, list)):
        return f"{'null' if part is None else part}\n"
    return f"# @package {package}\n{OmegaConf.to_yaml(part)}"


def deviations(
    record: JsonObject, named: Sequence[str], left_out: Sequence[str], *overrides: str
) -> tuple[dict[str, str], dict[tuple[str, ...], Any]]:
    """What distinguishes a configuration from the usual one of some of its choices.

    Args:
        record: what ``config.json`` contains, which anyone may have written; of its choices only
            those that are shipped are composed.
        named: the groups of these choices.
        left_out: groups whose choices are not compared.
        overrides: what the usual configuration has, too.

    Returns:
        the named choices and those that differ, and the values that differ from the values of all
        these choices, by the names that lead to them.

    Raises:
        UsageError: the named choices cannot be composed, or there is no shipped algorithm or
            environment among them.
    """
    chosen = {g: str(name) for g, name in record["choices"].items() if name is not None}
    shipped = {
        group: name
        for group, name in chosen.items()
        if group in SHIPPED.groups and {*SHIPPED.options(group)}.issuperset(split_options(name))
    }
    if not {"algo", "env"} <= set(shipped):
        raise UsageError("The algorithm or the environment is not one that rltrain ships.")
    kept = {group: shipped[group] for group in named if group in shipped}
    usual = compose_checked([*(f"{g}={name}" for g, name in kept.items()), *overrides]).choices
    for group in [g for g in shipped if g in usual and g not in left_out]:
        if shipped[group] != usual[group]:
            kept[group] = shipped[group]
    known = compose_checked([*(f"{g}={name}" for g, name in kept.items()), *overrides])
    before = dict(leaves(known.plain))
    own = leaves({name: node for name, node in record.items() if name != "choices"})
    return kept, {n: value for n, value in own if n not in before or before[n] != value}


def ask_hydra(arguments: Sequence[str]) -> None:
    """Let Hydra answer: ``--hydra-help``, ``--info``, ``--cfg hydra|all``, ``-sc install=…``.

    Raises:
        UsageError: what Hydra does not accept.
    """
    program = hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")
    os.environ["HYDRA_FULL_ERROR"] = "1"  # errors are raised, not printed
    sys.argv[1:] = [quoted(RECOMMENDED.get(word, word)) for word in arguments]
    try:
        program(lambda config: None)()
    except (HydraException, OmegaConfBaseException, YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"Hydra cannot answer: {str(error).splitlines()[0]}") from error
