"""The answers to ``--cfg job``, and Hydra's own to questions about Hydra."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import hydra
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from rltrain.config.catalog import CONF, RECOMMENDED, SHIPPED
from rltrain.config.compose import Composition
from rltrain.config.overrides import flat_keys, quoted
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
