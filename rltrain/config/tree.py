"""Nested mappings and lists: values by dotted path, one tree over another, ``_target_`` nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def pick(tree: Any, path: str) -> Any:
    """The value at a dotted path, or None."""
    for part in path.split("."):
        if not isinstance(tree, Mapping) or part not in tree:
            return None
        tree = tree[part]
    return tree


def put(tree: dict[str, Any], path: str, value: Any) -> None:
    """Set the value at a dotted path; mappings on the way are made where there are none."""
    *parents, leaf = path.split(".")
    for part in parents:
        tree = tree.setdefault(part, {})
    tree[leaf] = value


def embedded(tree: dict[str, Any], path: str) -> dict[str, Any]:
    """A tree below a dotted path; "" is the root."""
    for name in reversed(path.split(".") if path else []):
        tree = {name: tree}
    return tree


def overlaid(tree: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """``tree`` with the values of ``above`` in the place of its own, mappings key by key; a node
    with another ``_target_`` replaces the whole node.
    """
    out = dict(tree)
    if "_target_" in out and above.get("_target_", out["_target_"]) != out["_target_"]:
        out = {}
    for name, value in above.items():
        below = out.get(name)
        if isinstance(value, Mapping):
            value = overlaid(below if isinstance(below, Mapping) else {}, value)
        out[name] = value
    return out


def stacked(trees: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Trees over one another, the last one on top."""
    out: dict[str, Any] = {}
    for tree in trees:
        out = overlaid(out, tree)
    return out


def targets(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """The dotted path of every ``_target_`` node outside of lists, and what it names."""
    for name, value in tree.items():
        if isinstance(value, Mapping):
            if isinstance(value.get("_target_"), str):
                yield f"{prefix}{name}", value["_target_"]
            else:
                yield from targets(value, f"{prefix}{name}.")


def flat_keys(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Every dotted path of a tree and what is there, inner nodes included."""
    out: dict[str, Any] = {}
    for name, value in tree.items():
        out[f"{prefix}{name}"] = value
        if isinstance(value, dict):
            out |= flat_keys(value, f"{prefix}{name}.")
    return out


def differing(before: Any, after: Any, path: str) -> list[str]:
    """The dotted paths where two values of ``path`` differ, mappings key by key."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        names = dict.fromkeys([*before, *after])
        return [p for n in names for p in differing(before.get(n), after.get(n), f"{path}.{n}")]
    return [] if before == after else [path]
