"""Estimates of an offline run's return: by hand, against the exact values of a small decision
process, by drawing, and beside the tests of a run.
"""

import itertools
import math
from contextlib import closing
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import rltrain
from rltrain.errors import UsageError
from rltrain.offline.estimate import Estimate, estimates
from tests.offline.conftest import without


def test_two_episodes_of_two_steps_by_hand():
    # rho: 2, 1 and 0.5, 2; gamma 0.5
    ratio = [np.array([2.0, 0.5]), np.array([0.5, 4.0])]
    reward = [np.array([1.0, 4.0]), np.array([2.0, 6.0])]
    found = estimates(ratio, reward, 0.5)
    # 2·1 + 0.5·1·4 = 4; 0.5·2 + 0.5·2·6 = 7
    assert found.is_return == pytest.approx((4 + 7) / 2)
    # G = 1 + 2 = 3 and 2 + 3 = 5, w = 1 and 2
    assert found.wis_return == pytest.approx((1 * 3 + 2 * 5) / 3)
    assert found.behavior_return == pytest.approx(4)
    assert found.effective_sample_size == pytest.approx(9 / 5)


def test_the_recorded_policy_itself_is_estimated_by_its_mean_return():
    reward = [np.array([1.0, 2.0]), np.array([5.0])]
    found = estimates([np.ones(2), np.ones(1)], reward, 0.9)
    assert found.is_return == found.wis_return == found.behavior_return == pytest.approx(3.9)
    assert found.effective_sample_size == 2


def test_without_an_episode_that_is_possible_nothing_is_weighted():
    found = estimates([np.array([1.0, 0.0])], [np.array([3.0, 1.0])], 1.0)
    assert found.is_return == 3  # its first step was possible
    assert math.isnan(found.wis_return)
    assert found.effective_sample_size == 0


def test_ratios_beyond_all_numbers_leave_the_weighted_estimate_alone():
    ratio = [np.full(2000, 10.0), np.full(2000, 10.0)]
    found = estimates(ratio, [np.eye(2000)[0], np.zeros(2000)], 1.0)
    assert found.is_return == pytest.approx(5)
    assert found.wis_return == pytest.approx(0.5)
    assert found.effective_sample_size == pytest.approx(2)


STATES, ACTIONS, STEPS, GAMMA = 2, 2, 3, 0.9
RNG = np.random.default_rng(0)
MOVES = RNG.dirichlet(np.ones(STATES), (STATES, ACTIONS))  # [S, A, S]
PAYS = RNG.normal(size=(STATES, ACTIONS))
BEHAVIOR = np.array([[0.7, 0.3], [0.4, 0.6]])
TARGET = np.array([[0.1, 0.9], [0.5, 0.5]])


def value(policy):
    """Exact discounted return of STEPS steps from state 0."""
    v = np.zeros(STATES)
    for _ in range(STEPS):
        v = (policy * (PAYS + GAMMA * MOVES @ v)).sum(-1)
    return v[0]


def test_the_ordinary_estimate_is_unbiased_over_all_trajectories():
    expected = 0.0
    for actions in itertools.product(range(ACTIONS), repeat=STEPS):
        for later in itertools.product(range(STATES), repeat=STEPS - 1):
            states = (0, *later)
            chance = 1.0
            for t, (s, a) in enumerate(zip(states, actions, strict=True)):
                chance *= BEHAVIOR[s, a]
                if t + 1 < STEPS:
                    chance *= MOVES[s, a, states[t + 1]]
            s, a = np.array(states), np.array(actions)
            found = estimates([TARGET[s, a] / BEHAVIOR[s, a]], [PAYS[s, a]], GAMMA)
            expected += chance * found.is_return
    assert expected == pytest.approx(value(TARGET), abs=1e-12)


def test_both_estimates_of_many_drawn_episodes_are_near_the_truth():
    rng = np.random.default_rng(1)
    ratio, reward = [], []
    for _ in range(5000):
        s, ratios, rewards = 0, [], []
        for _ in range(STEPS):
            a = int(rng.random() < BEHAVIOR[s, 1])
            ratios.append(TARGET[s, a] / BEHAVIOR[s, a])
            rewards.append(PAYS[s, a])
            s = int(rng.random() < MOVES[s, a, 1])
        ratio.append(np.array(ratios))
        reward.append(np.array(rewards))
    found = estimates(ratio, reward, GAMMA)
    assert found.behavior_return == pytest.approx(value(BEHAVIOR), abs=0.05)
    assert found.is_return == pytest.approx(value(TARGET), abs=0.08)
    assert found.wis_return == pytest.approx(value(TARGET), abs=0.05)
    assert abs(value(TARGET) - value(BEHAVIOR)) > 0.1  # else it would show nothing


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
