import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rltrain.config.overrides import parse
from rltrain.errors import UsageError
from rltrain.report.analysis import analyze
from rltrain.report.report_tables import list_tables
from tests.report.runs import run, settings


def team(algo, env="CartPole-v1", seeds=5, gain=1.0, **about):
    return [
        run(Path(f"{algo}{env}{s}{about}"), algo, env, s, values=[0, gain, 2 * gain + s], **about)
        for s in range(seeds)
    ]


def warning(analysis, text):
    return any(text in warning for warning in analysis.warnings)


def test_final_scores_curves_and_comparison_of_two_methods():
    found = analyze([*team("dqn"), *team("pqn", gain=10)], settings())
    assert [s.label for s in found.series] == ["dqn", "pqn"]
    assert found.series[0].final.value == 4  # 2 + the mean of 0 … 4
    assert found.series[1].band.value.tolist() == [0, 10, 22]
    assert (found.improvement["pqn", "dqn"].value, found.warnings) == (1, [])


def test_of_many_configurations_the_best_is_compared_with_each():
    runs = [r for i in range(9) for r in team(f"a{i}", seeds=2, gain=100.0 if i == 4 else i)]
    found = analyze(runs, settings())
    assert list(found.improvement) == [("a4", f"a{i}") for i in range(9) if i != 4]
    assert warning(found, "Of more than 8 configurations only the best")
    few = analyze(runs[:16], settings())
    assert len(few.improvement) == 8 * 7 / 2
    assert not warning(few, "only the best")


def test_few_seeds_are_warned_of_and_one_has_no_interval():
    found = analyze([*team("dqn", seeds=1), *team("pqn")], settings())
    assert warning(found, "dqn on CartPole-v1 (1)")
    assert not warning(found, "pqn")
    assert np.isnan(found.series[0].final.low)


def test_the_same_seed_twice_is_warned_of():
    runs = [*team("dqn"), run(Path("again"), seed=2)]
    assert warning(analyze(runs, settings()), "dqn on CartPole-v1 (seed 2)")


def test_unfinished_runs_are_left_out_unless_asked_for():
    runs = [*team("dqn"), run(Path("late"), seed=9, values=[0, 1], status="running")]
    found = analyze(runs, settings())
    assert warning(found, "late (running)")
    assert (len(found.series[0].curves), found.ends) == (5, {"CartPole-v1": 200})
    every = analyze(runs, settings(unfinished=True))
    assert (len(every.series[0].curves), every.ends) == (6, {"CartPole-v1": 100})
    assert warning(every, "Final scores are those at 100")


def test_a_score_from_before_training_is_warned_of():
    """Defect: a trained run was compared by its test at step 0, without a word."""
    seldom = run(Path("seldom"), "pqn", values=[9.0, 480.0])
    seldom.columns["env_steps"] = np.array([0.0, 3000.0])
    found = analyze([*team("dqn"), seldom], settings())
    assert warning(found, "up to 200 env steps, where the runs are compared, seldom had only the")
    assert not warning(analyze([*team("dqn"), *team("pqn")], settings()), "before training")


def test_environments_are_not_averaged_without_normalization():
    runs = [*team("dqn"), *team("dqn", "Acrobot-v1")]
    found = analyze(runs, settings())
    assert warning(found, "report.normalize=min_max")
    assert (found.overall, len(found.profiles)) == ([], 0)


def test_scores_are_normalized_by_given_ranges():
    runs = [*team("dqn", seeds=1), *team("dqn", "Acrobot-v1", seeds=1, gain=5)]
    ranges = {"CartPole-v1": [0, 4], "Acrobot-v1": [0, 10]}
    (overall,) = analyze(runs, settings(normalize="ranges", ranges=ranges)).overall
    assert [task.tolist() for task in overall.scores] == [[1.0], [0.5]]  # Acrobot-v1 first
    assert overall.band.value[-1] == 0.75


@pytest.mark.parametrize("env", ["Acrobot-v1", "own rock:Rock"])
def test_missing_ranges_are_named_as_one_types_them(env):
    runs = [*team("dqn"), *team("dqn", env)]
    given = settings(normalize="ranges", ranges={"CartPole-v1": [0, 4]})
    with pytest.raises(UsageError, match=f"for {env}") as refused:
        analyze(runs, given)
    words = shlex.split(str(refused.value).partition("Type ")[2].rpartition(", LOW")[0])
    (again,) = parse([word.replace("LOW, HIGH", "0, 1") for word in words])
    assert again.value() == {env: [0, 1]}


