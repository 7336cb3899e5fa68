"""Values converted by annotations, with every problem that is met on the way.

Types, ranges and finiteness are the annotations of dataclass fields and constructor arguments;
pydantic reads them without constructing anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, partial
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pydantic import ValidationError

from rltrain.common.number_types import Whole
from rltrain.config.schema import Node, facts_of
from rltrain.config.tree import overlaid, pick
from rltrain.config.validate.constructor import constructor_at, convert, expected
from rltrain.errors import UsageError, did_you_mean

hints_of_fields = cache(partial(get_type_hints, include_extras=True))


def literals(annotation: Any) -> list[str]:
    """The values of an enumeration, as they are typed."""
    if get_origin(annotation) is Literal:
        return [str(value) for value in get_args(annotation)]
    return [value for part in get_args(annotation) for value in literals(part)]


class Checker:
    """Converts values by their annotations and collects every problem it meets."""

    def __init__(self, defaults: Mapping[str, Any]) -> None:
        self.problems: list[str] = []
        self.defaults = defaults

    def value(self, annotation: Any, value: Any, path: str) -> Any:
        if is_dataclass(annotation):
            return self.record(annotation, value, path)
        try:
            return convert(annotation, value)
        except ValidationError:
            self.problems.append(
                f"{path}={show(value)}: expected {expected(annotation)}, got {show(value)}."
                f"{self.hint(annotation, value, path)}"
            )
            return value

    def hint(self, annotation: Any, value: Any, path: str) -> str:
        """What was probably meant, or else the default."""
        from rltrain.config.suggest.keys import alternatives, for_value

        if isinstance(value, (int, float)) and str in (annotation, *get_args(annotation)):
            return f" For a number as text type {path}=\"'…'\", with both kinds of quotes."

        def accepts(other: Any) -> bool:
            if other is None and alternatives(path):
                return False
            try:
                convert(annotation, other)
            except ValidationError:
                return False
            return True

        number = number_in(value) if isinstance(value, str) else None
        if number is not None and accepts(number):
            return (
                f" It is text. Type {path}={show(number)}; an environment variable is read as a "
                "number by ${oc.decode:${oc.env:NAME}}."
            )
        listed, default = literals(annotation), pick(self.defaults, path)
        meant = str(for_value(path, value, listed, accepts))
        if meant or listed or default in (None, value):
            return meant
        return f" The default is {show(default)}."

    def record(self, kind: Any, node: Any, path: str) -> Any:
        """A dataclass from a mapping, field by field; None if a field is missing or wrong."""
        before = len(self.problems)
        if not isinstance(node, Mapping):
            self.problems.append(f"{path}={show(node)}: expected keys below it, got a value.")
            return None
        hints = hints_of_fields(kind)
        values = {}
        for f in fields(kind):
            key = f"{path}.{f.name}" if path else f.name
            if f.name not in node:
                self.problems.append(f"{key} is missing: expected {expected(hints[f.name])}.")
            else:
                values[f.name] = self.value(hints[f.name], node[f.name], key)
        known = [f.name for f in fields(kind)] + list(PARTS.get(path, ()))
        for name in node:
            if name not in known:
                self.problems.append(unknown(f"{path}.{name}" if path else str(name), known))
        return kind(**values) if len(self.problems) == before else None

    def node(self, node: Any, path: str, n_given: int = 0) -> Node | None:
        """A ``_target_`` node, its keywords checked by the constructor's annotations.

        Args:
            n_given: how many of a function's first arguments its caller fills.
        """
        if not isinstance(node, Mapping) or not isinstance(node.get("_target_"), str):
            self.problems.append(f"{path}: expected a node with a _target_, got {show(node)}.")
            return None
        target = node["_target_"]
        try:
            constructor = constructor_at(target, n_given, facts_of(path))
        except UsageError as error:
            self.problems.append(f"{path}: {error}")
            return None
        known = {**constructor.annotations, **BUILT_WITH.get(path, {})}
        kwargs = {}
        for name, value in node.items():
            if name in known:
                kwargs[name] = self.value(known[name], value, f"{path}.{name}")
            elif constructor.free and name != "_target_":
                kwargs[name] = value
            elif name != "_target_":
                listed = f"It has {', '.join(known)}." if known else "It has none."
                self.problems.append(
                    f"{path}.{name}: {target} has no such setting. {listed}"
                    f"{did_you_mean(name, known)}"
                )
        for name, annotation in known.items():
            optional = name in constructor.defaults or name in BUILT_WITH.get(path, {})
            if name not in node and not optional:
                self.problems.append(
                    f"{path}.{name} is missing: {target} needs it, {expected(annotation)}. Type "
                    f"{path}.{name}=VALUE."
                )
        rest = {k: v for k, v in constructor.defaults.items() if k in known and k not in kwargs}
        kwargs |= {name: default for name, default in rest.items() if is_plain(default)}
        return Node(path=path, target=target, kwargs=kwargs)

    def test_env(self, env: Any, options: Any, node: Node | None) -> Node | None:
        """The environments of tests: ``env`` with ``options`` over it."""
        if not options or not isinstance(options, Mapping) or not isinstance(env, Mapping):
            return node
        if "_target_" in options:
            self.problems.append(
                "test.env: tests play the same kind of environment as training. Set its options, "
                "such as +test.env.max_episode_steps=1000."
            )
            return node
        own = Checker(self.defaults)
        merged = own.node(overlaid(env, options), "test.env")
        for problem in own.problems:  # those of env itself were reported as such
            if any(re.match(rf"test\.env\.{re.escape(str(key))}\b", problem) for key in options):
                self.problems.append(problem)
        return merged


def number_in(text: str) -> float | int | None:
    """The number that a text holds, or None."""
    try:
        return int(text) if text.strip("+-").isdecimal() else float(text)
    except ValueError:
        return None


BUILT_WITH: Mapping[str, Mapping[str, Any]] = {"algo.network": {"groups": list[list[Whole]] | None}}
"""Keys of a node that are read where it is built, beside those of its constructor."""


def unknown(key: str, known: Sequence[str]) -> str:
    """The message for a key that a file sets and nothing reads."""
    if key in ("experiment", "tuned"):
        return f"Unknown key '{key}': begin the file of the preset with '# @package _global_'."
    return f"Unknown key '{key}'.{did_you_mean(key.rpartition('.')[2], known)}"


def is_plain(value: Any) -> bool:
    """Whether a value is one that JSON holds."""
    if isinstance(value, (list, tuple)):
        return all(is_plain(each) for each in value)
    return value is None or isinstance(value, (bool, int, float, str))


ALGO_NODES = (
    "distribution",
    "network",
    "mixer",
    "critic",
    "loss",
    "optimizer",
    "exploration",
    "target_update",
)


PARTS = {"": ("algo", "env", "buffer", "hardware", "logger", "callbacks"), "algo": ALGO_NODES}
"""Keys beside the settings, which hold parts or settings of their own."""


def show(value: Any) -> str:
    """A value as it would be typed."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}: {show(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(show(v) for v in value) + "]"
    return str(value)
