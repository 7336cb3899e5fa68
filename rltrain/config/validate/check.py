"""The checking of a configuration: from plain containers to settings, or to everything that is
wrong with them.

Types, ranges and finiteness are the annotations of dataclass fields and constructor arguments;
pydantic reads them without constructing anything. All problems are reported together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pydantic import ValidationError
from pydantic_core import to_jsonable_python

from rltrain.common.metrics import METRICS
from rltrain.config.compose import Composition
from rltrain.config.schema import (
    FACTS,
    AlgoSettings,
    HardwareSettings,
    LoggerSettings,
    Node,
    RunSettings,
    Settings,
)
from rltrain.config.suggest.keys import for_metric, for_value
from rltrain.config.tree import overlaid, pick, put
from rltrain.config.validate.constructor import constructor_at, convert, expected
from rltrain.errors import UsageError, did_you_mean

WANDB_MODES = ("online", "offline", "disabled")


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
        if isinstance(value, (int, float)) and str in (annotation, *get_args(annotation)):
            return f" For a number as text type {path}=\"'…'\", with both kinds of quotes."

        def accepts(other: Any) -> bool:
            try:
                convert(annotation, other)
            except ValidationError:
                return False
            return True

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
        hints = get_type_hints(kind, include_extras=True)
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
            constructor = constructor_at(target, n_given, FACTS.get(path, ()))
        except UsageError as error:
            self.problems.append(f"{path}: {error}")
            return None
        known = constructor.annotations
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
            if name not in node and name not in constructor.defaults:
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


def unknown(key: str, known: Sequence[str]) -> str:
    """What to say of a key that a file sets and nothing reads."""
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
    "loss",
    "optimizer",
    "exploration",
    "target_update",
)
PARTS = {"": ("algo", "env", "buffer", "hardware", "logger", "callbacks"), "algo": ALGO_NODES}
"""Keys beside the settings, which hold parts or settings of their own."""


def check_composition(composed: Composition) -> Settings:
    """Types and ranges of a composition.

    Raises:
        UsageError: every problem at once.
    """
    settings = check(composed.plain, composed.choices, composed.defaults)
    return replace(settings, remarks=composed.remarks, algo_of_env=composed.algo_of_env)


def check(
    plain: Mapping[str, Any],
    choices: Mapping[str, str],
    defaults: Mapping[str, Any],
) -> Settings:
    """Types and ranges of a whole configuration.

    Args:
        plain: the configuration in plain containers, names already known to be valid.
        choices: group to chosen option.
        defaults: the same composition without the typed values, for hints.

    Raises:
        UsageError: every problem at once.
    """
    checker = Checker(defaults)
    run = checker.record(RunSettings, plain, "")
    scripted = "_target_" in (plain.get("algo") or {})
    algo = None if scripted else checker.record(AlgoSettings, plain.get("algo", {}), "algo")
    hardware = checker.record(HardwareSettings, plain.get("hardware", {}), "hardware")
    logger = checker.record(LoggerSettings, plain.get("logger", {}), "logger")
    nodes = {"env": checker.node(plain.get("env"), "env")}
    nodes["buffer"] = checker.node(plain.get("buffer"), "buffer")
    tests = plain.get("test") or {}
    nodes["test.env"] = checker.test_env(plain.get("env"), tests.get("env"), nodes["env"])
    if function := tests.get("function"):
        named = {"_target_": function} if isinstance(function, str) else function
        nodes["test.function"] = checker.node(named, "test.function", n_given=2)
    if scripted:
        nodes["algo"] = checker.node(plain["algo"], "algo")
    for name in () if scripted else ALGO_NODES:
        nodes[f"algo.{name}"] = checker.node(pick(plain, f"algo.{name}"), f"algo.{name}")
    listed = plain.get("callbacks")
    if not isinstance(listed, list):
        checker.problems.append(
            f"callbacks={show(listed)}: expected a list, such as "
            "callbacks=[{_target_: my_package.MyCallback}]."
        )
        listed = []
    callbacks = [checker.node(node, f"callbacks[{i}]") for i, node in enumerate(listed)]
    if run:
        checker.problems += contradictions(run)
    if run and scripted and run.mode == "train":
        checker.problems.append(
            f"algo={choices.get('algo')} has nothing to learn: type mode=evaluate to see it play."
        )
    mode = logger.wandb.get("mode") if logger else None
    if logger and mode not in WANDB_MODES:
        checker.problems.append(
            f"logger.wandb.mode={show(mode)}: expected one of {', '.join(WANDB_MODES)}."
            f"{for_value('logger.wandb.mode', mode, WANDB_MODES, lambda _: False)}"
        )
    if algo and (algo.updates_per_episode is None) == (algo.updates_per_env_step is None):
        checker.problems.append(
            "algo.updates_per_episode and algo.updates_per_env_step: expected exactly one of them, "
            f"got {show(algo.updates_per_episode)} and {show(algo.updates_per_env_step)}. Type the "
            "one you want and set the other to null."
        )
    if checker.problems:
        raise UsageError("\n".join(checker.problems))
    return Settings(
        run=run,
        algo=algo,
        hardware=hardware,
        logger=logger,
        nodes={k: n for k, n in nodes.items() if n is not None},
        callbacks=tuple(n for n in callbacks if n is not None),
        choices=dict(choices),
        plain=converted(plain, run, algo, hardware, nodes),
        typed=frozenset(changed(plain, defaults)) if defaults else frozenset(),
    )


def changed(tree: Mapping[str, Any], defaults: Mapping[str, Any], at: str = "") -> Iterator[str]:
    """Dotted keys of ``tree`` whose values differ from those of ``defaults``."""
    for name, value in tree.items():
        default = defaults.get(name)
        if isinstance(value, Mapping) and isinstance(default, Mapping):
            yield from changed(value, default, f"{at}{name}.")
        elif value != default:
            yield f"{at}{name}"


def contradictions(run: RunSettings) -> Iterator[str]:
    """What is wrong between settings of a run that are right one by one."""
    if run.stop.metric is not None and not known_metric(run):
        yield (
            f"stop.metric={run.stop.metric}: expected a metric of metrics.jsonl, such as "
            f"test/return_mean, or custom/NAME.{for_metric(run.stop.metric, METRICS)}"
        )
    if (run.stop.metric is None) != (run.stop.value is None):
        yield (
            "stop.metric and stop.value belong together: expected both or neither, got "
            f"{show(run.stop.metric)} and {show(run.stop.value)}."
        )
    if run.load_step is not None and run.checkpoint is None:
        yield (
            f"load_step={run.load_step} says which checkpoint to take, but checkpoint= names none."
        )
    if run.record and run.mode == "train":
        yield (
            "record=true makes videos of test episodes: expected mode=evaluate, got mode=train. "
            "Train first, then type rltrain mode=evaluate checkpoint=RUN_FOLDER record=true."
        )
    if run.dataset.read is not None and run.mode != "train":
        yield "dataset.read is for learning: expected mode=train, got mode=evaluate."
    if run.dataset.read is not None and run.dataset.write is not None:
        yield (
            "dataset.read and dataset.write: a run that reads plays nothing that could be "
            "written. Keep one of them."
        )


def known_metric(run: RunSettings) -> bool:
    """Whether ``stop.metric`` is one that a run reports, or a callback or test function may."""
    own = "custom|test" if run.test.function else "custom"
    name = str(run.stop.metric)
    return name in METRICS or re.fullmatch(rf"({own})/\w+", name) is not None


def converted(
    plain: Mapping[str, Any], run: Any, algo: Any, hardware: Any, nodes: Mapping[str, Node | None]
) -> dict[str, Any]:
    """``plain`` with the values as converted: 1e6 has become 1000000."""
    records = {"hardware": hardware, "algo": algo}
    given = {name: asdict(record) for name, record in records.items() if record is not None}
    out = overlaid(plain, {**asdict(run), **given})
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
    return out


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
