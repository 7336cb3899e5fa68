"""Groups of runs, their labels, and the metrics of many runs."""

import sys
from pathlib import Path

import pytest

import rltrain
from rltrain.common.json_text import flat
from rltrain.errors import UsageError
from rltrain.report.run_groups import grouped
from tests.report.runs import run, write_run


def labels(runs, **options):
    return {(g.label, g.env): len(g.runs) for g in grouped(runs, **options)}


def made(name, **about):
    return run(Path(name), **about)


CARTPOLE = "CartPole-v1"
SEVERAL = {
    "seeds of one configuration are one group": (
        [{"seed": seed, "settings": {"algo.lr": 0.1}} for seed in range(3)],
        {("dqn", CARTPOLE): 3},
    ),
    "settings that differ are in the label": (
        [{"settings": {"algo.optimizer.lr": lr, "x": 1}} for lr in (0.1, 0.2)],
        {("dqn lr=0.1", CARTPOLE): 1, ("dqn lr=0.2", CARTPOLE): 1},
    ),
    "names that end alike are written in full": (
        [{"settings": {"algo.lr": x, "critic.lr": y}} for x, y in ((1, 1), (2, 3))],
        {("dqn algo.lr=1 critic.lr=1", CARTPOLE): 1, ("dqn algo.lr=2 critic.lr=3", CARTPOLE): 1},
    ),
    "an option that differs stands for the settings that come with it": (
        [
            {"choices": {"buffer": "replay"}, "settings": {"buffer.capacity": 10}},
            {"choices": {"buffer": "prioritized"}, "settings": {"buffer.alpha": 0.5}},
        ],
        {("dqn buffer=replay", CARTPOLE): 1, ("dqn buffer=prioritized", CARTPOLE): 1},
    ),
    "settings of other environments and algorithms make no difference": (
        [
            {"env": CARTPOLE, "settings": {"algo.lr": 1}},
            {"env": "Acrobot-v1", "settings": {"algo.lr": 2}},
            {"algo": "pqn", "settings": {"algo.lr": 3}},
        ],
        {("dqn", "Acrobot-v1"): 1, ("dqn", CARTPOLE): 1, ("pqn", CARTPOLE): 1},
    ),
    "a setting that an environment does not have is not in its labels": (
        [*({"env": "Boom", "settings": {"env.kwargs.wind": w}} for w in (1, 2)), {"env": CARTPOLE}],
        {("dqn wind=1", "Boom"): 1, ("dqn wind=2", "Boom"): 1, ("dqn", CARTPOLE): 1},
    ),
    "what a run does not use is not in its label": (
        [{"settings": {"dataset.read": x, "algo.max_grad_norm": None}} for x in ("data/a", None)],
        {("dqn", CARTPOLE): 1, ("dqn read=data/a", CARTPOLE): 1},
    ),
    "a setting that some runs of an environment do not have is null in their labels": (
        [{"settings": {"env.kwargs.wind": 1}}, {}],
        {("dqn wind=1", CARTPOLE): 1, ("dqn wind=null", CARTPOLE): 1},
    ),
    "configurations that differ in much are numbered": (
        [{"settings": {f"algo.{'long' * 9}_{i}": v for i in range(5)}} for v in (1, 2, 1)],
        {("dqn #1", CARTPOLE): 2, ("dqn #2", CARTPOLE): 1},
    ),
}
"""Runs, and the label and environment of each group with the number of its runs."""


@pytest.mark.parametrize("case", SEVERAL)
def test_groups_and_their_labels(case):
    runs, expected = SEVERAL[case]
    assert labels([made(str(i), **about) for i, about in enumerate(runs)]) == expected


def test_ignored_settings_do_not_tell_configurations_apart():
    runs = [made(str(n), settings={"hardware.n_envs": n}) for n in (1, 2)]
    assert labels(runs, ignore=["hardware"]) == {("dqn", "CartPole-v1"): 2}


def test_environments_and_configurations_can_be_renamed():
    runs = [made("a"), made("b", library="SB3", env="cartpole")]
    names = ["CartPole-v1 -> cartpole", "dqn (SB3) -> Stable-Baselines3"]
    assert set(labels(runs, rename=names)) == {
        ("dqn", "cartpole"),
        ("Stable-Baselines3", "cartpole"),
    }


def test_a_renaming_without_an_arrow_is_answered_with_one():
    with pytest.raises(UsageError, match=r"expected 'OLD -> NEW', got 'a=b'"):
        grouped([made("a")], rename=["a=b"])


def test_an_empty_mapping_is_no_setting_of_its_own():
    assert flat({"env": {"kwargs": {}, "id": "A"}}) == {"env.id": "A"}
    assert flat({"env": {"kwargs": {"crash": False}}}) == {"env.kwargs.crash": False}


def test_metrics_of_many_runs_as_a_dataframe(tmp_path):
    pytest.importorskip("pandas")
    for seed in (1, 2):
        write_run(tmp_path / f"run{seed}", seed=seed, values=[0, seed])
    frame = rltrain.load_runs(tmp_path)
    last = frame[frame.env_steps == 100].set_index("seed")["test/return_mean"]
    assert last.to_dict() == {1: 1.0, 2: 2.0}
    assert set(frame.label) == {"dqn"}


def test_without_pandas_the_command_that_installs_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match=r"-m pip install .*pandas"):
        rltrain.load_runs(tmp_path)


def test_runs_without_rows_have_all_columns_but_metrics(tmp_path):
    """Defect: those of the clock were missing."""
    pytest.importorskip("pandas")
    write_run(tmp_path / "run", values=[])
    frame = rltrain.load_runs(tmp_path)
    assert len(frame) == 0
    assert {"label", "run", "env_steps", "updates", "episodes", "seconds"} <= set(frame.columns)