def test_min_max_takes_the_extremes_of_all_runs():
    runs = [*team("dqn"), *team("dqn", "Acrobot-v1", gain=10)]
    found = analyze(runs, settings(normalize="min_max"))
    assert found.ranges == {"CartPole-v1": (0, 6), "Acrobot-v1": (0, 24)}


def test_win_rates_need_no_normalization():
    runs = [r for env in ("smac 3m", "smac 8m") for r in team("vdn", env, metric="test/win_rate")]
    found = analyze(runs, settings())
    assert (found.metric, len(found.overall)) == ("win_rate", 1)


def test_a_run_that_reported_nothing_yet_does_not_choose_the_metric():
    """Defect: beside one, win rates of all other runs were not shown."""
    begun = [run(Path("begun"), "vdn", "smac 3m", seed=9, values=(), status="running")]
    both = [*team("vdn", "smac 3m", metric="test/win_rate"), *begun]
    found = analyze(both, settings(unfinished=True))
    assert found.metric == "win_rate"
    assert warning(found, "1 run without win_rate over env_steps, which are left out: begun.")
    assert analyze([*both, *team("vdn", "smac 3m")], settings()).metric == "return_mean"
    with pytest.raises(UsageError, match=r"report\.metric=return_mean: none of the 1 runs"):
        analyze(begun, settings())


NONE = "configuration or environment is named"
BOTH = {"CartPole-v1": [0, 1], "Foo": [0, 1]}


@pytest.mark.parametrize(
    ("given", "answers"),
    [
        ({"rename": ["CartPole-v1 -> a", "dqn lr=1 -> b"]}, []),
        ({"rename": ["CartPole-v9 -> a"]}, [f"{NONE} CartPole-v9. Did you mean 'CartPole-v1'?"]),
        ({"rename": ["dqn lr=3 -> b"]}, [f"{NONE} dqn lr=3. Did you mean 'dqn lr=1'?"]),
        ({"ignore": ["algo.lr", "hardware", "buffer"]}, []),
        ({"ignore": ["buf", "nonsense"]}, ["no setting is named nonsense."]),
        ({"ranges": {"CartPole-v1": [0, 1]}, "normalize": "ranges"}, []),
        ({"ranges": {"CartPole-v1": [0, 1]}}, ["used with report.normalize=ranges only."]),
        ({"ranges": BOTH, "normalize": "ranges"}, ["no environment is named Foo."]),
        ({"ranges": {"a": [0, 1]}, "normalize": "ranges", "rename": ["CartPole-v1 -> a"]}, []),
    ],
    ids=str,
)
def test_settings_of_the_report_that_match_nothing_are_named(given, answers):
    """Defect: nothing was said."""
    keys = {"hardware.n_envs": 1, "buffer.capacity": 1}
    about = [{"choices": {"buffer": "replay"}, "settings": {**keys, "algo.lr": i}} for i in (1, 2)]
    found = analyze([run(Path(str(i)), **each) for i, each in enumerate(about)], settings(**given))
    named = [text for text in found.warnings if text.startswith("report.")]
    assert len(named) == len(answers)
    assert all(text.endswith(answer) for text, answer in zip(named, answers, strict=True))


def test_environments_without_a_common_method_are_not_asked_to_be_normalized():
    found = analyze([*team("dqn"), *team("pqn", "Acrobot-v1")], settings())
    assert warning(found, "No configuration has runs on all environments")
    assert not warning(found, "report.normalize")


def test_a_method_that_misses_an_environment_is_left_out_of_the_comparison():
    runs = [*team("dqn"), *team("dqn", "Acrobot-v1"), *team("pqn")]
    found = analyze(runs, settings(normalize="min_max"))
    assert warning(found, "no runs on some of them: pqn.")
    assert [o.label for o in found.overall] == ["dqn"]


def test_runs_without_tests_are_compared_by_training_episodes():
    runs = [*team("dqn"), *team("dqn", metric="train/return_mean", library="SB3")]
    found = analyze(runs, settings())
    assert warning(found, "5 runs without tests (dqn (SB3))")
    assert [s.label for s in found.series] == ["dqn", "dqn (SB3)"]


def test_a_metric_that_no_run_has_is_answered_with_those_they_have():
    with pytest.raises(UsageError, match=r"test/win_rate: none of the 5 runs.*test/return_mean"):
        analyze(team("dqn"), settings(metric="test/win_rate"))
    for name in ("return", "test/return"):
        with pytest.raises(UsageError, match=r"Type report\.metric=test/return_mean\.$"):
            analyze(team("dqn"), settings(metric=name))


