"""Runs grouped by configuration, and labels that say how configurations differ; the metrics of many
runs as a pandas DataFrame.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from rltrain.common.machine.install import require_extra
from rltrain.common.machine.places import require_path
from rltrain.common.metrics import CLOCK
from rltrain.errors import UsageError, usage_errors
from rltrain.report.readers import find_runs
from rltrain.report.run_data import Run

if TYPE_CHECKING:
    import pandas as pd

Key = tuple[object, ...]
UNUSED = ("checkpoint", "dataset.", "stop.", "name")
"""Beginnings of settings that are null in most runs."""
LONGEST = 60
"""Characters of a label; configurations that differ in more are numbered."""


@dataclass(frozen=True)
class RunGroup:
    """Runs of one configuration on one environment, which differ in their seeds; or published
    results, never both.
    """

    label: str
    env: str
    runs: Sequence[Run]

    @property
    def method(self) -> str:
        return self.runs[0].method

    @property
    def published(self) -> bool:
        return bool(self.runs[0].source)


def grouped(
    runs: Sequence[Run], ignore: Sequence[str] = (), rename: Sequence[str] = ()
) -> list[RunGroup]:
    """Groups in the order in which labels and environments sort.

    Args:
        ignore: settings that do not distinguish configurations, or the beginnings of their names.
        rename: other names for labels and environments, ``old -> new``.

    Raises:
        UsageError: an entry of ``rename`` without an arrow.
    """
    names, ignored = dict(map(renaming, rename)), tuple(ignore)
    compared = [
        replace(
            run,
            settings={k: v for k, v in run.settings.items() if not k.startswith(ignored)},
            choices={k: v for k, v in run.choices.items() if k not in ignore},
        )
        for run in runs
    ]
    own = [run for run in compared if not run.source]
    picked = varying(own, lambda run: (run.method, run.env), lambda run: run.choices)
    settings = varying(
        own,
        lambda run: (run.method, run.env, text(of(run.choices, picked[run.method]))),
        lambda run: run.settings,
    )
    known: dict[Key, set[str]] = defaultdict(set)
    for run in own:
        known[run.method, run.env].update(run.choices, run.settings)
    groups: dict[tuple[str, str, bool], list[Run]] = defaultdict(list)
    numbers: dict[str, str] = {}
    for run, seen in zip(runs, compared, strict=True):
        parts, here = {}, known[run.method, run.env]  # not what only other environments have
        if not run.source:
            parts = of(seen.choices, picked[run.method]) | of(seen.settings, settings[run.method])
        label = " ".join([run.method, *described({k: v for k, v in parts.items() if k in here})])
        if len(label) > LONGEST:  # the table of settings tells what it is
            label = numbers.setdefault(label, f"{run.method} #{len(numbers) + 1}")
        place = visible(names.get(run.env, run.env)), visible(names.get(label, label))
        groups[*place, bool(run.source)].append(run)
    taken = {label for _, label, published in groups if not published}
    return [
        RunGroup(f"{label} published" if published and label in taken else label, env, members)
        for (env, label, published), members in sorted(groups.items(), key=itemgetter(0))
    ]


def visible(text: str) -> str:
    """A name in which characters that cannot be drawn or written are escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def renaming(typed: str) -> tuple[str, str]:
    """The two names in ``old -> new``; UsageError if there is no arrow."""
    old, arrow, new = (part.strip() for part in typed.partition("->"))
    if not (old and arrow and new):
        raise UsageError(
            f"report.rename: expected 'OLD -> NEW', got '{typed}'. Type "
            "'report.rename=[\"CartPole-v1 -> cartpole\"]'."
        )
    return old, new


def varying(
    runs: Iterable[Run], bucket: Callable[[Run], Key], values: Callable[[Run], Mapping[str, object]]
) -> dict[str, list[str]]:
    """By method, the names whose values differ within one of its buckets."""
    buckets: dict[Key, list[Run]] = defaultdict(list)
    for run in runs:
        buckets[bucket(run)].append(run)
    out: dict[str, dict[str, None]] = defaultdict(dict)
    for members in buckets.values():
        settings = [values(run) for run in members]
        names = dict.fromkeys(name for each in settings for name in each)
        differ = [n for n in names if len({text(each.get(n)) for each in settings}) > 1]
        out[members[0].method].update(dict.fromkeys(differ))
    return {method: list(names) for method, names in out.items()}


def of(values: Mapping[str, object], names: Sequence[str]) -> dict[str, object]:
    """The values that have one of the names; null for missing ones."""
    return {name: values.get(name) for name in names}


def described(parts: Mapping[str, object]) -> list[str]:
    """``lr=0.001``: names without the folders above them where that leaves no doubt. What a run
    does not use, such as ``dataset.read=null``, is left out.
    """
    parts = {k: v for k, v in parts.items() if v is not None or not k.startswith(UNUSED)}
    leaves = [name.rpartition(".")[2] for name in parts]
    return [
        f"{leaf if leaves.count(leaf) == 1 else name}={text(value)}"
        for leaf, (name, value) in zip(leaves, parts.items(), strict=True)
    ]


def text(value: object) -> str:
    """A value as it would be typed."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def load_runs(*places: str | PathLike[str]) -> pd.DataFrame:
    """The metrics of runs in folders and below them, one row per row of ``metrics.jsonl``, with NaN
    where a row does not have the metric.

    Args:
        places: run folders, folders of runs, or patterns such as ``"outputs/*-cartpole"``; also
            results of other libraries (docs/reports.md).

    Returns:
        Columns ``label`` (the configuration), ``library``, ``algo``, ``env``, ``seed``, ``status``
        and ``run`` (the folder), the clock (``env_steps``, ``updates``, ``episodes``, ``seconds``)
        and the metrics by name.

    Raises:
        UsageError: no runs there, or pandas is not installed.
    """
    with usage_errors():
        require_extra("report", "pandas", "rltrain.load_runs")
    import pandas as pd

    parts = []
    if not places or isinstance(places[0], (list, tuple)):
        raise UsageError(
            "runs: expected folders of runs, as in rltrain.load_runs('outputs/*'); a list of them "
            "is passed as load_runs(*FOLDERS)."
        )
    for group in grouped(find_runs([require_path(place, "runs") for place in places])):
        for run in group.runs:
            about: dict[str, object] = {
                "label": group.label,
                "library": run.library,
                "algo": run.algo,
                "env": run.env,
                "seed": np.nan if run.seed is None else run.seed,
                "status": run.status,
                "run": str(run.folder),
            }
            names = dict.fromkeys([*about, *run.columns, *CLOCK])
            parts.append(pd.DataFrame(dict(run.columns)).assign(**about).reindex(columns=[*names]))
    return pd.concat(parts, ignore_index=True)
