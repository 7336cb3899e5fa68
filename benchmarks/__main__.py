"""Compare speed and memory with other libraries: ``python -m benchmarks [GROUP …]``.

Writes results.json, results.md and, for the group growth, growth.png. Stable-Baselines3, Tianshou
and JaxMARL are measured if installed, others if their source folder is given.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

import rltrain
from benchmarks.speed import growth
from benchmarks.speed.cases import GROUPS, replay_cases
from benchmarks.speed.machine import SIZES
from benchmarks.speed.programs import SOURCES, Peers, source_folder
from benchmarks.speed.report import FORMAT, load, markdown, regressions
from benchmarks.speed.turns import Case, Program, measure
from rltrain.hardware.device import machine
from rltrain.mode.run_folder import git_state

OUTPUT = Path("outputs/benchmarks")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    groups = [*GROUPS, "growth"]
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"{', '.join(groups)}; all")
    parser.add_argument("--only", default="", help="measure cases whose name contains this text")
    parser.add_argument("--rounds", type=int, default=7, help="of each program, in turns")
    parser.add_argument("--seconds", type=float, default=1.0, help="of a round")
    parser.add_argument("--threads", type=int, default=1, help="of groups update and engine")
    parser.add_argument(
        "--steps", type=int, default=1_000_000, help="of group replay, 7 kB of memory and disk each"
    )
    parser.add_argument("--output", type=Path, default=OUTPUT, metavar="DIR")
    parser.add_argument("--baseline", metavar="FILE", help="results.json of an earlier run")
    parser.add_argument(
        "--tolerance", type=float, default=0.2, help="exit with 1 where rltrain costs so much more"
    )
    for name in SOURCES:
        parser.add_argument(f"--{name}", metavar="DIR", help=f"source folder of {name}")
    options = parser.parse_args(arguments)
    unknown = [group for group in options.groups if group not in groups]
    if unknown:
        parser.error(f"unknown group {unknown[0]}: expected one of {', '.join(groups)}")
    options.groups = options.groups or groups
    return options


def matrix_rates(threads: Sequence[int], console: Console) -> dict[str, dict[str, float]]:
    """Floating-point operations per second of CPU and of wall-clock time that matrix products reach
    at the best size, by the number of threads.
    """
    found = {}
    for n in threads:
        programs = [
            Program(
                "×".join(map(str, size)),
                "benchmarks.speed.machine:matrix_products",
                dict(zip(("rows", "inner", "columns"), size, strict=True)),
                n,
            )
            for size in SIZES
        ]
        case = Case(name="", group="", unit="", programs=programs)
        each = measure(case, rounds=5, seconds=0.2)["programs"].values()
        best = {clock: min(p[f"{clock}_ms"]["low"] for p in each) for clock in ("cpu", "wall")}
        found[str(n)] = {clock: float(f"{1e3 / low:.4g}") for clock, low in best.items()}
        rates = {clock: f"{rate / 1e9:.0f}" for clock, rate in found[str(n)].items()}
        console.print(
            f"matrix products, {n} threads: {rates['cpu']} GFLOP per CPU second, {rates['wall']} "
            "GFLOP/s of the clock"
        )
    return found


def chosen(options: argparse.Namespace) -> list[Case]:
    """The cases of the groups asked for.

    Raises:
        ValueError: a source folder is not one, or no case is left.
    """
    folders = {name: getattr(options, name) for name in SOURCES}
    peers = Peers(**{name: f and source_folder(name, f) for name, f in folders.items()})
    groups = {**GROUPS, "replay": partial(replay_cases, steps=options.steps)}
    cases = [
        case
        for group in options.groups
        for case in (growth.cases() if group == "growth" else groups[group](peers, options.threads))
        if options.only in case.name
    ]
    if not cases:
        raise ValueError(f"--only '{options.only}': no case of these groups has it in its name.")
    return cases


def run(options: argparse.Namespace, cases: Sequence[Case], console: Console) -> dict[str, Any]:
    """Measure the cases; after each one its line is printed and the files are written."""
    threads = sorted({program.threads for case in cases for program in case.programs})
    results: dict[str, Any] = {
        "format": FORMAT,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "version": rltrain.__version__,
        **git_state(),
        "machine": {**machine(), "load": os.getloadavg()[0]},
        "matrix_rate": matrix_rates(threads, console) if limited(cases) else {},
        "cases": [],
        "failed": [],
    }
    for case in cases:
        try:
            result = measure(case, rounds=options.rounds, seconds=options.seconds)
        except RuntimeError as error:  # of another library, perhaps: the rest is still measured
            console.print(f"{case.name}: {error}", markup=False)
            results["failed"].append(case.name)
            continue
        results["cases"].append(result)
        medians = (
            f"{name} {each['cpu_ms']['median']:.4g} ms" for name, each in result["programs"].items()
        )
        console.print(f"{case.name}, CPU time per {case.unit}: {', '.join(medians)}", markup=False)
        write(results, options.output)
    return results


def write(results: dict[str, Any], output: Path) -> None:
    """results.json and results.md."""
    output.mkdir(parents=True, exist_ok=True)
    text = json.dumps(results, indent=1, ensure_ascii=False)
    (output / "results.json").write_text(text, encoding="utf-8")
    (output / "results.md").write_text(markdown(results), encoding="utf-8")


def limited(cases: Sequence[Case]) -> bool:
    """Whether the matrix rate is shown beside one of them."""
    return any(case.arithmetic or case.group == "growth" for case in cases)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(sys.argv[1:] if arguments is None else arguments)
    console = Console(highlight=False, soft_wrap=True)
    try:
        baseline = options.baseline and load(options.baseline)
        results = run(options, chosen(options), console)
        slower = regressions(results, baseline, options.tolerance) if baseline else []
    except ValueError as error:
        console.print(str(error))
        return 2
    if growth.complete(results):
        growth.plot(results, options.output / "growth.png")
    console.print(f"Written to {options.output}", markup=False)
    for line in slower:
        console.print(line)
    return 1 if slower or results["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
