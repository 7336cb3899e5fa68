import json
import os
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


@pytest.fixture
def study(tmp_path):
    run = run_settings("tune.trials=2")
    return open_study(tmp_path, run), tmp_path, run


def test_processes_take_different_trials_until_there_are_enough(study):
    _, folder, run = study
    (a, lock), (b, other) = (next_trial(open_study(folder, run), folder, run) for _ in range(2))
    assert (a.number, b.number) == (0, 1)
    assert a.suggest_float("x", 0, 1) != b.suggest_float("x", 0, 1)
    assert next_trial(open_study(folder, run), folder, run) is None
    os.close(lock)
    os.close(other)


def test_an_interrupted_trial_is_continued_with_its_values(study):
    first, folder, run = study
    trial, lock = next_trial(first, folder, run)
    value = trial.suggest_float("x", 0, 1)
    os.close(lock)  # as the system does when a process ends
    again, lock = next_trial(open_study(folder, run), folder, run)
    assert again.number == trial.number
    assert again.suggest_float("x", 0, 1) == value
    os.close(lock)


def test_a_trial_that_is_interrupted_among_its_values_gets_those_that_it_would_have_got(study):
    """Defect: the values after those that were stored were drawn from the seed's beginning."""
    _, folder, run = study
    space = [Parameter(name, 0.0, 1.0) for name in "xyz"]
    values = []
    for place, n_before in (("whole", 0), ("cut", 1)):
        (folder / place).mkdir()
        before = open_study(folder / place, run)
        trial, lock = next_trial(before, folder / place, run)
        suggest(before, trial, space[:n_before], run)
        os.close(lock)
        after = open_study(folder / place, run)
        trial, lock = next_trial(after, folder / place, run)
        values.append(suggest(after, trial, space, run))
        os.close(lock)
    expected, found = values
    assert found == expected
    assert len({value.partition("=")[2] for value in found}) == 3


def test_values_depend_on_the_trial_and_not_on_what_ran_before(study, tmp_path):
    first, folder, run = study
    locks = [next_trial(first, folder, run) for _ in range(2)]
    expected = locks[1][0].suggest_float("x", 0, 1)
    other = tmp_path / "other"
    other.mkdir()
    for _ in range(2):  # a new process for each
        trial, lock = next_trial(open_study(other, run), other, run)
        locks.append((trial, lock))
    assert trial.suggest_float("x", 0, 1) == expected
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
    trial, lock = next_trial(study, tmp_path, run)
    os.close(lock)
    rows = [{"env_steps": i, "test/return_mean": x} for i, x in enumerate((20.0, 35.0, 57.5))]
    for row in rows:
        trial.report(row["test/return_mean"], row["env_steps"])
    trial_dir(tmp_path, 0).mkdir()
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (trial_dir(tmp_path, 0) / "metrics.jsonl").write_text(lines, encoding="utf-8")
    tell(StudySetup(tmp_path, (), (), run, ""), study, trial, pruned, Screen())
    assert f" {score}" in capsys.readouterr().out
    write_trials(tmp_path, run, study.get_trials())
    assert f",{score}," in (tmp_path / "trials.csv").read_text(encoding="utf-8")


def end_trial(folder, run, study, *rows):
    """Tell a study how a trial with these tests ended."""
    trial, lock = next_trial(study, folder, run)
    os.close(lock)
    run_dir = trial_dir(folder, trial.number)
    run_dir.mkdir()
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (run_dir / "metrics.jsonl").write_text(lines, encoding="utf-8")
    tell(StudySetup(folder, (), (), run, ""), study, trial, False, Screen())


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
