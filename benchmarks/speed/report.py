"""Results of a run: its JSON file, its Markdown tables, and a comparison with an earlier run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

FORMAT = 1


def load(path: str | Path) -> dict[str, Any]:
    """The results of an earlier run.

    Raises:
        ValueError: the file is missing or not one.
    """
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        assert found["format"] == FORMAT
    except (OSError, ValueError, KeyError, TypeError, AssertionError) as error:
        raise ValueError(
            f"{path}: expected the results.json of an earlier `python -m benchmarks`, got "
            f"{type(error).__name__}: {error}. Give the path that such a run printed."
        ) from error
    return dict(found)


def regressions(now: Mapping[str, Any], before: Mapping[str, Any], tolerance: float) -> list[str]:
    """A line for each program of rltrain that costs more than before, by more than ``tolerance``.

    Costs are in those of a fixed piece of work, measured in the same rounds: the ratio of two runs
    says nothing of the machine or of what else it did.

    Raises:
        ValueError: the runs have no case in common.
    """
    earlier = {case["name"]: case["programs"] for case in before["cases"]}
    compared, found = 0, []
    for case in now["cases"]:
        for name, program in case["programs"].items():
            old = earlier.get(case["name"], {}).get(name)
            if old is None or not name.startswith("rltrain"):
                continue
            compared += 1
            ratio = program["yardsticks"]["median"] / old["yardsticks"]["median"]
            if ratio > 1 + tolerance:
                found.append(
                    f"{case['name']}, {name}: {ratio:.2f} times the cost of the earlier run"
                )
    if not compared:
        raise ValueError("The two runs have no measurement of rltrain in common: nothing compared.")
    return found


def markdown(results: Mapping[str, Any]) -> str:
    """Tables of all groups, after a description of the machine."""
    machine = results["machine"]
    rates = ", ".join(
        f"{rate['cpu'] / 1e9:.0f} GFLOP per CPU second and {rate['wall'] / 1e9:.0f} per second of "
        f"the clock with {threads} thread{'s' * (threads != '1')}"
        for threads, rate in results["matrix_rate"].items()
    )
    lines = [
        f"{machine['cpu']}, {machine['cores']} cores, load {machine['load']:.1f} at the start; "
        f"rltrain {results['version']} ({(results['git_commit'] or '')[:7]}), {results['date']}.",
        f"Matrix products of PyTorch: {rates}." if rates else "",
        "Median (lowest … highest) of rounds in turns; ratios are of the same round.",
    ]
    for group in dict.fromkeys(case["group"] for case in results["cases"]):
        cases = [case for case in results["cases"] if case["group"] == group]
        lines += ["", *table(group, cases, results["matrix_rate"])]
    return "\n".join(lines) + "\n"


def table(group: str, cases: Sequence[Mapping[str, Any]], rates: Mapping[str, Any]) -> list[str]:
    """One row for each program of each case."""
    lines = [
        f"| {group} | program | CPU ms | wall ms | per CPU second | MB | cost of rltrain's | |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for case in cases:
        for i, (name, program) in enumerate(case["programs"].items()):
            label = f"{case['name']}: {case['settings']}" if i == 0 else ""
            ratio = f"{around(program['ratio'])} × ({case['clock']})" if i else ""
            share = ""
            if case["arithmetic"] and str(program["threads"]) in rates:
                limit = 1e3 * case["arithmetic"] / rates[str(program["threads"])][case["clock"]]
                share = f"{limit / program[case['clock'] + '_ms']['median']:.0%} of the rate"
            cpu, wall = program["cpu_ms"], program["wall_ms"]
            lines.append(
                f"| {label} | {name} | {around(cpu)} | {around(wall)} | "
                f"{1e3 / cpu['median']:,.0f} | {program['peak_mb']:.0f} | {ratio} | {share} |"
            )
    return lines


def around(spread: Mapping[str, float]) -> str:
    """``5.1 (4.9 … 5.4)``."""
    return "{median:.3g} ({low:.3g} … {high:.3g})".format(**spread)
