"""Published results, which come with rltrain: tables of values and curves, each with its source."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import numpy as np

from rltrain.errors import UsageError
from rltrain.report.run_data import Run

PREFIX = "published/"


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
