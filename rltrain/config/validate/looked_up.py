"""Names in a configuration that are looked up before torch is imported: maps, games and ids of
environments, and metrics, those that its runs can report.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec

from rltrain.common.checkpoint.opponent_files import BUILTIN, opponent_name, played_in_tests
from rltrain.common.metrics import METRICS, NAMED
from rltrain.config.node import Node
from rltrain.config.schema import OpponentSettings, RunSettings, Settings
from rltrain.errors import UsageError, one_edit

BATTLES = ("rltrain.env.smac.SmacVectorEnv", "rltrain.env.smac.Smacv2VectorEnv")


def require_environments(settings: Settings) -> None:
    """Refuse an id that Gymnasium does not have (those of a module pass), a game that ALE does not
    have (the environment names the package where it is missing), and an unknown map of SMAC or
    scenario of SMACv2, if its name counts, of tests too; custom environments are not looked up.

    Raises:
        UsageError: the name, and the nearest ones.
    """
    for start in ("", "test."):
        target, kwargs = settings.nodes[f"{start}env"].target, settings.nodes[f"{start}env"].kwargs
        named = ""
        try:
            if target == "rltrain.env.gymnasium_env" and ":" not in kwargs["id"]:
                from rltrain.env.gymnasium_advice import require_registered

                require_registered(kwargs["id"])
            elif target == "rltrain.env.AtariVectorEnv" and find_spec("ale_py"):
                from rltrain.env.gymnasium_advice import require_game

                require_game(kwargs["game"])
            elif target in BATTLES and not (kwargs.get("map_file") or kwargs.get("maps")):
                from rltrain.battles.data.scenarios import find_scenario
                from rltrain.battles.smaclite.maps import find_map_under

                name = kwargs["map_name"]
                named = f"env.map_name={name!s:.80}: "
                if "rules" in kwargs:
                    find_map_under(kwargs["rules"], name)
                else:
                    find_scenario(name)
        except ValueError as error:
            raise UsageError(f"{start}{named}{error}") from error


def metric_problem(
    run: RunSettings, nodes: Mapping[str, Node | None], opponents: OpponentSettings | None
) -> Iterator[str]:
    """Yield the messages about a ``stop.metric`` or ``tune.metric`` that nothing can report."""
    own = "custom|test" if run.test.function else "custom"
    every = [*METRICS, *win_rates(run, nodes, opponents)]
    tests = [name for name in every if name.startswith("test/")]
    for key, name, none, metrics in (
        ("stop.metric", run.stop.metric, None, every),
        ("tune.metric", run.tune.metric, "auto", tests),
    ):
        if name in (none, *metrics) or re.fullmatch(rf"({own})/\w+", str(name)):
            continue
        from rltrain.config.suggest.value_forms import for_metric

        group, rate, part = str(name).partition("/win_rate/")
        counted = NAMED.fullmatch(str(name)) and not rate  # by an environment, for all one knows
        misspelled = any(one_edit(str(name), known) for known in metrics)
        if (
            counted
            and not misspelled
            and (key, group.partition("/")[0]) != ("tune.metric", "train")
        ):
            continue
        meant = str(for_metric(str(name), metrics)).replace("stop.metric=", f"{key}=")
        of = "metrics.jsonl"
        if key == "tune.metric":
            meant, of = meant.replace("=train/", "=test/"), "tests"
        why = f"no map of env.maps and no opponent of {group} is named {part}: " if rate else ""
        yield (
            f"{key}={name}: {why}expected a metric of {of}, such as test/return_mean, or "
            f"custom/NAME.{meant}"
        )


def win_rates(
    run: RunSettings, nodes: Mapping[str, Node | None], opponents: OpponentSettings | None
) -> Iterator[str]:
    """The win rates on each map of several, and against each opponent."""
    training = {} if opponents is None else opponents.weights
    env = nodes["env"]
    two_teams = env is not None and bool(env.kwargs.get("team"))
    tested = played_in_tests(run.test.opponent, training, two_teams)
    for group, path, others in (("train", "env", training), ("test", "test.env", (tested,))):
        node = nodes[path]
        typed = None if node is None else node.kwargs.get("maps")
        maps = typed if isinstance(typed, Sequence) and not isinstance(typed, str) else ()
        against = [] if {*others} == {BUILTIN} else map(opponent_name, others)
        yield from (f"{group}/win_rate/{name}" for name in (*maps, *against))
