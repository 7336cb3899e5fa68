import json
import os
from contextlib import contextmanager
from functools import partial

import pytest

pytest.importorskip("optuna")

from rltrain.config.compose import compose_checked
from rltrain.errors import UsageError
from rltrain.logger.screen import Screen
from rltrain.mode.tune.space import Parameter
from rltrain.mode.tune.study import next_trial, open_study, pruner, suggest, trial_dir
from rltrain.mode.tune.study_results import write_trials
from rltrain.mode.tune.trials import StudySetup, tell


def run_settings(*overrides):
    composed = compose_checked(["algo=dqn", "env=cartpole", *overrides])
    return composed.settings().run


@contextmanager
def next_of(folder, run):
    """A new process with the next trial of a study; ended, it holds it no longer."""
    study = open_study(folder, run)
    trial, lock = next_trial(study, folder, run)
    yield study, trial
    os.close(lock)  # as the system does


@pytest.fixture
def run():
    return run_settings("tune.trials=2")


def test_processes_take_different_trials_until_there_are_enough(tmp_path, run):
    with next_of(tmp_path, run) as (_, a), next_of(tmp_path, run) as (_, b):
        assert (a.number, b.number) == (0, 1)
        assert a.suggest_float("x", 0, 1) != b.suggest_float("x", 0, 1)
        assert next_trial(open_study(tmp_path, run), tmp_path, run) is None


def test_an_interrupted_trial_is_continued_with_its_values(tmp_path, run):
    found = []
    for _ in range(2):
        with next_of(tmp_path, run) as (_, trial):
            found.append((trial.number, trial.suggest_float("x", 0, 1)))
    assert found[0] == found[1]


def test_a_trial_that_is_interrupted_among_its_values_gets_those_that_it_would_have_got(
    tmp_path, run
):
    """Defect: the values after those that were stored were drawn from the seed's beginning."""
    space = [Parameter(name, 0.0, 1.0) for name in "xyz"]
    values = []
    for place, n_before in (("whole", 0), ("cut", 1)):
        (tmp_path / place).mkdir()
        for n in (n_before, 3):
            with next_of(tmp_path / place, run) as (study, trial):
                suggested = suggest(study, trial, space[:n], run)
        values.append(suggested)
    expected, found = values
    assert found == expected
    assert len({value.partition("=")[2] for value in found}) == 3


def test_values_depend_on_the_trial_and_not_on_what_ran_before(tmp_path, run):
    study, other = open_study(tmp_path, run), tmp_path / "other"
    locks = [next_trial(study, tmp_path, run) for _ in range(2)]
    other.mkdir()
    with next_of(other, run), next_of(other, run) as (_, trial):  # a new process for each
        assert trial.suggest_float("x", 0, 1) == locks[1][0].suggest_float("x", 0, 1)
    for _, lock in locks:
        os.close(lock)


def test_pruners_by_name():
    names = ("median", "successive_halving", "hyperband", "none")
    kinds = [type(pruner(run_settings(f"tune.pruner={name}"), 100)).__name__ for name in names]
    expected = ["MedianPruner", "SuccessiveHalvingPruner", "HyperbandPruner", "NopPruner"]
    assert kinds == expected


@pytest.mark.parametrize("pruned", [False, True])
@pytest.mark.parametrize(("last_tests", "score"), [(1, "57.5"), (2, "46.25"), (9, "37.5")])
def test_the_table_has_the_score_that_was_printed(tmp_path, capsys, last_tests, score, pruned):
    """Defect: that of a pruned trial was its last test alone."""
    run = run_settings(f"tune.last_tests={last_tests}")
    study = open_study(tmp_path, run)
    rows = [{"env_steps": i, "test/return_mean": x} for i, x in enumerate((20.0, 35.0, 57.5))]
    end_trial(tmp_path, run, study, *rows, pruned=pruned, reported=rows)
    assert f" {score}" in capsys.readouterr().out
    write_trials(tmp_path, run, study.get_trials())
    assert f",{score}," in (tmp_path / "trials.csv").read_text(encoding="utf-8")


def end_trial(folder, run, study, *rows, pruned=False, reported=()):
    """Tell a study how a trial with these tests ended."""
    trial, lock = next_trial(study, folder, run)
    os.close(lock)
    for row in reported:
        trial.report(row["test/return_mean"], row["env_steps"])
    run_dir = trial_dir(folder, trial.number)
    run_dir.mkdir()
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (run_dir / "metrics.jsonl").write_text(lines, encoding="utf-8")
    tell(StudySetup(folder, (), (), run, ""), study, trial, pruned, Screen())


def test_a_metric_that_no_test_reports_ends_the_study_with_its_first_trial(tmp_path, capsys):
    """Defect: every trial was trained to its end."""
    run = run_settings("tune.metric=test/win_rate")
    end = partial(end_trial, tmp_path, run, open_study(tmp_path, run))
    without = {"env_steps": 1, "test/return_mean": 2.0, "test/episode_length_mean": 3.0}
    with pytest.raises(UsageError, match=r"one of test/episode_length_mean, test/return_mean:"):
        end(without)
    end({**without, "test/win_rate": 0.5})
    end(without)
    assert "trial 2 failed: tune.metric=test/win_rate: no test of" in capsys.readouterr().out


def test_a_trial_whose_last_tests_are_not_finite_fails_with_that_reason(tmp_path, capsys):
    """Defects: a metric that was NaN was named as missing, or the tests before made the score."""
    run = run_settings("tune.last_tests=2", "tune.trials=9")
    study = open_study(tmp_path, run)
    for values in ([None], [9.0, None], [9.0, None, 1.0], [None, 1.0, 2.0]):
        rows = [{"env_steps": i, "test/return_mean": value} for i, value in enumerate(values)]
        end_trial(tmp_path, run, study, *rows)
    assert [t.value for t in study.get_trials()] == [None, None, None, 1.5]
    assert capsys.readouterr().out.count("auto: it was not a finite number in one of") == 3


def test_run_folders_of_trials_sort(tmp_path):
    assert trial_dir(tmp_path, 7).name == "0007"
