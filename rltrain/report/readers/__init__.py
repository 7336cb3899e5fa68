"""Readers of results, one file per format: ``read(folder, files)`` returns the run of a folder, or
None if its files have another format. To add one, write such a file and name it in ``READERS``.

Published results come with rltrain as tables of values and curves, each with its source. Files are
only parsed as JSON, CSV, arrays or protocol buffers; nothing in them is executed.
"""

from __future__ import annotations

import glob
import json
import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np

from rltrain.common.files import walk
from rltrain.common.json_text import is_number
from rltrain.common.machine.places import LONGEST_NAME, STUDY
from rltrain.errors import UsageError, described
from rltrain.report.readers import cleanrl, rllib, rltrain_runs, sacred, stable_baselines3
from rltrain.report.run_data import Run, beside_runs, possible

log = logging.getLogger("rltrain")
READERS = (rltrain_runs, sacred, stable_baselines3, rllib, cleanrl)
"""In this order: the first that finds its run in a folder has it."""
PREFIX = "published/"
"""How the names of tables of published results begin."""
READ = (".json", ".jsonl", ".csv", ".npz")
EXPECTED = (
    "Expected run folders of rltrain, or of PyMARL, EPyMARL (config.json with info.json), "
    "Stable-Baselines3 (progress.csv, monitor.csv, evaluations.npz), CleanRL (TensorBoard events) "
    "or RLlib (result.json, progress.csv), and folders above them"
)


def find_runs(places: Sequence[str | Path], problems: list[str] | None = None) -> list[Run]:
    """The runs in folders and below them. One that cannot be read is left out.

    Args:
        places: paths, which may have wildcards: ``outputs/*-cartpole``; ``published/smac``.
        problems: takes what was left out and why; None: the log does.

    Raises:
        UsageError: a place that is not there, or without any run.
    """
    by_folder: dict[Path, Run] = {}
    left: list[str] = []
    for place in map(str, places):
        if place.startswith(PREFIX) and not os.path.exists(place):
            by_folder |= {run.folder: run for run in published_runs(place)}
            continue
        roots, here = matching(place), 0
        for root in roots:
            for folder, inner, names in walk(root):
                if STUDY in (*names, *inner) and Path(folder) != root:
                    inner.clear()
                elif (run := readable(Path(folder), names, left)) is not None:
                    by_folder[run.folder] = run
                    here += 1
                    inner.clear()
                inner.sort()
        if not here:
            what = "holds no runs" if roots else "matches nothing"
            why = "".join(f"{problem}. " for problem in left)
            raise UsageError(f"runs={place} {what}. {why}{EXPECTED}, such as runs='outputs/*'.")
    if problems is None:  # else who asks names those of runs
        left += [f"{run.folder}: {each}" for run in by_folder.values() for each in run.problems]
    for problem in left:
        (problems.append if problems is not None else log.warning)(problem)
    return beside_runs(by_folder.values())


def published_runs(place: str) -> list[Run]:
    """The entries of a table, ``published/smac``, as runs.

    Raises:
        UsageError: there is no such table.
    """
    text = files("rltrain.report").joinpath("published.json").read_text(encoding="utf-8")
    tables = json.loads(text)
    name = place.removeprefix(PREFIX)
    if name not in tables:
        raise UsageError(
            f"runs={place}: there is no published table '{name}'. Expected one of "
            f"{', '.join(tables)}: type runs={PREFIX}{next(iter(tables))}, or together with your "
            f"own runs runs='[outputs, {PREFIX}{next(iter(tables))}]'."
        )
    return [
        Run(
            folder=Path(f"{place}/{number}"),
            library=row["library"],
            algo=row["algo"],
            env=row["env"],
            seed=None,
            columns={
                "env_steps": np.array(row["env_steps"], float),
                row["metric"]: np.array(row["values"], float),
            },
            source=row["source"],
        )
        for number, row in enumerate(tables[name], 1)
    ]


def matching(place: str) -> list[Path]:
    """The folders that a typed path or pattern refers to; the path of a file refers to its
    folder.
    """
    typed = os.path.expanduser(place)
    if os.path.exists(typed):
        folders = [Path(typed) if os.path.isdir(typed) else Path(typed).parent]
    else:
        folders = [Path(p) for p in sorted(glob.glob(typed, recursive=True)) if os.path.isdir(p)]
    return list(dict.fromkeys(folder.resolve() for folder in folders))


def readable(folder: Path, names: Sequence[str], left: list[str]) -> Run | None:
    """The run in one folder; None if there is none or it cannot be read, for a reason that is added
    to ``left``.
    """
    try:
        for name in names:
            path, is_read = folder / name, name.endswith(READ) or cleanrl.EVENTS in name
            if is_read and (path.is_symlink() or not path.is_file()):
                raise ValueError(f"{name} is not a regular file, and links are not followed")
        there = {name for name in names if (folder / name).is_file()}
        read = (reader.read(folder, there) for reader in READERS)
        run = next((run for run in read if run is not None), None)
        if run is None:
            rltrain_runs.require_none(folder, there)
        else:
            if len(set(map(len, run.columns.values()))) > 1:
                raise ValueError("its arrays have different lengths")
            problems = list(run.problems)
            run = replace(run, columns=possible(run.columns, problems), problems=problems)
            if len(long := max(run.algo, run.env, key=len)) > LONGEST_NAME:
                raise ValueError(f"the name {long!a:.40}… has {len(long):,} characters")
            if not is_number(run.seed or 0):
                raise ValueError("its seed is not a number, or too large")
        return run
    except UsageError:  # a package is missing
        raise
    except Exception as error:
        left.append(
            f"{folder} is left out, since it cannot be read: {described(error).rstrip('.'):.500}"
        )
        return None
