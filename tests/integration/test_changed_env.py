"""Agents in another order than before, with other names or with other spaces: the same results, or
refused, wherever an environment meets a checkpoint, a dataset or another environment.
"""

import itertools
from contextlib import closing

import pytest
import torch
from gymnasium import spaces

import rltrain
from rltrain.api import settings_from
from rltrain.assemble.env import build_env, ordered_as
from rltrain.assemble.workers import make_rollout
from rltrain.config.python_objects import with_objects
from rltrain.errors import UsageError
from rltrain.hardware.env_share import Share
from rltrain.types import EnvSpec
from tests.env.scripted import Sampled
from tests.integration.named_order import NAMES, ORDER, NamedOrder
from tests.marks import each_once

COMMON = ["test.interval=1_000_000", "hardware.n_envs=2", "hardware.threads=1", "log.interval=20"]
TEAM = [*COMMON, "env=pettingzoo", "algo=vdn", "algo.network.groups=[[0],[1],[2],[3]]"]
TEAM += ["test.episodes=4", "test.n_envs=2", "hardware.kernels=torch", "algo.batch_size=8"]
TEAM += ["algo.exploration.env_steps=10", "algo.target_update.episodes=4"]
TEAM += ["algo.learning_starts=1_000_000"]
ONE = [*COMMON, "env=gymnasium", "algo=dqn", "algo.learning_starts=8", "test.episodes=2"]
ONE += ["test.n_envs=1"]
BEST = 12.0
RENAMED = "abce"


def recorded(folder, words, env, prepare):
    """A run with a checkpoint, and a dataset of it."""
    words = [*words, f"dataset.write={folder / 'dataset'}"]
    with closing(rltrain.make_trainer(words, folder / "run", env=env)) as trainer:
        prepare(trainer)
        trainer.iterate()
        trainer.save()
    return folder


def returned(place, recorded, start, env):
    """The mean return in an environment of what was recorded.

    Args:
        start: makes a trainer from overrides.
    """
    run, dataset = recorded / "run", recorded / "dataset"
    if place == "evaluate":
        return rltrain.evaluate(run, env=env).metrics["test/return_mean"]
    words = {
        "checkpoint": [f"checkpoint={run}"],
        "dataset": [f"dataset.read={dataset}", "algo.batch_size=2"],
    }
    with closing(start(*words.get(place, ()))) as trainer:
        if place == "restore":
            trainer.restore(run)
        elif place == "dataset":  # with the networks that recorded it
            trainer.load_weights(next((run / "checkpoints").glob("[0-9]*")))
        return trainer.test()["test/return_mean"]


PLACES = ["evaluate", "restore", "checkpoint", "dataset"]


def worker_env(settings, spec, keeps):
    """The environment of the first of two workers."""
    return make_rollout(settings, keeps, spec, Share(0, 0, 2, 2), 0)[0].env


class Before(Sampled):
    """Episodes of four steps."""

    observation_space, action_space, length = spaces.Discrete(3), spaces.Discrete(2), 4


class OtherSeen(Before):
    observation_space = spaces.MultiBinary(3)


class OtherActions(Before):
    action_space = spaces.Discrete(2, start=1)


class OtherTests(Before):
    def __init__(self, training=True):
        if not training:
            self.observation_space = OtherSeen.observation_space


class OtherInTurn(Before):
    made = itertools.count()

    def __init__(self):
        if next(self.made) % 2:
            self.observation_space = OtherSeen.observation_space


OTHERS = {OtherSeen: r"observations Discrete\(3\), here MultiBinary\(\[3\]\)"}
OTHERS |= {OtherActions: r"actions Discrete\(2\), here Discrete\(2, start=1\)"}


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    return recorded(tmp_path_factory.mktemp("before"), ONE, Before, lambda trainer: None)


@each_once(env=OTHERS, place=PLACES)
def test_other_spaces_are_refused(before, tmp_path, env, place):
    def start(*words):
        return rltrain.make_trainer([*ONE, *words], tmp_path / "new", env=env)

    with pytest.raises(UsageError, match=OTHERS[env]) as refused:
        returned(place, before, start, env)
    assert refused.value.exit_code == 2


@pytest.mark.parametrize("env", [OtherTests, OtherInTurn])
def test_other_spaces_within_one_run_are_refused(tmp_path, env):
    with pytest.raises(UsageError, match=r"observations MultiBinary\(\[3\]\), here Discrete\(3\)"):
        rltrain.make_trainer(ONE, tmp_path, env=env)


