"""How the cost scales with agents, environments, batch and threads, and the arithmetic limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.speed.qmix_update import acting_arithmetic, arithmetic, smac_like
from benchmarks.speed.turns import Case, Program
from rltrain.hardware.device import available_cores
from rltrain.types import EnvSpec

OURS = "benchmarks.speed.ours"
N_STEPS = 60
CLOCKS = {"cpu": "CPU", "wall": "wall-clock"}


class Axis(NamedTuple):
    """One panel: its label, the unit of work, and a program for every point."""

    label: str
    unit: str
    points: tuple[int, ...]
    program: Callable[[int], Program]
    arithmetic: Callable[[int], float]  # of a unit of work
    clock: str = "cpu"


def updates(n_agents: int, batch_size: int = 32, threads: int = 1) -> Program:
    arguments = {
        "n_agents": n_agents,
        "lengths": [N_STEPS] * batch_size,
        "threads": threads,
    }
    return Program("", f"{OURS}:update", arguments, threads)


def collecting(n_envs: int) -> Program:
    return Program("", f"{OURS}:collect", {"map_name": "3m", "n_envs": n_envs})


def axes() -> Mapping[str, Axis]:
    """The four panels; threads are powers of two up to the cores of this machine."""
    cores = available_cores()
    threads = tuple(sorted({*(2**k for k in range(cores.bit_length()) if 2**k <= cores), cores}))
    return {
        "agents": Axis(
            "agents (QMIX update, 32 episodes of 60)",
            "update",
            (3, 5, 8, 12, 18, 27),
            updates,
            lambda n: of_updates(smac_like(n), 32),
        ),
        "environments": Axis(
            "environments (acting in battles of 3m)",
            "env step",
            (1, 4, 16, 64, 256, 512),
            collecting,
            lambda n: acting_arithmetic(smac_like(3)),
        ),
        "batch": Axis(
            "episodes in a batch (QMIX update, 3m, 60 steps)",
            "update",
            (8, 16, 32, 64, 128, 256),
            lambda n: updates(3, n),
            lambda n: of_updates(smac_like(3), n),
        ),
        "threads": Axis(
            "threads (QMIX update, 8 agents, 32 episodes of 60)",
            "update",
            threads,
            lambda n: updates(8, threads=n),
            lambda n: of_updates(smac_like(8), 32),
            "wall",
        ),
    }


def of_updates(spec: EnvSpec, batch_size: int) -> float:
    return arithmetic(spec, [N_STEPS] * batch_size)


def cases() -> Iterator[Case]:
    """A case for each panel, with its points as programs."""
    for name, axis in axes().items():
        yield Case(
            name=f"growth with {name}",
            group="growth",
            unit=axis.unit,
            clock=axis.clock,
            programs=[axis.program(n)._replace(name=f"rltrain {n}") for n in axis.points],
            settings=axis.label,
        )


def complete(results: Mapping[str, Any]) -> bool:
    """Whether all panels were measured."""
    found = {case["name"] for case in results["cases"]}
    return found >= {case.name for case in cases()}


def plot(results: Mapping[str, Any], path: Path) -> None:
    """Draw the panels with medians and ranges, and the limit of the measured matrix rate."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator

    figure = Figure(figsize=(10, 7), layout="constrained")
    panels = figure.subplots(2, 2).flat
    found = {case["name"]: case for case in results["cases"]}
    for panel, (name, axis) in zip(panels, axes().items(), strict=True):
        programs = found[f"growth with {name}"]["programs"]
        points = [int(program.split()[-1]) for program in programs]
        scale, time = (1e3, "µs") if axis.unit == "env step" else (1.0, "ms")
        costs = [each[f"{axis.clock}_ms"] for each in programs.values()]
        rates = [results["matrix_rate"].get(str(p["threads"]), {}) for p in programs.values()]
        median = [scale * cost["median"] for cost in costs]
        low = [m - scale * cost["low"] for m, cost in zip(median, costs, strict=True)]
        high = [scale * cost["high"] - m for m, cost in zip(median, costs, strict=True)]
        panel.errorbar(points, median, (low, high), marker="o", capsize=3, label="rltrain")
        limits = [
            (n, scale * 1e3 * axis.arithmetic(n) / rate[axis.clock])
            for n, rate in zip(points, rates, strict=True)
            if rate
        ]
        panel.plot(*zip(*limits, strict=True), "k--", label="arithmetic at the matrix rate")
        panel.set(xscale="log", yscale="log", xlabel=axis.label, xticks=points)
        panel.set_ylabel(f"{time} of {CLOCKS[axis.clock]} time per {axis.unit}")
        panel.set_xticklabels([str(n) for n in points])
        panel.minorticks_off()
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.yaxis.set_major_formatter("{x:g}")
        panel.grid(alpha=0.3)
        panel.legend()
    figure.savefig(path, dpi=120)
