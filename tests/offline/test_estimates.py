"""Estimates of an offline run's return, beside its tests."""

from contextlib import closing
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import rltrain
from rltrain.errors import UsageError
from rltrain.offline.estimate import Estimate
from tests.offline.conftest import without


def test_tests_report_estimates_beside_the_real_return(offline, tmp_path):
    overrides = [*offline, "dataset.held_out=0.5", "test.epsilon=1", "algo.loss.gamma=1"]
    trainer = rltrain.make_trainer(overrides, run_dir=tmp_path / "run")
    found = trainer.test(episodes=150)
    # the same policy as the recorded one: every ratio is 1
    assert found["offline/is_return"] == pytest.approx(found["offline/behavior_return"])
    assert found["offline/wis_return"] == pytest.approx(found["offline/behavior_return"])
    assert found["offline/effective_sample_size"] == pytest.approx(250, abs=8)
    assert found["offline/is_return"] == pytest.approx(found["test/return_mean"], abs=1)


@pytest.mark.slow
def test_the_estimate_of_a_greedy_team_is_near_its_real_return(offline, tmp_path):
    overrides = [*offline, "dataset.held_out=0.5", "test.epsilon=0.2", "algo.loss.gamma=1"]
    trainer = rltrain.make_trainer([*overrides, "seed=3"], run_dir=tmp_path / "run")
    trainer.run(400)
    found = trainer.test(episodes=400)
    assert found["offline/wis_return"] == pytest.approx(found["test/return_mean"], abs=1.2)
    assert abs(found["offline/behavior_return"] - found["test/return_mean"]) > 1


@pytest.mark.slow
def test_without_probabilities_there_is_nothing_to_estimate(small, tmp_path):
    overrides = without(small, "env=", "algo.exploration.", "buffer.")
    overrides += ["env=cartpole", "algo=dqn", "algo.network.noisy_sigma=0.5", "test.n_envs=2"]
    overrides += ["algo.learning_starts=10"]
    first = rltrain.make_trainer([*overrides, f"dataset.write={tmp_path / 'd'}"], run_dir=tmp_path)
    first.run(200)
    first.close()
    overrides += [f"dataset.read={tmp_path / 'd'}", "dataset.held_out=0.5"]
    with pytest.raises(UsageError, match=r"Type dataset\.held_out=0"):
        rltrain.make_trainer(overrides, run_dir=tmp_path / "b")
    overrides[-1] = "dataset.held_out=0"
    rltrain.make_trainer(overrides, run_dir=tmp_path / "b").run(20)


@pytest.mark.parametrize("normalized", ["false", "true"])
def test_estimates_are_of_the_weights_a_test_beside_training_played(offline, tmp_path, normalized):
    overrides = [*offline, "dataset.held_out=0.5", "test.epsilon=0.2"]
    overrides += [f"algo.network.normalize_obs={normalized}"]
    with closing(rltrain.make_trainer(overrides, run_dir=tmp_path / "run")) as trainer:
        (estimate,) = (c for c in trainer.callbacks.callbacks if isinstance(c, Estimate))
        before = estimate.on_test_end(trainer, {})
        state = trainer.learner.state_dict()
        for weight in trainer.learner.online.parameters():
            weight.data.neg_()
        if norm := trainer.learner.online.agents.obs_norm:
            norm.update(np.random.default_rng(0).normal(3, 2, (50, norm.mean.numel())))
        live = trainer.learner.online.state_dict()
        kept = {name: x.clone() for name, x in live.items()}
        assert estimate.on_test_end(trainer, {}) != before
        trainer.tests.reported = SimpleNamespace(clock=trainer.clock, weights=state)
        assert estimate.on_test_end(trainer, {}) == before
        assert all(torch.equal(x, kept[name]) for name, x in live.items())
