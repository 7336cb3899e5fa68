"""Agents in another order than before, or with other names: the same results, or refused."""

import itertools

import pytest
import torch

import rltrain
from rltrain.api import settings_from
from rltrain.assemble.env import build_env, ordered_as
from rltrain.assemble.workers import make_rollout
from rltrain.config.python_objects import with_objects
from rltrain.errors import UsageError
from rltrain.hardware.env_share import Share
from tests.integration.named_order import NAMES, ORDER, NamedOrder
from tests.marks import each_once

WORDS = ["env=pettingzoo", "algo=vdn", "algo.network.groups=[[0],[1],[2],[3]]"]
WORDS += ["test.interval=1_000_000", "test.episodes=4", "test.n_envs=2", "hardware.n_envs=2"]
WORDS += ["hardware.kernels=torch", "hardware.threads=1", "algo.exploration.env_steps=10"]
WORDS += ["algo.batch_size=8"]
WORDS += ["algo.target_update.episodes=4", "algo.learning_starts=1_000_000", "log.interval=20"]
BEST = 12.0
RENAMED = "abce"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run in which each agent's own network prefers what that agent is paid for, and a
    dataset of it.
    """
    folder = tmp_path_factory.mktemp("order")
    words = [*WORDS, f"dataset.write={folder / 'dataset'}"]
    trainer = rltrain.make_trainer(words, folder / "run", env=NamedOrder)
    for group in (trainer.learner.online, trainer.learner.target):
        for i, agent in enumerate(group.agents.networks):
            with torch.no_grad():
                *_, bias = [p.zero_() for p in agent.parameters()]
                bias[i % 2] = 1.0
    assert trainer.test()["test/return_mean"] == BEST
    trainer.iterate()
    trainer.save()
    trainer.close()
    return folder


def new(tmp_path, *words):
    return rltrain.make_trainer([*WORDS, *words], tmp_path / "new", env=NamedOrder)


def returned(trainer):
    try:
        return trainer.test()["test/return_mean"]
    finally:
        trainer.close()


def evaluated(run, tmp_path):
    return rltrain.evaluate(run / "run", env=NamedOrder).metrics["test/return_mean"]


def resumed(run, tmp_path):
    trainer = rltrain.make_trainer(WORDS, run / "run", env=NamedOrder)
    trainer.restore(run / "run")
    return returned(trainer)


def started_from(run, tmp_path):
    return returned(new(tmp_path, f"checkpoint={run / 'run'}"))


def read(run, tmp_path):
    """The tests of a run that learns from the dataset, with the networks that recorded it."""
    trainer = new(tmp_path, f"dataset.read={run / 'dataset'}", "algo.batch_size=2")
    trainer.load_weights(next((run / "run/checkpoints").glob("[0-9]*")))
    return returned(trainer)


PLACES = {"evaluate": evaluated, "resume": resumed, "checkpoint": started_from, "dataset": read}


@each_once(place=PLACES, order=["dcba", "badc", "bcda"])
def test_another_order_gives_the_same_results(run, tmp_path, monkeypatch, place, order):
    monkeypatch.setenv(ORDER, order)
    assert PLACES[place](run, tmp_path) == BEST


@pytest.mark.parametrize("place", PLACES)
def test_other_names_are_refused_with_both_orders(run, tmp_path, monkeypatch, place):
    monkeypatch.setenv(ORDER, RENAMED)
    with pytest.raises(UsageError, match=r"agents a, b, c, d.*(here|agents) a, b, c, e") as refused:
        PLACES[place](run, tmp_path)
    assert refused.value.exit_code == 2


def test_a_checkpoint_of_another_order_does_not_fit_a_built_trainer(run, tmp_path, monkeypatch):
    monkeypatch.setenv(ORDER, "dcba")
    trainer = new(tmp_path)
    with pytest.raises(UsageError, match=r"agents a, b, c, d.*agents d, c, b, a"):
        trainer.restore(run / "run")
    trainer.close()


@pytest.mark.parametrize("kind", ["training", "tests"])
@pytest.mark.parametrize("order", ["dcba", "bcda", RENAMED])
def test_workers_follow_the_process_that_learns(monkeypatch, kind, order):
    settings = with_objects(settings_from([*WORDS, "hardware=process"]), NamedOrder, ())
    spec = build_env(settings, 1, training=True).spec
    settings = ordered_as(settings, spec.record)
    monkeypatch.setenv(ORDER, order)
    share = Share(0, 0, 2, 2)

    def made():
        return make_rollout(settings, {} if kind == "training" else None, spec, share, 0)[0]

    if order == RENAMED:
        with pytest.raises(UsageError, match=r"agents a, b, c, e, here a, b, c, d"):
            made()
        return
    spec = made().env.spec
    assert [name for name, *_ in spec.agents] == list(NAMES)
    assert spec.action_sizes == (2, 2, 2, 3)


@pytest.mark.parametrize("order", ["dcba", RENAMED])
def test_tests_follow_training(tmp_path, monkeypatch, order):
    monkeypatch.setenv(f"{ORDER}_TEST", order)
    if order == RENAMED:
        with pytest.raises(UsageError, match=r"agents a, b, c, e, here a, b, c, d"):
            new(tmp_path)
        return
    trainer = new(tmp_path)
    assert [name for name, *_ in trainer.test_rollout.env.spec.agents] == list(NAMES)
    trainer.close()


def test_environments_of_one_process_have_one_order(tmp_path):
    orders = itertools.cycle(["cdab", "abcd", "dcba"])

    def drawn():
        env = NamedOrder()
        env.possible_agents = list(next(orders))
        return env

    trainer = rltrain.make_trainer([*WORDS, "hardware.n_envs=3"], tmp_path, env=drawn)
    envs = [*trainer.rollout.env.envs, *trainer.test_rollout.env.envs]
    names = ["".join(name for name, *_ in env.spec.agents) for env in envs]
    assert names == ["cdab"] * len(envs)
    trainer.close()
