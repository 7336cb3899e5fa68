"""Inject faults of one kind and count the outcomes: ``python -m benchmarks.faults NAME
[--seed N] [--cases N]``. At the end the counts are written to ``benchmarks/data/faults/NAME.json``
(those of ``determinism --envs ENV …`` to ``determinism-ENV-….json``), where with ``--cases`` they
only replace those of as many cases or fewer.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.faults import (
    calls,
    corruptions,
    cuts,
    determinism,
    disks,
    endurance,
    foreign,
    hostile,
    kills,
    lines,
    misplaced,
    omissions,
    overrides,
    power,
    searches,
    signals,
    soak,
    sweeps,
    workers,
)
from rltrain.common.files import get_json
from rltrain.hardware.device import machine
from rltrain.mode.run_folder import git_state

COUNTS = Path(__file__).parents[1] / "data" / "faults"
Cases = Callable[[Path, int, int | None], Iterator[tuple[str, str | None]]]
KINDS: dict[str, Cases] = {
    "calls": calls.cases,
    "corruptions": corruptions.cases,
    "cuts": cuts.cases,
    "determinism": determinism.cases,
    "disks": disks.cases,
    "endurance": endurance.cases,
    "foreign": foreign.cases,
    "hostile": hostile.cases,
    "kills": kills.cases,
    "lines": lines.cases,
    "misplaced": misplaced.cases,
    "omissions": omissions.cases,
    "overrides": overrides.cases,
    "power": power.cases,
    "searches": searches.cases,
    "signals": signals.cases,
    "soak": soak.cases,
    "sweeps": sweeps.cases,
    "workers": workers.cases,
}
"""Each maps a folder, a seed and a number of cases (None: all) to cases: a name, and the error
(None: behaved as promised).
"""


def count(kind: str, cases: Cases, seed: int, n_cases: int | None) -> dict[str, Any]:
    """Make the faults of a kind; returns the record that is kept."""
    start, n, failed = time.monotonic(), 0, {}
    about = {**git_state(), "machine": machine()}
    with tempfile.TemporaryDirectory() as folder:
        for name, problem in cases(Path(folder), seed, n_cases):
            n += 1
            if problem is not None:
                failed[name] = problem
                print(f"{name}: {problem}", flush=True)
    return {
        "kind": kind,
        "seed": seed,
        "cases": n,
        "passed": n - len(failed),
        "failed": failed,
        "minutes": round((time.monotonic() - start) / 60, 1),
        **about,
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults")
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, help="so many instead of all of them")
    parser.add_argument(
        "--envs", nargs="+", choices=sorted(determinism.ENVS), help="determinism: only in these"
    )
    options = parser.parse_args()
    name, cases = options.kind, KINDS[options.kind]
    if options.envs:
        if name != "determinism":
            parser.error("--envs is for determinism")
        name, cases = "-".join([name, *options.envs]), partial(determinism.cases, envs=options.envs)
    record = count(options.kind, cases, options.seed, options.cases)
    file = COUNTS / f"{name}.json"
    kept = get_json(file)["cases"] if file.exists() else math.inf
    if options.cases is None or record["cases"] >= kept:
        file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"{name}: {record['passed']} of {record['cases']} as promised")
    return 0 if record["passed"] == record["cases"] else 1


if __name__ == "__main__":
    sys.exit(main())
