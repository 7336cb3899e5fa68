"""Metrics of many runs as a pandas DataFrame."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from rltrain.common.machine.install import require_extra
from rltrain.common.machine.places import require_path
from rltrain.common.metrics import CLOCK
from rltrain.errors import UsageError, usage_errors
from rltrain.report.readers import find_runs
from rltrain.report.run_groups import grouped

if TYPE_CHECKING:
    import pandas as pd


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
