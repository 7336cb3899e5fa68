"""Training results: unattended runs, their kept metrics, and tables of them.

    python -m benchmarks.results run                          missing runs, two at a time
    python -m benchmarks.results run teams lbf-vdn:1-3        of a group; the seeds of a task
    python -m benchmarks.results keep                         copy metrics to benchmarks/data
    python -m benchmarks.results table teams                  a Markdown table, from that copy
    python -m benchmarks.results costs                        time and memory of all of them
    python -m benchmarks.results ranking                      IQL < VDN < QMIX, over maps
    python -m benchmarks.results agreement                    published results of equal length
    python -m benchmarks.results game                         SMACv2 beside the game's curves
    python -m benchmarks.results write                        all of it into docs, and docs/curves
    python -m benchmarks.results repeat lbf-vdn-s2            a kept run again, at its commit

`run` trains in outputs/results, one thread each; finished runs are skipped, interrupted ones
resumed, and every command is printed. Where no seeds are given, kept runs are skipped, too.
`keep FOLDER` copies runs from another folder, and those of EPyMARL's own code among them: Sacred's
folders whose `local_results_path` is called like `lbf-vdn-epymarl-s1`. Tasks: benchmarks/tasks.py.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from benchmarks import agreement, game_curves, ranking
from benchmarks.curves import draw
from benchmarks.kept import PEER, files, keep, kept, records
from benchmarks.repeat import repeat
from benchmarks.runs import run_all, seeds
from benchmarks.task_kinds import Task
from benchmarks.tasks import METHODS, TASKS, task
from rltrain.logger.curve import series
from rltrain.report.statistics import estimate, iqm, resampled_runs

OUTPUT = Path("outputs/results")
CURVES = Path("docs/curves")
PAGES = (
    Path("docs/results.md"),
    Path("docs/comparing.md"),
    *sorted(Path("docs/algorithms").glob("*.md")),
)
PRINTED = re.compile(
    r"<!-- python -m benchmarks\.results (table [\w -]+|costs|ranking|agreement|game) -->"
    r".*?<!-- end -->",
    re.S,
)
"""What a command has printed into a page."""
WIDTH = 120
"""Of lines of the documentation."""


def jobs(words: list[str]) -> Iterator[tuple[Path, list[str]]]:
    """``lbf-vdn:1-3`` to three folders and what is typed for them; ``lbf-vdn`` and ``teams`` to
    those of their runs that are not kept yet.
    """
    for word in words or TASKS:
        name, _, numbers = word.partition(":")
        for each in TASKS.get(name, (name,)):
            for seed in seeds(numbers) if numbers else missing(each):
                overrides = named(each).overrides.split()
                yield OUTPUT / f"{each}-s{seed}", [*overrides, f"seed={seed}"]


def missing(name: str) -> list[int]:
    """The seeds of a task whose runs are not kept."""
    return [seed for seed in range(1, named(name).seeds + 1) if str(seed) not in files(name)]


def named(name: str) -> Task:
    """The task of that name; ends the program with all names if there is none."""
    try:
        return task(name)
    except KeyError:
        groups = ", ".join(TASKS)
        names = ", ".join(name for group in TASKS.values() for name in group)
        sys.exit(f"There is no task '{name}'. Groups: {groups}. Tasks: {names}.")


def row(name: str, label: str, task: Task, published: str) -> str | None:
    """A row of the table: scores of all seeds, their median, their IQM with its interval where
    there are seeds enough, and the best of what was measured after training began.

    Values are left out that lie half an interval or more after the last of the other library.
    """
    runs = kept(name, task.metric)
    if not runs:
        return None
    about = [lines[0]["run"] for lines in runs.values()]
    curves = [series(lines[1:], task.metric) for lines in runs.values()]
    end = end_of_both(name.removesuffix(PEER), task.metric)
    values = [[y for x, y in zip(*curve, strict=True) if x <= end] for curve in curves]
    scores = np.array([np.mean(each[-task.last :]) for each in values])
    shown = "{:.1%}" if task.metric.endswith("win_rate") else "{:.2f}"
    cells = [
        label,
        f"{max(record['env_steps'] for record in about):,}",
        ", ".join(runs),
        ", ".join(map(shown.format, scores)),
        shown.format(np.median(scores)),
        interval(scores, shown),
        shown.format(max(max(each[1:]) for each in values)),
        absolute(about, task, shown),
        published,
        short(np.mean([record["seconds"] / 60 for record in about])),
    ]
    return f"| {' | '.join(cells)} |"


def absolute(about: list[dict[str, Any]], task: Task, shown: str) -> str:
    """The mean over seeds of the absolute metric, where it was measured."""
    name = task.metric.replace("train/", "test/")
    measured = [(record.get("absolute") or {}).get(name) for record in about]
    return "" if None in measured else shown.format(np.mean(measured))


def end_of_both(name: str, metric: str) -> float:
    """How far a comparison with the other library reaches: half an interval between its values
    behind its shortest run.
    """
    curves = [series(lines[1:], metric)[0] for lines in kept(f"{name}{PEER}", metric).values()]
    return min((x[-1] + (x[-1] - x[-2]) / 2 for x in curves), default=np.inf)


def interval(scores: np.ndarray, shown: str) -> str:
    """The interquartile mean and its 95% interval; nothing below five seeds, of which too few
    would be left.
    """
    if len(scores) < 5:
        return ""
    drawn = resampled_runs([scores], 2_000, np.random.default_rng(0))
    found = estimate([scores], iqm, drawn)
    level, low, high = (shown.format(x) for x in (iqm(scores), found.low, found.high))
    return f"{level} ({low} … {high})"


def table(group: str) -> str:
    """The kept runs of a group, or of named tasks, with those of the other library beside them
    where there are any, and a line about the software and the machine.
    """
    if not kept_names(group):
        return "No run has finished yet."
    lines = header("task, env steps, seeds, each, median, IQM, best, absolute, published, minutes")
    for name, each in tasks_of(group).items():
        found = row(name, name, each, each.published)
        peer = row(f"{name}{PEER}", f"{name}, EPyMARL's own code", each, "")
        lines += [line for line in (found, peer) if line]
    return "\n".join([*lines, "", origin(group)])


def header(names: str) -> list[str]:
    """The first two lines of a table, given the names of its columns."""
    columns = names.split(", ")
    return [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]


def costs() -> str:
    """Time and memory of the kept runs of all tasks, from the least to the most; CPU time and all
    memory where they were recorded.
    """
    words = "task, runs, env steps, gradient steps, minutes, CPU minutes"
    lines = header(f"{words}, memory (MiB), replay (MiB), networks (MiB)")
    for name in (name for group in TASKS for name in kept_names(group)):
        about = list(records(name).values())
        plan = about[0].get("plan")
        cells = [
            name,
            str(len(about)),
            f"{max(record['env_steps'] for record in about):,}",
            span(about, "updates", 1),
            span(about, "seconds", 60),
            span(about, "cpu_seconds", 60),
            span(about, "peak_memory_bytes", 2**20),
            f"{plan['replay']['bytes'] / 2**20:,.0f}" if plan else "",
            f"{plan['network_bytes'] / 2**20:.1f}" if plan else "",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def span(about: list[dict[str, Any]], name: str, unit: float) -> str:
    """A field of all records that have it, from the least to the most, as one number where both
    read the same; nothing if none has it.
    """
    found = [record[name] / unit for record in about if record.get(name) is not None]
    return "–".join(dict.fromkeys(short(x) for x in (min(found), max(found)))) if found else ""


def short(x: float | np.floating[Any]) -> str:
    """Whole numbers from 10 on, one decimal below."""
    return f"{x:,.0f}" if x >= 10 else f"{x:.1f}"


def tasks_of(group: str) -> Mapping[str, Task]:
    """The tasks of a group by name, or those that are named with blanks between them."""
    return TASKS.get(group) or {name: task(name) for name in group.split()}


def kept_names(group: str) -> list[str]:
    """The tasks of a group with kept runs; those of the other library follow ours."""
    both = (name for task in tasks_of(group) for name in (task, f"{task}{PEER}"))
    return [name for name in both if files(name)]


def origin(group: str) -> str:
    """Which commits on which machines made the kept runs of a group, under which rules."""
    about = [record for name in kept_names(group) for record in records(name).values()]
    commits: dict[str, set[str]] = {}
    for record in about:
        commits.setdefault(record.get("library", "rltrain"), set()).add(record["git_commit"][:7])
    made = [f"{library} {', '.join(sorted(found))}" for library, found in sorted(commits.items())]
    machines = {f"{r['machine']['cpu']}, {r['machine']['cores']} cores" for r in about}
    rules = {(record.get("environment") or {}).get("rules_version") for record in about}
    versions = [f"battle rules version {version}" for version in sorted(rules - {None})]
    return fill(f"Made with {'; '.join([*made, *sorted(machines), *versions])}.", WIDTH)


def printed(before: re.Match[str]) -> str:
    """What the command prints now, and the curves of its runs."""
    group = before[1].removeprefix("table ")
    text = COMMANDS[group]() if group in COMMANDS else table(group)
    if group in TASKS and kept_names(group):
        text += f"\n\n![Every seed over env steps and minutes](curves/{group}.png)"
    return f"<!-- python -m benchmarks.results {before[1]} -->\n{text}\n\n<!-- end -->"


def wrapped(lines: Iterable[str]) -> str:
    """Lines of a page, those that are no rows of a table in its width."""
    return "\n".join(line if line.startswith("|") else fill(line, WIDTH) for line in lines)


COMMANDS: Mapping[str, Callable[[], str]] = {
    "costs": costs,
    "ranking": lambda: wrapped(ranking.lines_of(ranking.scores_by_map())),
    "agreement": lambda: wrapped(agreement.lines_of([*agreement.rows()])),
    "game": lambda: wrapped(game_curves.lines_of(game_curves.compared())),
}
"""Those that print a table, by name."""


def draw_all() -> None:
    """Draw the curves of all groups, and those of the algorithms' pages."""
    pages = {f"methods/{page}": names for page, names in METHODS.items()}
    for picture, names in ({group: tuple(TASKS[group]) for group in TASKS} | pages).items():
        found = {name: (kept(name), kept(f"{name}{PEER}")) for name in names}
        found = {name: both for name, both in found.items() if any(both)}
        if found:
            draw(CURVES / f"{picture}.png", found)
    game_curves.draw_beside_game(CURVES / "smacv2_game.png")


def main(arguments: list[str]) -> None:
    match arguments:
        case ["run", *words]:
            run_all(jobs(words))
        case ["keep", *folder] if len(folder) < 2:
            keep(Path(*folder) if folder else OUTPUT)
        case [command] if command in COMMANDS:
            print(COMMANDS[command]())
        case ["repeat", row]:
            print(repeat(row))
        case ["write"]:
            for page in PAGES:
                page.write_text(PRINTED.sub(printed, page.read_text("utf-8")), encoding="utf-8")
            draw_all()
        case ["table", *groups]:
            print("\n\n".join(table(group) for group in groups or TASKS))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