def test_a_metric_without_a_number_is_not_named_as_one_that_runs_have():
    """Defect: it was what to type."""
    nan = float("nan")
    runs = [run(Path("a"), metric="custom/loss", values=(nan, nan)), *team("dqn", seeds=1)]
    for name in ("test/loss", "loss", "custom/loss"):
        with pytest.raises(UsageError, match=r"They have test/return_mean\.") as caught:
            analyze(runs, settings(metric=name))
        assert "metric=custom/loss." not in str(caught.value)
    timeless = [run(Path("a"))]
    del timeless[0].columns["updates"]
    said = r"over updates\. They have no metrics over it\. Type report\.axis=env_steps\.$"
    with pytest.raises(UsageError, match=said):
        analyze(timeless, settings(axis="updates"))


def test_runs_over_updates():
    assert analyze(team("dqn"), settings(axis="updates")).ends == {"CartPole-v1": 50}


def test_tables_of_a_report():
    runs = [*team("dqn"), *team("pqn"), *team("dqn", "Acrobot-v1"), *team("pqn", "Acrobot-v1")]
    tables = {t.name: t for t in list_tables(analyze(runs, settings(normalize="min_max")))}
    names = ["final_scores", "overall", "improvement", "sample_efficiency", "runs"]
    assert (list(tables), len(tables["final_scores"].rows)) == (names, 4)
    env, label, score, reached, steps = tables["sample_efficiency"].rows[0]
    assert (env, label, score, reached) == ("Acrobot-v1", "dqn", 2.0, "5 of 5")
    assert steps == 133  # the median run goes from 1 to 4


def test_settings_that_differ_are_listed():
    runs = [
        run(Path(str(lr)), seed=0, settings={"algo.lr": lr, "algo.batch_size": 32}) for lr in (1, 2)
    ]
    tables = {t.name: t for t in list_tables(analyze(runs, settings()))}
    rows = [row[1:] for row in tables["configurations"].rows]
    assert rows == [[f"dqn lr={lr}", "algo.lr", f"{lr}"] for lr in (1, 2)]


def test_one_run_each_gives_no_interval_of_the_improvement():
    """Defect: the interval was [1, 1], which the table calls decided."""
    found = analyze([*team("dqn", seeds=1), *team("pqn", seeds=1, gain=10)], settings())
    improvement = found.improvement["pqn", "dqn"]
    assert improvement.value == 1
    assert np.isnan([improvement.low, improvement.high]).all()


def published(value):
    return run(Path("paper"), "vdn", values=(value,), source="a paper")


def test_published_values_do_not_count_as_runs():
    """Defects: beside one, runs of which none had finished were left out, and the lowest and the
    highest value of all runs changed.
    """
    running = [run(Path(f"r{i}"), seed=i, status="running") for i in range(5)]
    labels = [s.label for s in analyze([*running, published(9.0)], settings()).series]
    assert labels == ["dqn", "vdn"]
    own = analyze(team("dqn"), settings(normalize="min_max")).ranges
    assert analyze([*team("dqn"), published(1e3)], settings(normalize="min_max")).ranges == own


def test_a_run_without_numbers_at_its_end_is_named():
    runs = [*team("dqn"), run(Path("gone"), seed=9, values=[0, 1, np.nan, np.nan])]
    assert warning(analyze(runs, settings()), "gone has no finite values after that")
    short = [*team("dqn"), run(Path("short"), seed=9, values=[0, 1])]
    assert warning(analyze(short, settings()), "short ends.")


def test_a_run_that_begins_after_the_end_is_left_out_and_named():
    """Defect: its first value was its score, though it lies beyond the stated end."""
    runs = [*team("dqn"), run(Path("short"), seed=8, values=[0, 1])]
    late = run(Path("late"), seed=9, values=[np.nan, np.nan, 5, 6])
    alone = run(Path("alone"), "pqn", values=[np.nan, np.nan, 5, 6])
    analysis = analyze([*runs, late, alone], settings())
    (series,) = analysis.series
    assert len(series.finals) == len(runs)
    assert warning(analysis, "left out: late, alone.")
    paper = replace(published(9.0), columns=late.columns)
    assert [s.label for s in analyze([*runs, paper], settings()).series] == ["dqn", "vdn"]
