"""The end of a sweep: its tables, ``results.csv`` and the exit code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from rich.table import Column, Table

from rltrain.common.files import put_text
from rltrain.errors import SIGNAL_CODES
from rltrain.logger.metric_files import csv_text, to_table
from rltrain.logger.screen import Screen, shown
from rltrain.mode.sweep.plan import SweepJob, SweepPlan
from rltrain.mode.sweep.saved import resume_command
from rltrain.report.statistics import estimate, mean, resampled_runs

FILE = "results.csv"
COLUMNS = {"last test return": ("test/return_mean", ".2f"), "win rate": ("test/win_rate", ".0%")}
RESAMPLES = 2_000


def summarize(plan: SweepPlan, stopped: str | None = None, refused: Iterable[int] = ()) -> int:
    """Print how the jobs and configurations of a sweep did, which the signal ``stopped`` ended,
    write ``results.csv``, and return the sweep's exit code: the worst of its jobs and of the exit
    codes of ``refused`` ones, whose records say how they did before.
    """
    try:
        return show(plan, stopped, refused)
    finally:  # Ctrl-C may end what is shown, but not lose the results
        put_text(plan.folder / FILE, results_text(plan.known_jobs))


def show(plan: SweepPlan, stopped: str | None, refused: Iterable[int]) -> int:
    """Print tables and messages; returns the exit code."""
    console = Screen()
    jobs = plan.known_jobs
    job_column = Column("job", overflow="fold")  # what tells jobs apart stands at the end
    columns = (job_column, "status", Column("env steps", justify="right"))
    rows = [((job.name, job.status, f"{job.env_steps:,}"), [job]) for job in jobs]
    console.print(table_of_tests(f"Sweep in {shown(plan.folder)}", columns, rows))
    groups = configurations(jobs) if plan.jobs else {}  # other sweepers do not name overrides
    if plan.n_finished and any(len(group) > 1 for group in groups.values()):
        console.print(configuration_table(groups))
    for job in jobs:
        if job.status == "failed":
            console.lines(f"{job.name} failed: {job.record.get('error')}")
    n_begun = sum(job.status != "not started" for job in jobs)
    signaled = SIGNAL_CODES[stopped or "SIGINT"]
    codes = [*refused]
    for job in (job for job in jobs if job.record):
        lasts = stopped and job.status == "running"  # of a launcher whose jobs outlive it
        codes.append(signaled if lasts else job.exit_code)
    if n_begun < plan.n_jobs:
        console.print(f"{plan.n_jobs - n_begun} of {plan.n_jobs} jobs were not started.")
        codes.append(signaled)
    if not plan.finished:
        command = resume_command(plan)
        resumes = f", or {command}," if command else ""
        console.lines(f"The same command{resumes} continues with the runs that have not finished.")
    return worst(codes, None if plan.finished else stopped)


def configurations(jobs: Sequence[SweepJob]) -> dict[str, list[SweepJob]]:
    """The jobs by their overrides that differ within the sweep, the seed apart."""
    given = [dict(o.partition("=")[::2] for o in job.overrides) for job in jobs]
    keys = dict.fromkeys(key for pairs in given for key in pairs if key != "seed")
    differ = [key for key in keys if len({pairs.get(key) for pairs in given}) > 1]
    groups: dict[str, list[SweepJob]] = {}
    for job, pairs in zip(jobs, given, strict=True):
        name = " ".join(f"{key}={pairs[key]}" for key in differ if key in pairs)
        groups.setdefault(name or "all runs", []).append(job)
    return groups


def configuration_table(groups: Mapping[str, Sequence[SweepJob]]) -> Table:
    """Means over the seeds of every configuration, with 95% bootstrap intervals."""
    title = "Mean over the finished runs, with the 95% bootstrap interval"
    finished = {name: [job for job in jobs if job.finished] for name, jobs in groups.items()}
    rows = [
        ((name, f"{len(jobs)} of {len(groups[name])}"), jobs) for name, jobs in finished.items()
    ]
    return table_of_tests(title, ("configuration", Column("runs", justify="right")), rows)


def table_of_tests(
    title: str,
    columns: Sequence[Column | str],
    rows: Sequence[tuple[Sequence[str], Sequence[SweepJob]]],
) -> Table:
    """A table of rows of texts, each followed by the metrics of its jobs that any row has."""
    tests = [[job.test() for job in jobs] for _, jobs in rows]
    had = {c: at for c, at in COLUMNS.items() if any(at[0] in t for row in tests for t in row)}
    table = Table(*columns, *(Column(name, justify="right") for name in had), title=title)
    for (texts, _), row in zip(rows, tests, strict=True):
        values = (([t[m] for t in row if m in t], form) for m, form in had.values())
        table.add_row(*texts, *(interval_text(*each) for each in values))
    return table


def interval_text(values: Sequence[float], form: str) -> str:
    """12.34 [11.20, 13.50]; of one value that value."""
    if len(values) < 2:
        return "".join(format(value, form) for value in values)
    scores = [np.array(values)]
    drawn = resampled_runs(scores, RESAMPLES, np.random.default_rng(0))
    value, low, high = (float(v) for v in estimate(scores, mean, drawn))
    return f"{value:{form}} [{low:{form}}, {high:{form}}]"


def results_text(jobs: Sequence[SweepJob]) -> str:
    """A row per job: its overrides, how it ended, and every metric of its last and best test."""
    rows = []
    for job in jobs:
        row: dict[str, object] = {"job": job.name, "overrides": " ".join(job.overrides)}
        row |= {"status": job.status, "env_steps": job.env_steps}
        row |= {f"last {name}": value for name, value in job.test().items()}
        rows.append(row | {f"best {name}": value for name, value in job.test("best").items()})
    return csv_text(to_table(rows))


def worst(codes: Sequence[int], stopped: str | None = None) -> int:
    """The exit code of a sweep: that of a failed job (1 … 5), else that of the signal ``stopped``,
    else the largest. SIGUSR1 comes first, since a cluster then requeues the sweep.
    """
    failed = max((code for code in codes if 1 <= code <= 5), default=0)
    if stopped is not None and (stopped == "SIGUSR1" or not failed):
        return SIGNAL_CODES[stopped]
    return failed or max(codes)
