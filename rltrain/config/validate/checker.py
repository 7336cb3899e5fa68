"""Validate a configuration: convert plain containers to settings, or report all problems.

Types, ranges and finiteness are the annotations of dataclass fields and constructor arguments;
pydantic reads them without constructing anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from functools import cache, partial
from typing import Any, get_type_hints

from pydantic import ValidationError
from pydantic_core import to_jsonable_python

from rltrain.common.json_text import without_nan
from rltrain.common.number_types import Whole
from rltrain.config import schema
from rltrain.config.catalog import MutableTree, Tree
from rltrain.config.combinations import Facts
from rltrain.config.node import Node, part_facts, typed_node
from rltrain.config.overrides import (
    contained,
    flat_keys,
    overlaid,
    parse,
    parse_one,
    pick,
    put,
    typed_leaves,
)
from rltrain.config.schema import Settings
from rltrain.config.validate.constructor import (
    brief,
    convert,
    expected,
    find_constructor,
    literals,
    show,
)
from rltrain.config.validate.looked_up import metric_problem
from rltrain.errors import UsageError, did_you_mean

LARGEST = 2**63 - 1
"""Whole number of 64 bits."""
MOST = 8
"""Problems that are listed."""


def check(
    plain: Tree, choices: Mapping[str, str], defaults: Tree, overrides: Sequence[str] = ()
) -> Settings:
    """Types and ranges of a whole configuration.

    Args:
        plain: the configuration in plain containers, names already known to be valid.
        choices: group to chosen option.
        defaults: the same composition without the typed values, for hints.
        overrides: what was typed.

    Raises:
        UsageError: every problem at once; of more than ``MOST``, which only files have, the first.
    """
    wrong = [n for n in ("algo", "logger", "test") if not isinstance(plain.get(n, {}), Mapping)]
    if wrong:
        problems = (f"{n}={brief(plain[n])}: expected keys below it, got a value." for n in wrong)
        raise UsageError("\n".join(problems))
    checker = Checker(defaults)
    run = checker.record(schema.RunSettings, plain, "")
    scripted = "_target_" in plain.get("algo", {})
    algo = None if scripted else checker.record(schema.AlgoSettings, plain.get("algo", {}), "algo")
    machine, env, supervision, opponents = plain.get("hardware", {}), plain.get("env"), None, None
    if isinstance(machine, Mapping) and "n_workers" in machine and isinstance(env, Mapping):
        env, (supervision,) = checker.split(env, "env", schema.SupervisionSettings)
    if isinstance(env, Mapping) and "opponent_epsilon" in env:
        env, (opponents,) = checker.split(env, "env", schema.OpponentSettings)
    added = schema.WorkerSettings, schema.ClusterSettings, schema.RankSettings
    machine, (workers, cluster, ranks) = checker.split(machine, "hardware", *added)
    hardware = checker.record(schema.HardwareSettings, machine, "hardware")
    chosen = {k: v for k, v in plain.get("logger", {}).items() if isinstance(v, Mapping)}
    others = {k: v for k, v in plain.get("logger", {}).items() if k not in chosen}
    logger = checker.record(schema.LoggerSettings, others, "logger")
    nodes = {"env": checker.node(env, "env")}
    nodes["buffer"] = checker.node(plain.get("buffer"), "buffer")
    tests = plain.get("test", {})
    nodes["test.env"] = checker.test_env(env, tests.get("env"), nodes["env"])
    if function := tests.get("function"):
        named = {"_target_": function} if isinstance(function, str) else function
        nodes["test.function"] = checker.node(named, "test.function", n_given=2)
    if scripted:
        nodes["algo"] = checker.node(plain["algo"], "algo")
    for name in () if scripted else ALGO_NODES:
        nodes[f"algo.{name}"] = checker.node(pick(plain, f"algo.{name}"), f"algo.{name}")
    nodes |= {f"logger.{name}": checker.node(chosen[name], f"logger.{name}") for name in chosen}
    listed = plain.get("callbacks")
    if not isinstance(listed, list):
        name = listed if isinstance(listed, str) else "my_package.MyCallback"
        checker.problems.append(
            f"callbacks={brief(listed)}: expected a list. Type for example "
            f"{typed_node('callbacks[0]', name)}."
        )
        listed = []
    callbacks = [checker.node(node, f"callbacks[{i}]") for i, node in enumerate(listed)]
    if run and (run.stop.metric, run.tune.metric) != (None, "auto"):
        checker.problems += metric_problem(run, nodes, opponents)
    values = {**gathered(run), "algo": gathered(algo)}
    given_env = plain["env"] if isinstance(plain.get("env"), Mapping) else {}
    facts = {**values, "env": given_env | gathered(opponents), "untyped": defaults}
    facts |= {"types_map": ("env", "map_name") in typed_leaves(parse(overrides))}
    given = Facts(facts, choices=choices, scripted=scripted, learns=algo is not None)
    checker.problems += given.messages("settings")
    if checker.problems:
        shown, n_more = checker.problems[:MOST], len(checker.problems) - MOST
        more = [f"There are {n_more} more problems of this kind."] if n_more > 0 else []
        raise UsageError("\n".join(shown + more))
    values["hardware"] = gathered(hardware, workers, cluster, ranks)
    keys, before = flat_keys(plain), flat_keys(defaults)
    return Settings(
        run=run,
        algo=algo,
        hardware=hardware,
        workers=workers,
        cluster=cluster,
        ranks=ranks,
        supervision=supervision,
        opponents=opponents,
        logger=logger,
        nodes={k: n for k, n in nodes.items() if n is not None},
        callbacks=tuple(n for n in callbacks if n is not None),
        choices=dict(choices),
        plain=converted(plain, values, gathered(supervision, opponents), nodes),
        typed=frozenset(key for key, value in keys.items() if value != before.get(key, value)),
    )


def gathered(*records: Any) -> MutableTree:
    """The values of those records that there are."""
    return {k: v for each in records if each is not None for k, v in asdict(each).items()}


def converted(
    plain: Tree, values: Tree, of_env: Tree, nodes: Mapping[str, Node | None]
) -> MutableTree:
    """``plain`` with the values as converted: 1e6 has become 1000000."""
    out = overlaid(plain, values)
    test_env = nodes["test.env"]
    assert test_env is not None
    out["test"]["env"] = {
        name: value if isinstance(value, Mapping) else test_env.kwargs[name]
        for name, value in plain["test"]["env"].items()
    }
    for path, node in nodes.items():
        if path.startswith("test."):  # as typed: not the whole environment again
            continue
        assert node is not None
        put(out, path, {"_target_": node.target, **to_jsonable_python(node.kwargs)})
    out["env"] |= of_env
    return out


field_hints = cache(partial(get_type_hints, include_extras=True))


@dataclass
class Checker:
    """Converts values by their annotations and collects every problem it meets."""

    defaults: Tree
    problems: list[str] = field(default_factory=list)

    def value(self, annotation: object, value: object, path: str) -> Any:
        if is_dataclass(annotation):
            return self.record(annotation, value, path)
        try:
            found = convert(annotation, value)
            if value == "None" and self.defaults and pick(self.defaults, path) is None:
                raise ValueError(value)
        except ValueError:  # pydantic's, or Python's spelling of null
            self.problems.append(
                f"{path}={(got := brief(value))}: expected {expected(annotation)}, got {got}."
                f"{self.hint(annotation, value, path)}"
            )
            return value
        if without_nan(value) != value:
            self.problems.append(f"{path}={brief(value)}: expected finite numbers only.")
        return found

    def hint(self, annotation: object, value: object, path: str) -> str:
        """Return a suggestion for a wrong value, or else the default."""
        from rltrain.config.suggest.keys import alternatives
        from rltrain.config.suggest.value_forms import for_value

        def accepts(other: object) -> bool:
            if other is None and alternatives(path):
                return False
            try:
                convert(annotation, other)
            except ValidationError:
                return False
            return True

        if isinstance(value, (int, float)) and accepts(show(value)):
            return f" For a number as text type {path}=\"'…'\", with both kinds of quotes."
        others = "".join(f" {k}=null" for k in alternatives(path) if pick(self.defaults, k))
        read = parse_one(f"key={value}") if isinstance(value, str) else None
        held = value if read is None or read.is_sweep_override() else contained(read.value())
        if held != value and accepts(held):
            how = "an environment variable is converted by ${oc.decode:${oc.env:NAME}}."
            return f" It is text. Type {path}={show(held)}{others}; {how}"
        too_large = isinstance(value, (int, float)) and LARGEST < value < float("inf")
        if too_large and accepts(LARGEST) and not accepts(2.0 * LARGEST):
            return f" It has to be below 2**63, {LARGEST:.1e}."
        listed, default = literals(annotation), pick(self.defaults, path)
        answer = for_value(path, value, listed, accepts)
        meant = str(replace(answer, typed=tuple(typed + others for typed in answer.typed)))
        if meant or listed or default in (None, value):
            return meant
        return f" The default is {show(default)}."

    def record(self, kind: Any, node: Any, path: str) -> Any:
        """A dataclass from a mapping, field by field; None if a field is missing or wrong."""
        before = len(self.problems)
        if not isinstance(node, Mapping):
            self.problems.append(f"{path}={brief(node)}: expected keys below it, got a value.")
            return None
        hints = field_hints(kind)
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
                key = f"{path}.{name}" if path else str(name)
                self.problems.append(f"Unknown key '{key}'.{did_you_mean(str(name), known)}")
        return kind(**values) if len(self.problems) == before else None

    def split(self, node: object, path: str, *kinds: type[Any]) -> tuple[Any, list[Any]]:
        """A node without the keys that other groups add, and these as settings of each kind."""
        if not isinstance(node, Mapping):
            return node, [None for _ in kinds]
        rest, added = dict(node), []
        for kind in kinds:
            own = {f.name: rest.pop(f.name) for f in fields(kind) if f.name in rest}
            added.append(self.record(kind, own, path) if own or path == "env" else None)
        return rest, added

    def node(self, node: object, path: str, n_given: int = 0) -> Node | None:
        """A ``_target_`` node, its keywords checked by the constructor's annotations.

        Args:
            n_given: how many of a function's first arguments its caller fills.
        """
        if not isinstance(node, Mapping) or not isinstance(node.get("_target_"), str):
            name = node if isinstance(node, str) else "my_package.NAME"
            self.problems.append(
                f"{path}: expected keys with a _target_, got {brief(node)}. Type for example "
                f"{typed_node(path, name)}."
            )
            return None
        target = node["_target_"]
        try:
            constructor = find_constructor(target, n_given)
        except UsageError as error:
            self.problems.append(f"{path}: {error}")
            return None
        facts = part_facts(path)
        known = {name: a for name, a in constructor.annotations.items() if name not in facts}
        known |= BUILT_WITH.get(path, {})
        kwargs = {}
        for name, value in node.items():
            if name in known or (constructor.free and name != "_target_"):
                kwargs[name] = self.value(known.get(name, Any), value, f"{path}.{name}")
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
                    f"{typed_node(path, target, name)}."
                )
        rest = {k: v for k, v in constructor.defaults.items() if k in known and k not in kwargs}
        kwargs |= {name: default for name, default in rest.items() if is_plain(default)}
        return Node(path=path, target=target, kwargs=kwargs)

    def test_env(self, env: object, options: object, node: Node | None) -> Node | None:
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
        merged = own.node(overlaid(env, options, "test.env"), "test.env")
        for problem in own.problems:  # those of env itself were reported as such
            if any(re.match(rf"test\.env\.{re.escape(str(key))}\b", problem) for key in options):
                self.problems.append(problem)
        return merged


BUILT_WITH: Mapping[str, Mapping[str, Any]] = {"algo.network": {"groups": list[list[Whole]] | None}}
"""Keys of a node that are read where it is built, besides those of its constructor."""


def is_plain(value: object) -> bool:
    """Whether a value is one that JSON holds."""
    if isinstance(value, (list, tuple)):
        return all(is_plain(each) for each in value)
    return isinstance(value, (bool, int, float, str, type(None))) and value == without_nan(value)


ALGO_NODES = (
    *("distribution", "network", "mixer", "critic"),
    *("loss", "optimizer", "exploration", "target_update"),
)
PARTS = {"": ("algo", "env", "buffer", "hardware", "logger", "callbacks"), "algo": ALGO_NODES}
"""Keys besides the settings, which hold parts or settings of their own."""
