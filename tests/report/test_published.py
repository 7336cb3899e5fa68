"""Published results stand beside runs and change nothing about them."""

from pathlib import Path

import pytest

from rltrain.report.analysis import analyze
from rltrain.report.report_tables import list_tables
from rltrain.report.run_groups import grouped
from tests.marks import each_once
from tests.report.runs import run, settings

ENVS = ("Acrobot-v1", "CartPole-v1")


def runs(metric="test/return_mean"):
    """Runs of CleanRL that differ in a setting, and one that has not finished."""
    about = {"library": "CleanRL", "metric": metric}
    out = [
        run(Path(f"{env}{lr}{seed}"), "dqn", env, seed, values, settings={"lr": lr}, **about)
        for env in ENVS
        for lr in (1, 2)
        for seed, values in enumerate([[0, lr, 2], [0.5, 1, 3 * lr], [1, 1, lr]])
    ]
    return [*out, run(Path("late"), "dqn", "Pendulum-v1", 0, status="running", **about)]


def published(algo="dqn", envs=ENVS, values=(488.7,), seeds=1, **about):
    about = {"library": "CleanRL", "source": "a paper", **about}
    return [
        run(Path(f"published/table/{env}{i}"), algo, env, None, values, **about)
        for env in envs
        for i in range(seeds)
    ]


RENAMED = ["dqn (CleanRL) lr=1 -> pqn (CleanRL)", "dqn (CleanRL) lr=2 -> dqn (CleanRL)"]
BESIDE = {
    "of the same method": published(),
    "of another method": published("pqn", library="PureJaxQL"),
    "of a method that runs have on other environments": published("pqn", ENVS[:1]),
    "on an environment whose runs are left out": published(envs=["Pendulum-v1"]),
    "of several seeds, far longer": published(values=range(-40, 900), seeds=3),
    "with another metric": published(metric="test/episode_length_mean"),
    "of training": published(metric="train/return_mean"),
}


def statistics(analysis):
    """Everything about the runs, as text."""
    theirs = {s.label for s in analysis.series if s.published}
    tables = {
        table.name: [row for row in table.rows if not theirs & {str(cell) for cell in row}]
        for table in list_tables(analysis)
        if table.name != "published"
    }
    own = [s for s in analysis.series if not s.published]
    warnings = [text for text in analysis.warnings if "published" not in text]
    parts = (analysis.metric, own, analysis.ends, analysis.ranges, tables, warnings)
    compared = analysis.overall, analysis.thresholds, analysis.profiles, analysis.improvement
    return repr((*parts, *compared))


@each_once(
    beside=BESIDE,
    metric=["test/return_mean", "test/win_rate"],
    first=[False, True],
    chosen=[{}, {"normalize": "min_max"}, {"rename": RENAMED}],
)
def test_no_statistic_of_runs_depends_on_published_results(beside, metric, first, chosen):
    """Defects: they were in the mean and the interval of a group of the same name, in labels,
    thresholds of sample efficiency and counts, and on an environment of their own nothing was
    compared any more.
    """
    own, theirs = runs(metric), BESIDE[beside]
    options = settings(resamples=20, **chosen)
    found = analyze([*theirs, *own] if first else [*own, *theirs], options)
    assert statistics(found) == statistics(analyze(own, options))


def test_published_results_are_no_part_of_the_sample_efficiency_and_the_settings_that_differ():
    tables = {t.name: t for t in list_tables(analyze([*runs(), *published("pqn")], settings()))}
    for name in ("sample_efficiency", "configurations"):
        assert {row[1] for row in tables[name].rows} == {"dqn (CleanRL) lr=1", "dqn (CleanRL) lr=2"}
    alone = [t.name for t in list_tables(analyze(published(values=[0, 1]), settings()))]
    assert alone == ["final_scores", "published"]


@pytest.mark.parametrize("rename", [[], ["dqn (CleanRL) -> ours", "vdn (CleanRL) -> ours"]])
@pytest.mark.parametrize("algo", ["dqn", "vdn"])
def test_runs_and_published_results_of_one_label_are_told_apart(algo, rename):
    own = run(Path("run"), library="CleanRL")
    groups = grouped([*published(algo, seeds=2), own], rename=rename)
    assert [len(g.runs) for g in groups if g.published] == [2, 2]  # on two environments
    assert [g.runs for g in groups if not g.published] == [[own]]
    labels = {g.label for g in groups if g.published}
    assert len(labels) == 1
    assert labels.isdisjoint(g.label for g in groups if not g.published)
