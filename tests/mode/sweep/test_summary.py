"""The end of a sweep: its tables, ``results.csv`` and the exit code."""

import csv
import math
from dataclasses import replace
from pathlib import Path

import pytest

from rltrain.mode.sweep import summary
from rltrain.mode.sweep.plan import SweepJob, SweepPlan
from rltrain.mode.sweep.summary import RESAMPLES, configurations, interval_text, summarize, worst
from rltrain.report.analysis import analyze
from tests.helpers import changed_json, full, put_record, stopped
from tests.marks import each_once
from tests.report.runs import run, settings


def finished(test):
    """The record of a run with this last test."""
    facts = {"status": "finished", "exit_code": 0, "env_steps": 300}
    return {**facts, "final_test": {"env_steps": 300, **test}}


def sweep(folder, returns, n_jobs=None):
    """A sweep over algo and seed whose jobs ended with these returns; None: it failed."""
    jobs = []
    for number, (algo, seed, value) in enumerate(returns):
        overrides = (f"algo={algo}", f"seed={seed}", "env=two_step")
        job = SweepJob(folder / f"{number}_algo-{algo}_seed-{seed}", overrides)
        if value is None:
            error = "EnvError: step 3"
            put_record(job.folder, status="failed", exit_code=4, error=error, env_steps=30)
        else:
            put_record(job.folder, **finished({"test/return_mean": value}))
        jobs.append(job)
    return SweepPlan(folder, ("x",), "digest", n_jobs or len(jobs), "now", tuple(jobs))


@pytest.mark.parametrize(
    ("codes", "code"),
    [([0, 0], 0), ([0, 130], 130), ([1, 3, 130], 3), ([2, 143], 2), ([0, 85], 85)],
)
def test_a_sweep_exits_with_the_worst_of_its_jobs(codes, code):
    assert worst(codes) == code


def test_the_mean_over_seeds_of_each_configuration_is_shown(own_folder, capsys):
    plan = sweep(own_folder / "s", [("vdn", 1, 2.0), ("iql", 1, 5.0), ("vdn", 2, 4.0)])
    assert summarize(plan) == 0
    shown = capsys.readouterr().out
    assert "algo=vdn" in shown
    assert "2 of 2 │ 3.00 [2.00, 4.00]" in shown
    assert "1 of 1 │              5.00" in shown
    assert "continues with" not in shown


def test_failed_jobs_and_those_that_never_began_are_named(own_folder, capsys):
    plan = sweep(own_folder / "s", [("vdn", 1, 2.0), ("vdn", 2, None)], n_jobs=4)
    assert summarize(plan, "SIGTERM") == 4
    shown = capsys.readouterr().out
    assert "1_algo-vdn_seed-2 failed: EnvError: step 3" in shown
    assert "2 of 4 jobs were not started" in shown
    assert "resume=s, continues with the runs that have not finished" in shown


def test_everything_is_shown_where_the_results_cannot_be_written(own_folder, capsys, monkeypatch):
    plan = sweep(own_folder / "s", [("vdn", 1, 2.0), ("vdn", 2, None)], n_jobs=4)
    monkeypatch.setattr(summary, "put_text", full)
    with pytest.raises(OSError, match="No space left"):
        summarize(plan)
    shown = capsys.readouterr().out
    assert all(each in shown for each in ("2.00", "failed: EnvError", "not started", "resume="))


def test_ctrl_c_while_it_prints_does_not_lose_the_results(own_folder, monkeypatch):
    plan = sweep(own_folder / "s", [("vdn", 1, 2.0), ("vdn", 2, None)])
    monkeypatch.setattr(summary, "configuration_table", stopped)
    with pytest.raises(KeyboardInterrupt):
        summarize(plan)
    assert (own_folder / "s/results.csv").exists()


def test_the_results_are_written_without_times(own_folder, capsys):
    plan = sweep(own_folder / "s", [("vdn", 1, 2.0), ("vdn", 2, None)])
    summarize(plan)
    first, second = csv.DictReader((own_folder / "s/results.csv").open())
    assert (first["status"], first["last test/return_mean"]) == ("finished", "2.0")
    assert (second["status"], second["last test/return_mean"]) == ("failed", "")
    assert not any("seconds" in name or "started" in name for name in first)


def test_jobs_that_differ_in_their_seed_only_are_one_configuration(own_folder):
    plan = sweep(own_folder / "s", [("vdn", 1, 2.0), ("vdn", 2, 3.0)])
    assert {name: len(jobs) for name, jobs in configurations(plan.jobs).items()} == {"all runs": 2}


def test_an_interval_is_the_same_every_time():
    assert interval_text([1.0, 2.0, 4.0], ".3f") == interval_text([1.0, 2.0, 4.0], ".3f")
    assert interval_text([0.5], ".0%") == "50%"
    assert interval_text([], ".0%") == ""