@pytest.mark.parametrize("keeps", [{}, None])
def test_other_spaces_in_a_worker_are_refused(keeps):
    settings = settings_from([*ONE, "env.id=CartPole-v1", "hardware=process"])
    there = EnvSpec(n_agents=1, n_actions=2, obs_shape=(4,), obs_space={"discrete": 4, "start": 0})
    with pytest.raises(UsageError, match=r"observations Box\(4,\) float32, here Discrete\(4\)"):
        worker_env(settings, there, keeps)


def prefer_what_is_paid(trainer):
    """Each agent's own network prefers what that agent is paid for."""
    for group in (trainer.learner.online, trainer.learner.target):
        for i, agent in enumerate(group.agents.networks):
            with torch.no_grad():
                *_, bias = [p.zero_() for p in agent.parameters()]
                bias[i % 2] = 1.0
    assert trainer.test()["test/return_mean"] == BEST


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return recorded(tmp_path_factory.mktemp("order"), TEAM, NamedOrder, prefer_what_is_paid)


def played(place, run, tmp_path):
    def start(*words):
        folder = run / "run" if place == "restore" else tmp_path / "new"
        return rltrain.make_trainer([*TEAM, *words], folder, env=NamedOrder)

    return returned(place, run, start, NamedOrder)


@each_once(place=PLACES, order=["dcba", "badc", "bcda"])
def test_another_order_gives_the_same_results(run, tmp_path, monkeypatch, place, order):
    monkeypatch.setenv(ORDER, order)
    assert played(place, run, tmp_path) == BEST


@pytest.mark.parametrize("place", PLACES)
def test_other_names_are_refused_with_both_orders(run, tmp_path, monkeypatch, place):
    monkeypatch.setenv(ORDER, RENAMED)
    with pytest.raises(UsageError, match=r"agents a, b, c, d.*(here|agents) a, b, c, e") as refused:
        played(place, run, tmp_path)
    assert refused.value.exit_code == 2


def test_a_checkpoint_of_another_order_does_not_fit_a_built_trainer(run, tmp_path, monkeypatch):
    monkeypatch.setenv(ORDER, "dcba")
    with (
        closing(rltrain.make_trainer(TEAM, tmp_path / "new", env=NamedOrder)) as trainer,
        pytest.raises(UsageError, match=r"agents a, b, c, d.*agents d, c, b, a"),
    ):
        trainer.restore(run / "run")


def require_names(env, order):
    """The agents of an environment that is made by a function are in the order of training, or
    refused.
    """
    if order == RENAMED:
        with pytest.raises(UsageError, match=r"agents a, b, c, e, here a, b, c, d"):
            env()
        return
    spec = env().spec
    assert [name for name, *_ in spec.agents] == list(NAMES)
    assert spec.action_sizes == (2, 2, 2, 3)


@pytest.mark.parametrize("keeps", [{}, None], ids=["training", "tests"])
@pytest.mark.parametrize("order", ["dcba", "bcda", RENAMED])
def test_workers_follow_the_process_that_learns(monkeypatch, keeps, order):
    settings = with_objects(settings_from([*TEAM, "hardware=process"]), NamedOrder, ())
    spec = build_env(settings, 1, training=True).spec
    settings = ordered_as(settings, spec.record)
    monkeypatch.setenv(ORDER, order)
    require_names(lambda: worker_env(settings, spec, keeps), order)


@pytest.mark.parametrize("order", ["dcba", RENAMED])
def test_tests_follow_training(tmp_path, monkeypatch, order):
    monkeypatch.setenv(f"{ORDER}_TEST", order)
    require_names(
        lambda: rltrain.make_trainer(TEAM, tmp_path / "new", env=NamedOrder).test_rollout.env, order
    )


def test_environments_of_one_process_have_one_order(tmp_path):
    orders = itertools.cycle(["cdab", "abcd", "dcba"])

    def drawn():
        env = NamedOrder()
        env.possible_agents = list(next(orders))
        return env

    trainer = rltrain.make_trainer([*TEAM, "hardware.n_envs=3"], tmp_path, env=drawn)
    envs = [*trainer.rollout.env.envs, *trainer.test_rollout.env.envs]
    names = ["".join(name for name, *_ in env.spec.agents) for env in envs]
    assert names == ["cdab"] * len(envs)
    trainer.close()
