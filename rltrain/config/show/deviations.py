"""What distinguishes a configuration from the usual one of its algorithm and environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rltrain.common.files import JsonObject
from rltrain.config.catalog import SHIPPED, split_options
from rltrain.config.compose import compose_checked
from rltrain.config.overrides import leaves


def deviations(
    record: JsonObject, named: Sequence[str], left_out: Sequence[str], *overrides: str
) -> tuple[dict[str, str], dict[tuple[str, ...], Any]]:
    """What distinguishes a configuration from the usual one of some of its choices.

    Args:
        record: what ``config.json`` contains.
        named: the groups of these choices.
        left_out: groups whose choices are not compared.
        overrides: what the usual configuration has, too.

    Returns:
        the named choices and those that differ, and the values that differ from the values of all
        these choices, by the names that lead to them.

    Raises:
        UsageError: the named choices cannot be composed.
    """
    chosen = {g: str(name) for g, name in record["choices"].items() if name is not None}
    kept = {group: chosen[group] for group in named if group in chosen}
    usual = compose_checked([*(f"{g}={name}" for g, name in kept.items()), *overrides]).choices
    for group in [g for g in chosen if g in usual and g not in left_out]:
        shipped = {*SHIPPED.options(group)}.issuperset(split_options(chosen[group]))
        if shipped and chosen[group] != usual[group]:
            kept[group] = chosen[group]
    known = compose_checked([*(f"{g}={name}" for g, name in kept.items()), *overrides])
    before = dict(leaves(known.plain))
    own = leaves({name: node for name, node in record.items() if name != "choices"})
    return kept, {n: value for n, value in own if n not in before or before[n] != value}