def test_long_names_of_jobs_are_shown_in_full(own_folder, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    algo = "dqn_env.kwargs.a_long_setting-False_algo.optimizer.lr-0.001"
    summarize(sweep(own_folder / "s", [(algo, 11, 2.0), (algo, 12, 3.0)]))
    lines = capsys.readouterr().out.splitlines()
    cells = [line.split("│")[1].strip() for line in lines if line.count("│") == 5]
    assert "".join(cells) == f"0_algo-{algo}_seed-111_algo-{algo}_seed-12"


def test_a_report_of_the_same_runs_has_the_same_interval():
    scores = [451.5, 314.0, 410.75, 433.75, 411.0]
    runs = [run(Path(str(seed)), seed=seed, values=[0, s]) for seed, s in enumerate(scores)]
    others = [run(Path(f"other{seed}"), "c51", seed=seed) for seed in range(2)]
    final = analyze(others + runs, settings(resamples=RESAMPLES)).series[1].final
    shown = f"{final.value:.2f} [{final.low:.2f}, {final.high:.2f}]"
    assert interval_text(scores, ".2f") == shown


def test_jobs_of_other_launchers_have_no_means_over_configurations(own_folder, capsys):
    """Defect: the mean was over all jobs, whatever their overrides."""
    plan = sweep(own_folder / "s", [("vdn", 1, 2.0), ("iql", 1, 5.0)])
    summarize(replace(plan, jobs=()))
    assert "Mean over the finished runs" not in capsys.readouterr().out


def test_brackets_in_names_are_shown(own_folder, capsys):
    summarize(sweep(own_folder / "s", [("[relu]", 1, 2.0), ("[relu]", 2, 4.0), ("[/x]", 1, 1.0)]))
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("algo=[relu]", "algo=[/x]"))


BAD = (None, "abc", [], {}, [1], True, -1, 1.5, math.inf, -math.inf, math.nan, 10**200, 10**400)
BAD_TESTS = (
    *BAD,
    {"test/return_mean": "x"},
    {"env_steps": 1, "test/return_mean": "x"},
    *({"env_steps": 1, "test/return_mean": value, "test/win_rate": 1.0} for value in BAD),
    {"env_steps": "x", "test/return_mean": 1.0},
    {"env_steps": 1, "test/win_rate": {}},
)


@each_once(
    key=["env_steps", "exit_code", "final_test", "best_test", "status", "error"], value=BAD_TESTS
)
def test_a_record_that_no_run_writes_is_passed_over(own_folder, capsys, key, value):
    """Defect: one damaged run.json ended the sweep in a traceback, without a table."""
    plan = sweep(own_folder / "s", [("vdn", 1, 2.0), ("vdn", 2, 4.0), ("vdn", 3, None)])
    with changed_json(plan.jobs[0].folder / "run.json") as record:
        record[key] = value
    assert 0 <= summarize(plan) <= 255
    assert "1_algo-vdn_seed-2" in capsys.readouterr().out
    rows = list(csv.DictReader((plan.folder / "results.csv").open()))
    assert [row["last test/return_mean"] for row in rows][1:] == ["4.0", ""]


def test_what_is_null_in_a_test_was_nan(own_folder, capsys):
    plan = sweep(own_folder / "s", [("vdn", 1, None)])
    put_record(plan.jobs[0].folder, **finished({"test/return_mean": None, "test/win_rate": 0.5}))
    summarize(plan)
    shown = capsys.readouterr().out
    assert "nan" in shown
    assert "50%" in shown


@pytest.mark.parametrize(
    ("status", "code", "stopped", "expected"),
    [
        ("failed", 4, "SIGUSR1", 85),
        ("interrupted", 130, "SIGUSR1", 85),
        ("interrupted", 143, "SIGINT", 130),
        ("running", None, "SIGTERM", 143),  # of a launcher whose jobs go on
        ("failed", 4, "SIGTERM", 4),
        ("failed", 9, None, 9),
        ("running", None, None, 1),
        ("finished", 0, "SIGUSR1", 0),
    ],
)
def test_the_signal_that_stopped_a_sweep_is_its_exit_code(
    own_folder, status, code, stopped, expected
):
    """Defect: old records counted more, so that a cluster did not requeue the sweep."""
    plan = sweep(own_folder / "s", [("vdn", 1, 2.0), ("vdn", 2, None)])
    put_record(plan.jobs[1].folder, status=status, **({} if code is None else {"exit_code": code}))
    assert summarize(plan, stopped) == expected


OWN = "callbacks=[{_target_: tests.helpers.Failing}]"


@pytest.mark.parametrize(
    ("override", "resumes"),
    [
        ("seed=3", ", or resume=s,"),
        ("trust=[mine]", ", or resume=s 'trust=[mine]',"),  # typed for the sweep
        (OWN, ", or resume=s 'trust=[tests]',"),
        ("hydra.searchpath=[pkg://tests]", ""),
        ("checkpoint=old", ""),
        ("algo.loss.gamma=${oc.decode:0.9}", ""),
    ],
)
def test_the_command_that_continues_a_sweep_works(own_folder, capsys, override, resumes):
    """Defect: resume= was named where it then refused."""
    plan = sweep(own_folder / "s", [("vdn", 1, 2.0), ("vdn", 2, None)])
    done, failed = plan.jobs
    failed = replace(failed, overrides=(*failed.overrides, override))
    summarize(replace(plan, jobs=(done, failed), typed=("seed=1,2", override)))
    assert f"The same command{resumes} continues with" in " ".join(capsys.readouterr().out.split())
