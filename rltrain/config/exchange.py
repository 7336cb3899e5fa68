"""Exchanged parts: which values apply when ``algo/loss=…``, ``buffer=…`` or a ``_target_`` replaces
a part that an algorithm or a preset was written for.

A value that an algorithm's or a preset's YAML sets for such a part applies while the part is of the
class it was written for; another class starts from its own file. Options that only work together
are chosen together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set

from rltrain.common.json_text import copied
from rltrain.config.catalog import (
    MAPPING_KEYS,
    ONE_OF,
    PRESETS,
    SHIPPED,
    WHOLE_GROUPS,
    Catalog,
    Layer,
    MutableTree,
    Tree,
)
from rltrain.config.combinations import together
from rltrain.config.overrides import flat_keys, is_below, leaves, part_targets, pick, stacked
from rltrain.errors import UsageError

ON_POLICY = "buffer=on_policy"
"""A choice that goes with learning from the first step on."""
TASK_KEYS = {"algo.loss": ("gamma", "n_step")}
"""Values that mean the same in every part that has them, and stay when the part is exchanged."""


def partners(
    picked: Mapping[str, str],
    typed: Set[str],
    preferred: Mapping[str, str | None],
    custom: Set[str],
) -> dict[str, tuple[str, str]]:
    """The options that must change for the typed ones to work, by group, and in words why.

    Args:
        picked: the option of every group.
        typed: groups whose option was typed.
        preferred: what the typed algorithm chooses by itself; it wins over a preset's choices.
        custom: groups whose part was typed as a ``_target_``; they are not checked.

    Raises:
        UsageError: two options that do not work together, neither of which can give way.
    """
    chosen = dict(picked)
    rank = {g: 2 if g in typed else int(preferred.get(g) == chosen[g]) for g in chosen}
    changes: dict[str, tuple[str, str]] = {}
    while pair := misfit(chosen, custom):
        first, second = sorted(pair, key=lambda group: -rank[group])
        a, b = chosen[first], chosen[second]
        option = fitting(first, a, second)[0]
        if rank[first] == rank[second]:
            other = fitting(second, b, first)[0]
            how = f"{first}={a} {second}={option}, or {first}={other} {second}={b}"
            how = how.replace(ON_POLICY, f"{ON_POLICY} algo.learning_starts=0")
            raise UsageError(f"{first}={a} and {second}={b} do not work together. Type {how}.")
        changes[second] = option, f"{second}={option} is used with {first}={a}, not {b}."
        chosen[second], rank[second] = option, rank[first]
    return changes


def misfit(chosen: Mapping[str, str], custom: Set[str]) -> tuple[str, str] | None:
    """Two groups whose options do not work together, or None."""
    for first, second in dict.fromkeys(tuple(row) for row in together()):
        if {first, second} <= set(chosen) - custom:
            fits = fitting(first, chosen[first], second)
            known = fitting(second, chosen[second], first)
            if fits and known and chosen[second] not in fits:
                return first, second
    return None


def fitting(group: str, option: str, other: str) -> list[str]:
    """Options of ``other`` that work with this one, the usual one first."""
    rows = (row for row in together() if other in row and option in row.get(group, ()))
    return [fit for row in rows for fit in row[other]]


def sets_values(layer: Layer) -> bool:
    """Whether a file sets values for parts that other files define."""
    if layer.file.startswith("algo/"):
        return layer.file.count("/") == 1 and "_target_" not in layer.tree["algo"]
    return layer.file.startswith(tuple(f"{group}/" for group in PRESETS))


def fitting_values(catalog: Catalog, overrides: Sequence[str]) -> tuple[MutableTree, list[str]]:
    """The composition of ``group=option`` overrides, in which every part has the values of its own
    file and those that were written for its class.

    Returns:
        the composition, and in words which of a preset's values were left out.
    """
    files, picked = catalog.layers(*overrides)
    if all(override.partition("=")[0] in WHOLE_GROUPS for override in overrides):
        return stacked(layer.tree for layer in files), []
    chosen = stacked(layer.tree for layer in files if not sets_values(layer))
    trees, remarks = [], []
    for layer in files:
        tree = copied(dict(layer.tree))
        if sets_values(layer) and not all(isinstance(v, dict) for v in flat_keys(tree).values()):
            before, choices = catalog.layers(*alone(layer.file))
            written_for = stacked(each.tree for each in before if not sets_values(each))
            classes = dict(part_targets(written_for))
            left_out = leave_out(tree, classes, chosen)
            if choices["algo"] != picked["algo"]:
                left_out += leave_out_counts(tree, classes, chosen)
            only_one(tree)
            if not layer.file.startswith("algo/"):
                remarks += [f"{layer.file.replace('/', '=', 1)} sets {text}" for text in left_out]
        trees.append(tree)
    return stacked(trees), remarks


def require_known_keys(catalog: Catalog, overrides: Sequence[str]) -> None:
    """Refuse keys that the user's own preset sets and no other file has.

    Raises:
        UsageError: the keys and the file.
    """
    from rltrain.config.suggest.keys import for_key
    from rltrain.config.validate.constructor import show

    problems = []
    composed = catalog.layers(*overrides)[0]
    for layer in composed:
        path = catalog.path(layer.file)
        if path == SHIPPED.path(layer.file) or not sets_values(layer):
            continue
        around = [*composed, *catalog.layers(*alone(layer.file))[0]]
        known = flat_keys(stacked(each.tree for each in around if each.file != layer.file))
        free = (*MAPPING_KEYS, *(at for at, _ in part_targets(layer.tree)))
        if set(layer.tree) & set(PRESETS):
            problems.append(f"{path}: begin the file with '# @package _global_'.")
            continue
        for names, value in leaves(layer.tree):
            key = ".".join(names)
            inside = is_below(key, free)
            if not inside and any("." in name for name in names):
                problems.append(f"Unknown key '{key}' in {path}: in a file write {nested(key)}.")
            elif key not in known and not inside and not isinstance(value, dict):
                near = for_key(key, show(value), known, catalog)
                meant, _, text = "".join(near.typed[:1]).partition("=")
                how = f" Did you mean '{meant}'? Write {nested(meant, text)}."
                problems.append(f"Unknown key '{key}' in {path}.{how if meant in known else near}")
            elif isinstance(known.get(key), dict) and (got := re.match(r"(\w+)=(\S+)", str(value))):
                how = f"write '{got[1]}: {got[2]}' below it, not {got[0]}"
                problems.append(f"{path}: '{key}' holds keys of its own: {how}.")
    if problems:
        raise UsageError("\n".join(problems))


def nested(key: str, value: str = "…") -> str:
    """``a: {b: value}``, as a file has the key ``a.b``."""
    return f"{key.replace('.', ': {')}: {value}{'}' * key.count('.')}"


def alone(file: str) -> list[str]:
    """The overrides that choose a file and nothing else."""
    group, _, name = file.partition("/")
    if group == "tuned":
        algo, _, env = name.partition("-")
        return [f"algo={algo}", f"env={env}"]
    return [f"{group}={name}"]


def leave_out(tree: MutableTree, written_for: Mapping[str, str], chosen: Tree) -> list[str]:
    """Remove a file's values for parts of another class than it was written for.

    Args:
        written_for: the classes of the parts that it was written for.
        chosen: the parts that were chosen, with their own files' values.

    Returns:
        in words, what was removed.
    """
    out = []
    for path, target in part_targets(chosen):
        node = pick(tree, path)
        if not isinstance(node, dict) or written_for.get(path) == target:
            continue
        stay = () if "_target_" in node else TASK_KEYS.get(path, ())
        gone = [key for key in node if key not in stay or key not in pick(chosen, path)]
        for key in gone:
            del node[key]
        named = ", ".join(f"{path}.{key}" for key in gone if key != "_target_")
        if named and path in written_for:
            out.append(f"{named} for {written_for[path]}: not used with {target}.")
    return out


def leave_out_counts(tree: MutableTree, written_for: Mapping[str, str], chosen: Tree) -> list[str]:
    """Remove a preset's counts of what another kind of buffer holds; returns which, in words."""
    algo, buffer = tree.get("algo"), dict(part_targets(chosen)).get("buffer")
    if not isinstance(algo, dict) or written_for.get("buffer") == buffer:
        return []
    gone = [k for k, v in algo.items() if k == "target_update" or not isinstance(v, dict)]
    for key in gone:
        del algo[key]
    named = ", ".join(f"algo.{key}" for key in gone)
    return [f"{named} for {written_for['buffer']}: not used with {buffer}."] if named else []


def only_one(tree: MutableTree) -> None:
    """Where a file sets one of several keys of which only one can be set, set the others to null:
    they may come from the file of an algorithm that the preset was not written for.
    """
    for path, keys in ONE_OF.items():
        node = pick(tree, path)
        given = [key for key in keys if isinstance(node, dict) and node.get(key) is not None]
        if len(given) == 1:
            node.update({key: None for key in keys if key not in given})
