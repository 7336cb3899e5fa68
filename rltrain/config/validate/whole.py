"""Validate a configuration: convert plain containers to settings, or report all problems."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from typing import Any

from pydantic_core import to_jsonable_python

from rltrain.common.metrics import METRICS
from rltrain.config.combinations import Facts
from rltrain.config.schema import (
    AlgoSettings,
    ClusterSettings,
    HardwareSettings,
    LoggerSettings,
    Node,
    RankSettings,
    RunSettings,
    Settings,
    SupervisionSettings,
    WorkerSettings,
)
from rltrain.config.tree import flat_keys, overlaid, pick, put
from rltrain.config.validate.values import ALGO_NODES, Checker, show
from rltrain.errors import UsageError

MOST = 8
"""Problems that are listed."""


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
        UsageError: every problem at once; of more than ``MOST``, which only files have, the first.
    """
    values = [n for n in ("algo", "logger", "test") if not isinstance(plain.get(n, {}), Mapping)]
    if values:
        problems = (f"{n}={show(plain[n])}: expected keys below it, got a value." for n in values)
        raise UsageError("\n".join(problems))
    checker = Checker(defaults)
    run = checker.record(RunSettings, plain, "")
    scripted = "_target_" in plain.get("algo", {})
    algo = None if scripted else checker.record(AlgoSettings, plain.get("algo", {}), "algo")
    env, supervision = supervised(plain, checker)
    hardware, workers, cluster, ranks = machine_settings(plain.get("hardware", {}), checker)
    chosen = {k: v for k, v in plain.get("logger", {}).items() if isinstance(v, Mapping)}
    others = {k: v for k, v in plain.get("logger", {}).items() if k not in chosen}
    logger = checker.record(LoggerSettings, others, "logger")
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
        checker.problems.append(
            f"callbacks={show(listed)}: expected a list, such as "
            "callbacks=[{_target_: my_package.MyCallback}]."
        )
        listed = []
    callbacks = [checker.node(node, f"callbacks[{i}]") for i, node in enumerate(listed)]
    if run:
        checker.problems += metric_problem(run)
    facts = {**({} if run is None else asdict(run)), "algo": {} if algo is None else asdict(algo)}
    given = Facts(facts, choices=choices, scripted=scripted, learns=algo is not None)
    checker.problems += given.refusals("settings")
    if checker.problems:
        shown, n_more = checker.problems[:MOST], len(checker.problems) - MOST
        more = [f"There are {n_more} more problems of this kind."] if n_more > 0 else []
        raise UsageError("\n".join(shown + more))
    keys, before = flat_keys(plain), flat_keys(defaults)
    return Settings(
        run=run,
        algo=algo,
        hardware=hardware,
        workers=workers,
        cluster=cluster,
        ranks=ranks,
        env=supervision,
        logger=logger,
        nodes={k: n for k, n in nodes.items() if n is not None},
        callbacks=tuple(n for n in callbacks if n is not None),
        choices=dict(choices),
        plain=converted(plain, run, algo, (hardware, workers, cluster, ranks), supervision, nodes),
        typed=frozenset(key for key, value in keys.items() if value != before.get(key, value)),
    )


def machine_settings(node: Any, checker: Checker) -> tuple[Any, ...]:
    """The settings of ``hardware``, and those of its workers, cluster and ranks, where it has
    some.
    """
    kinds = (WorkerSettings, ClusterSettings, RankSettings)
    if not isinstance(node, Mapping):
        return checker.record(HardwareSettings, node, "hardware"), *(None for _ in kinds)
    rest, added = dict(node), []
    for kind in kinds:
        names = [f.name for f in fields(kind) if f.name in rest]
        own = {name: rest.pop(name) for name in names}
        added.append(checker.record(kind, own, "hardware") if own else None)
    return checker.record(HardwareSettings, rest, "hardware"), *added


def supervised(
    plain: Mapping[str, Any], checker: Checker
) -> tuple[Any, SupervisionSettings | None]:
    """The node ``env`` without the key that workers add to it, and that key."""
    node, hardware = plain.get("env"), plain.get("hardware")
    has_workers = isinstance(hardware, Mapping) and "n_workers" in hardware
    if not has_workers or not isinstance(node, Mapping):
        return node, None
    rest = {name: value for name, value in node.items() if name != "timeout"}
    own = {name: value for name, value in node.items() if name == "timeout"}
    return rest, checker.record(SupervisionSettings, own, "env")


def metric_problem(run: RunSettings) -> Iterator[str]:
    """Yield the message about a ``stop.metric`` that no run reports."""
    if run.stop.metric is not None and not known_metric(run):
        from rltrain.config.suggest.keys import for_metric

        yield (
            f"stop.metric={run.stop.metric}: expected a metric of metrics.jsonl, such as "
            f"test/return_mean, or custom/NAME.{for_metric(run.stop.metric, METRICS)}"
        )


def known_metric(run: RunSettings) -> bool:
    """Whether ``stop.metric`` is one that a run reports, or a callback or test function may."""
    own = "custom|test" if run.test.function else "custom"
    name = str(run.stop.metric)
    return name in METRICS or re.fullmatch(rf"({own})/\w+", name) is not None


def converted(
    plain: Mapping[str, Any],
    run: Any,
    algo: Any,
    machine: tuple[Any, ...],
    supervision: Any,
    nodes: Mapping[str, Node | None],
) -> dict[str, Any]:
    """``plain`` with the values as converted: 1e6 has become 1000000."""
    hardware = {k: v for part in machine if part is not None for k, v in asdict(part).items()}
    given = {"hardware": hardware, **({} if algo is None else {"algo": asdict(algo)})}
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
    if supervision is not None:
        out["env"] |= asdict(supervision)
    return out
