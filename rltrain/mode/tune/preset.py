"""The best trial as a preset: a YAML file for ``experiment=``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from rltrain.config.compose import Composition, compose_checked
from rltrain.config.overrides import put
from rltrain.report.run_data import flat

LEFT_OUT = ("mode", "seed", "tune", "report", "runs", "logger", "config", "hardware.threads")
"""Keys that a preset does not set."""


def preset_text(overrides: Sequence[str], about: Sequence[str]) -> str:
    """A preset that composes to the same configuration as some overrides, with ``about`` as comment
    lines at its top.
    """
    composed = compose_checked(overrides)
    choices = chosen(composed)
    plain = compose_checked([f"{group}={name}" for group, name in choices.items()] + ["tuned=none"])
    before = flat(plain.plain)
    values: dict[str, object] = {}
    for key, value in flat(composed.plain).items():
        parts = key.split(".")
        if parts[0] in LEFT_OUT or key in LEFT_OUT:
            continue
        if key not in before or before[key] != value:
            put(values, key, value)
    defaults = [{f"override /{group}": name} for group, name in choices.items()]
    defaults.append({"override /tuned": "none"})
    head = "\n".join(["# @package _global_", *(f"# {line}" for line in about)])
    tree = {"defaults": defaults, **values}
    return f"{head}\n{yaml.dump(tree, Dumper=Dumper, sort_keys=False, allow_unicode=True)}"


def chosen(composed: Composition) -> dict[str, str]:
    """The algorithm, the environment, and the options that are not what these two choose."""
    main = {group: composed.choices[group] for group in ("algo", "env")}
    usual = compose_checked([*(f"{g}={name}" for g, name in main.items()), "tuned=none"]).choices
    others = {
        group: name
        for group, name in composed.choices.items()
        if name is not None
        and usual.get(group) != name
        and group not in ("experiment", "tuned", "tune", "logger", *main)
    }
    return main | others


def sequence(dumper: Any, values: list[object]) -> Any:
    """The node of a list, on one line unless there are mappings in it."""
    flow = not any(isinstance(value, dict) for value in values)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", values, flow_style=flow)


Dumper: Any = type("Dumper", (yaml.SafeDumper,), {})
Dumper.add_representer(list, sequence)
