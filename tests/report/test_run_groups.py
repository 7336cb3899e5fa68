from pathlib import Path

import pytest

from rltrain.common.json_text import flat
from rltrain.errors import UsageError
from rltrain.report.run_groups import grouped
from tests.report.runs import run


def labels(runs, **options):
    return {(g.label, g.env): len(g.runs) for g in grouped(runs, **options)}


def made(name, **about):
    return run(Path(name), **about)


def test_seeds_of_one_configuration_are_one_group():
    runs = [made(str(seed), seed=seed, settings={"algo.lr": 0.1}) for seed in range(3)]
    assert labels(runs) == {("dqn", "CartPole-v1"): 3}


def test_settings_that_differ_are_in_the_label():
    runs = [made(str(lr), settings={"algo.optimizer.lr": lr, "x": 1}) for lr in (0.1, 0.2)]
    assert set(labels(runs)) == {("dqn lr=0.1", "CartPole-v1"), ("dqn lr=0.2", "CartPole-v1")}


def test_names_that_end_alike_are_written_in_full():
    settings = [{"algo.lr": 1, "critic.lr": 1}, {"algo.lr": 2, "critic.lr": 3}]
    found = labels([made(str(s), settings=s) for s in settings])
    assert ("dqn algo.lr=1 critic.lr=1", "CartPole-v1") in found


def test_an_option_that_differs_stands_for_the_settings_that_come_with_it():
    runs = [
        made("a", choices={"buffer": "replay"}, settings={"buffer.capacity": 10}),
        made("b", choices={"buffer": "prioritized"}, settings={"buffer.alpha": 0.5}),
    ]
    found = {label for label, _ in labels(runs)}
    assert found == {"dqn buffer=replay", "dqn buffer=prioritized"}


def test_settings_of_other_environments_and_algorithms_make_no_difference():
    runs = [
        made("a", env="CartPole-v1", settings={"algo.lr": 1}),
        made("b", env="Acrobot-v1", settings={"algo.lr": 2}),
        made("c", algo="pqn", settings={"algo.lr": 3}),
    ]
    assert {label for label, _ in labels(runs)} == {"dqn", "pqn"}


def test_a_setting_that_an_environment_does_not_have_is_not_in_its_labels():
    wind = [made(str(w), env="Boom", settings={"env.kwargs.wind": w}) for w in (1, 2)]
    found = set(labels([*wind, made("a", env="CartPole-v1")]))
    assert found == {("dqn wind=1", "Boom"), ("dqn wind=2", "Boom"), ("dqn", "CartPole-v1")}


def test_what_a_run_does_not_use_is_not_in_its_label():
    read = {"dataset.read": "data/a", "algo.max_grad_norm": None}
    runs = [made("a", settings=read), made("b", settings={**read, "dataset.read": None})]
    assert {label for label, _ in labels(runs)} == {"dqn", "dqn read=data/a"}


def test_a_setting_that_some_runs_of_an_environment_do_not_have_is_null_in_their_labels():
    found = labels([made("a", settings={"env.kwargs.wind": 1}), made("b")])
    assert {label for label, _ in found} == {"dqn wind=1", "dqn wind=null"}


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


def test_configurations_that_differ_in_much_are_numbered():
    keys = [f"algo.a_long_name_of_a_setting_{i}" for i in range(5)]
    runs = [made(str(v), settings=dict.fromkeys(keys, v)) for v in (1, 2, 1)]
    assert labels(runs) == {("dqn #1", "CartPole-v1"): 2, ("dqn #2", "CartPole-v1"): 1}


def test_an_empty_mapping_is_no_setting_of_its_own():
    assert flat({"env": {"kwargs": {}, "id": "A"}}) == {"env.id": "A"}
    assert flat({"env": {"kwargs": {"crash": False}}}) == {"env.kwargs.crash": False}
