"""What distinguishes a configuration from the usual one of its algorithm and environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rltrain.common.files import JsonObject
from rltrain.config.catalog import SHIPPED, split_options
from rltrain.config.compose import compose_checked
from rltrain.config.overrides import leaves
from rltrain.errors import UsageError


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
