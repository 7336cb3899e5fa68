"""Measure programs in turns: each in its own process, one round after the other.

Other load on the machine then affects all of them equally. CPU time, including child processes, is
measured as well as wall-clock time, and ratios are taken within a round.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import psutil

ROOT = Path(__file__).parents[2]
WORKER = Path(__file__).parent / "worker.py"
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Program(NamedTuple):
    """One program of a case.

    Args:
        name: in the tables; those of rltrain begin with ``rltrain``.
        target: ``module:function`` of the work, see ``worker.py``.
        arguments: of the function.
        threads: of its numeric libraries.
    """

    name: str
    target: str
    arguments: Mapping[str, Any] = {}
    threads: int = 1


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is measured of several programs in turns.

    Args:
        name: unique; a run is compared with an earlier one by it.
        group: of the command line and the tables.
        unit: of the work.
        clock: ``cpu`` or ``wall``: the time that ratios are taken of.
        arithmetic: floating-point operations of a unit, where they are the limit.
        work: of one round; None for as much as fits into its seconds.
        rounds: None for as many as the command line says.
    """

    name: str
    group: str
    unit: str
    programs: Sequence[Program]
    clock: str = "cpu"
    arithmetic: float | None = None
    work: float | None = None
    rounds: int | None = None
    settings: str = ""


class Round(NamedTuple):
    """Work done, CPU and wall-clock seconds, peak of the resident memory in MB."""

    work: float
    cpu: float
    wall: float
    peak_mb: float

    def cost(self, clock: str) -> float:
        """Seconds of a unit of work."""
        return (self.cpu if clock == "cpu" else self.wall) / self.work


@dataclass
class Process:
    """A running program.

    Raises:
        RuntimeError: it failed; what it printed last is in the message.
    """

    program: Program

    def __post_init__(self) -> None:
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  as long as the process
        threads = dict.fromkeys(THREAD_VARIABLES, str(self.program.threads))
        environment = {k: v for k, v in os.environ.items() if k != "GOMP_SPINCOUNT"}  # of rltrain
        self.popen = subprocess.Popen(
            [sys.executable, WORKER, self.program.target, json.dumps(dict(self.program.arguments))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env={**environment, **threads, "PYTHONPATH": str(ROOT)},
        )

    def ready(self) -> None:
        """Wait until its work is prepared."""
        self._answer()

    def round(self, unit: str, amount: float) -> Round:
        """Let it do a round."""
        assert self.popen.stdin is not None
        before = self._children()[0]
        print(unit, amount, file=self.popen.stdin, flush=True)
        found = self._answer()
        cpu, memory = self._children()
        found["cpu"] += max(0.0, cpu - before)
        found["peak_mb"] += memory
        return Round(**found)

    def close(self) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.close()
        self.popen.wait()

    def _answer(self) -> dict[str, Any]:
        assert self.popen.stdout is not None
        line = self.popen.stdout.readline()
        if not line:
            self.popen.wait()
            self.errors.seek(0)
            tail = self.errors.read()[-2000:]
            raise RuntimeError(f"{self.program.name} ({self.program.target}) failed:\n{tail}")
        return dict(json.loads(line))

    def _children(self) -> tuple[float, float]:
        """CPU seconds and MB of running child processes."""
        children = psutil.Process(self.popen.pid).children(recursive=True)
        times = [child.cpu_times() for child in children]
        megabytes = sum(child.memory_info().rss for child in children) / 2**20
        return sum(each.user + each.system for each in times), megabytes


YARDSTICK = Program("yardstick", "benchmarks.speed.machine:fixed_work")
"""The same work in every run: what is compared with an earlier run is divided by its cost."""


def measure(case: Case, *, rounds: int, seconds: float) -> dict[str, Any]:
    """The result of a case, as it is written to JSON: see ``summary``."""
    unit, amount = ("seconds", seconds) if case.work is None else ("work", case.work)
    processes = []
    try:
        processes += [Process(program) for program in case.programs]
        yardstick = Process(YARDSTICK)
        processes.append(yardstick)
        for process in processes:  # they prepare at the same time
            process.ready()
        taken: dict[str, list[Round]] = {process.program.name: [] for process in processes}
        for _ in range(case.rounds or rounds):
            for process in processes[:-1]:
                taken[process.program.name].append(process.round(unit, amount))
            taken[YARDSTICK.name].append(yardstick.round("work", 1))
    finally:
        for process in processes:
            process.close()
    return summary(case, taken)


def summary(case: Case, taken: Mapping[str, Sequence[Round]]) -> dict[str, Any]:
    """Medians and ranges of every program, and its cost in those of the first one and of the
    yardstick, round by round.
    """
    first = [each.cost(case.clock) for each in taken[case.programs[0].name]]
    fixed = [each.cost("cpu") for each in taken[YARDSTICK.name]]
    programs = {}
    for program in case.programs:
        rounds = taken[program.name]
        costs = [each.cost(case.clock) for each in rounds]
        programs[program.name] = {
            "threads": program.threads,
            "cpu_ms": spread([1e3 * each.cost("cpu") for each in rounds]),
            "wall_ms": spread([1e3 * each.cost("wall") for each in rounds]),
            "peak_mb": round(max(each.peak_mb for each in rounds), 1),
            "ratio": spread([a / b for a, b in zip(costs, first, strict=True)]),
            "yardsticks": spread([a / b for a, b in zip(costs, fixed, strict=True)]),
            "rounds": [each._asdict() for each in rounds],
        }
    return {
        "name": case.name,
        "group": case.group,
        "unit": case.unit,
        "clock": case.clock,
        "settings": case.settings,
        "arithmetic": case.arithmetic,
        "programs": programs,
    }


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median and range, to four digits."""
    found = {"median": statistics.median(values), "low": min(values), "high": max(values)}
    return {key: float(f"{value:.4g}") for key, value in found.items()}
