import math

import numpy as np
import pytest
import torch
from torch import nn

from rltrain.algo.exploration.boltzmann import Boltzmann
from rltrain.algo.exploration.epsilon import (
    EpsilonGreedy,
    ExponentialEpsilon,
    FixedEpsilon,
    PerEnvEpsilon,
    PiecewiseEpsilon,
)
from rltrain.algo.exploration.parameter_noise import ParameterNoise, divergence
from rltrain.algo.policy import Policy
from rltrain.common import checkpoint
from rltrain.types import Clock
from tests.algo.batches import AGENTS, ALL, OPEN, SPEC, A, E, N, observe

POINTS = [[0, 1.0], [100, 0.5], [300, 0.1]]


def at(env_steps):
    return Clock(env_steps=env_steps)


@pytest.mark.parametrize(
    ("exploration", "expected"),
    [
        (EpsilonGreedy(start=1.0, end=0.2, env_steps=100), {0: 1, 50: 0.6, 100: 0.2, 999: 0.2}),
        (ExponentialEpsilon(start=1.0, end=0.2, half_life=100), {0: 1, 100: 0.6, 300: 0.3}),
        (
            PiecewiseEpsilon(points=POINTS),
            {0: 1, 50: 0.75, 100: 0.5, 200: 0.3, 300: 0.1, 9999: 0.1},
        ),
        (FixedEpsilon(epsilon=0.3), {0: 0.3, 9999: 0.3}),
    ],
    ids=lambda x: type(x).__name__,
)
def test_epsilon_follows_its_schedule(exploration, expected):
    assert {t: exploration.epsilon(at(t)) for t in expected} == pytest.approx(expected)
    assert {t: exploration.metrics(at(t))["epsilon"] for t in expected} == pytest.approx(expected)


@pytest.mark.parametrize(
    ("exploration", "ends_at"),
    [
        (EpsilonGreedy(start=1.0, end=0.2, env_steps=100), 100),
        (PiecewiseEpsilon(points=POINTS), 300),
        (PiecewiseEpsilon(points=[[0, 0.1], [50, 1.0], [100, 0.1]]), 100),  # back to where it began
        (FixedEpsilon(epsilon=0.3), None),
        (PerEnvEpsilon(base=0.4, alpha=7.0, n_envs=2), None),
        (Boltzmann(start=1.0, end=0.1, env_steps=40), 40),
    ],
)
def test_exploration_says_when_it_stops_changing(exploration, ends_at):
    assert exploration.ends_at() == ends_at


@pytest.mark.parametrize(
    "points", [[], [[0, 1.0]], [[5, 1.0], [5, 0.5]], [[0, 1.0], [9, 1.5]], [[0, 1], [9]], [[], []]]
)
def test_points_that_are_no_schedule_are_refused(points):
    with pytest.raises(ValueError, match=r"algo.exploration.points: expected two or more"):
        PiecewiseEpsilon(points=points)


def test_every_copy_has_the_epsilon_of_ape_x():
    """0.4^(1 + 7 e / (E - 1)) for E = 8: from 0.4 to 0.4^8."""
    exploration = PerEnvEpsilon(base=0.4, alpha=7.0, n_envs=8)
    assert exploration.epsilons[:, 0] == pytest.approx([0.4 ** (1 + e) for e in range(8)])
    assert PerEnvEpsilon(base=0.4, alpha=7.0, n_envs=1).epsilons.tolist() == [[0.4]]
    mean = sum(0.4 ** (1 + e) for e in range(8)) / 8
    assert exploration.metrics(Clock())["epsilon"] == pytest.approx(mean)


def test_each_environment_explores_with_its_own_epsilon():
    exploration = PerEnvEpsilon(base=0.5, alpha=1.0, n_envs=2)  # 1/2, 1/4
    q = np.broadcast_to(np.array([1.0, 0.0], np.float32), (2, 40000, 2))
    action = exploration.choose(q, np.ones(q.shape, bool), Clock(), np.random.default_rng(0))
    assert action.mean(1) == pytest.approx([1 / 4, 1 / 8], abs=0.01)


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_other_observations_than_a_rollouts_get_the_epsilons_in_turn(n):
    exploration = PerEnvEpsilon(base=0.5, alpha=1.0, n_envs=2)
    q, action = np.array([[[1.0, 0.0]]] * n, np.float32), np.ones((n, 1), np.int64)
    available = np.ones(q.shape, bool)
    assert exploration.choose(q, available, Clock(), np.random.default_rng(0)).shape == (n, 1)
    likelihood = exploration.probability(q, available, action, Clock())
    assert likelihood[:, 0].tolist() == [(1 / 4, 1 / 8)[i % 2] for i in range(n)]


def test_boltzmann_draws_from_the_softmax_of_the_available_actions():
    """Values 0, T ln 2, T ln 3, and one more that is not available: 1/6, 2/6, 3/6."""
    temperature = 0.5
    exploration = Boltzmann(start=temperature, end=temperature, env_steps=1)
    q = temperature * np.log(np.array([1.0, 2.0, 3.0, 100.0]))
    available = np.array([True, True, True, False])
    q, available = (np.broadcast_to(x, (60000, 1, 4)) for x in (q, available))
    action = exploration.choose(q, available, Clock(), np.random.default_rng(0))
    share = np.bincount(action[:, 0], minlength=4) / len(action)
    assert share == pytest.approx([1 / 6, 2 / 6, 3 / 6, 0], abs=0.01)
    assert share[3] == 0


@pytest.mark.parametrize("temperature", [1e-30, 1e-10, 1e-6, 1.0, 1e6])
def test_boltzmann_chooses_what_has_a_probability(temperature):
    """Defect: choose divided in single precision, and rounding made the unlikely likely."""
    rng = np.random.default_rng(0)
    exploration = Boltzmann(start=temperature, end=temperature, env_steps=1)
    q = np.full((2000, 1, 6), 1.0, np.float32) + rng.integers(0, 3, (2000, 1, 6)) * np.float32(1e-7)
    available = np.ones(q.shape, bool)
    action = exploration.choose(q, available, Clock(), rng)
    assert (exploration.probability(q, available, action, Clock()).astype(np.float32) > 0).all()


def test_temperature_falls_with_the_env_steps():
    exploration = Boltzmann(start=1.0, end=0.2, env_steps=100)
    shown = [exploration.metrics(at(t))["temperature"] for t in (0, 50, 100, 500)]
    assert shown == pytest.approx([1, 0.6, 0.2, 0.2])


def test_divergence_by_hand():
    """π = (1/2, 1/2), π̃ = (1/4, 3/4): ½ ln 2 + ½ ln 2/3; no divergence from itself."""
    q = np.log(np.array([[[0.5, 0.5]], [[0.3, 0.7]]]))
    noisy = np.log(np.array([[[0.25, 0.75]], [[0.3, 0.7]]]))
    expected = 0.5 * math.log(2) + 0.5 * math.log(2 / 3)
    np.testing.assert_allclose(divergence(q, noisy, q < 1), [[expected], [0]], atol=1e-12)
    np.testing.assert_allclose(divergence(q, q + 7, q < 1), 0, atol=1e-12)


def test_divergence_is_of_policies_over_the_available_actions():
    q, noisy = np.random.default_rng(0).normal(size=(2, 4, 3, 5))
    available = np.random.default_rng(1).random((4, 3, 5)) < 0.7
    available[..., 0] = True
    measured = divergence(q, noisy, available)
    for i in np.ndindex(4, 3):
        chosen = available[i]
        p, p_noisy = (np.exp(x[i][chosen]) / np.exp(x[i][chosen]).sum() for x in (q, noisy))
        assert measured[i] == pytest.approx((p * np.log(p / p_noisy)).sum())


def test_parameter_noise_is_held_at_the_bounds_of_agents_with_a_choice():
    """-ln(1/2 + 1/2 / A): 0.29 of two available actions, 0.51 of five; one alone tells nothing."""
    q, available = np.zeros((1, 3, 5)), np.zeros((1, 3, 5), bool)
    available[0, 0], available[0, 1, :2], available[0, 2, 0] = True, True, True
    for low, high in ((0.5 * (0.29 + 0.51) - 0.02, False), (0.5 * (0.29 + 0.51) + 0.02, True)):
        exploration = ParameterNoise(start=0.5, end=0.5, env_steps=1, stddev=0.1)
        exploration.compare(q, np.full((1, 3, 5), 7.0), available)
        assert exploration.divergence == pytest.approx(0)
        exploration.divergence = 2 * low
        exploration.draw(nn.Linear(2, 2), Clock(), np.random.default_rng(0))
        assert (exploration.stddev < 0.1) == high


def noise_policy(agents=None, seed=0, **changes):
    torch.manual_seed(0)
    noise = {"start": 0.5, "end": 0.5, "env_steps": 100, "stddev": 0.1, **changes}
    given = {"agents": agents or AGENTS["gru"](spec=SPEC), "exploration": ParameterNoise(**noise)}
    return Policy(**given, spec=SPEC, n_envs=E, rng=np.random.default_rng(seed))


def weights(agents):
    return nn.utils.parameters_to_vector(agents.parameters()).detach().clone()


def test_parameter_noise_acts_with_noisy_weights_from_the_first_episode_on():
    policy = noise_policy(stddev=0.5)
    clean = weights(policy.agents)
    policy.act(observe(), ALL, OPEN, Clock())
    noise = weights(policy.exploration.noisy) - clean
    assert noise.std().item() == pytest.approx(0.5, rel=0.2)
    assert torch.equal(weights(policy.agents), clean)


def test_parameter_noise_is_drawn_when_copy_0_begins_an_episode_and_not_before():
    policy = noise_policy()
    drawn = []
    for last in ([0, 0, 0], [0, 1, 1], [1, 0, 0], [0, 0, 0]):
        policy.act(observe(), ALL, np.array(last, bool), Clock())
        drawn.append(weights(policy.exploration.noisy))
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[1], drawn[2])
    assert torch.equal(drawn[2], drawn[3])


@pytest.mark.parametrize(
    ("start", "compared", "factor"),
    [
        (0.5, [[0.1, 0.0]], 1.01),
        (0.5, [[9.0, 0.0]], 1 / 1.01),
        (0.5, [[9.0, 0.0], [0.0, 0.0]], 1 / 1.01),
        (1.0, [[50.0, 0.0]], 1.01),
    ],
    ids=["too little", "too much", "mean over the steps since the last draw", "epsilon one"],
)
def test_parameter_noise_grows_while_it_changes_too_little(start, compared, factor):
    """epsilon = 1/2 of 2 actions: bound -ln 3/4 = 0.29; divergences 0.001, 3.8, and their mean with
    one of 0: 1.9. At epsilon 1 it always grows.
    """
    exploration = ParameterNoise(start=start, end=0.5, env_steps=10, stddev=0.1)
    q = np.zeros((1, 1, 2))
    for noisy in compared:
        exploration.compare(q, np.array([[noisy]]), q == 0)
    exploration.draw(nn.Linear(2, 2), Clock(), np.random.default_rng(0))
    assert exploration.stddev == pytest.approx(0.1 * factor)


def test_parameter_noise_compares_every_step_that_chooses_an_action():
    """Defect: only the final step, which chooses none."""
    policy, compared = noise_policy(), []
    compare = policy.exploration.compare
    policy.exploration.compare = lambda q, *others: compared.append(len(q)) or compare(q, *others)
    for last in ([0, 0, 0], [0, 1, 0], [1, 0, 0]):
        policy.act(observe(), ALL, np.array(last, bool), Clock())
    assert compared == [3, 2, 2]
    assert not policy.exploration.n_compared.any()  # the next noise is measured by itself


def test_parameter_noise_is_not_learned():
    agents = AGENTS["mlp"](spec=SPEC)
    noisy = noise_policy(agents)
    noisy.act(observe(), ALL, OPEN, Clock())
    assert not any(p.requires_grad for p in noisy.exploration.noisy.parameters())
    assert all(p.requires_grad for p in agents.parameters())


@pytest.mark.parametrize("fresh", [True, False])
def test_a_restored_parameter_noise_goes_on_bit_for_bit(fresh, tmp_path):
    """Through a checkpoint on disk; also into a policy that has acted already."""
    agents = AGENTS["gru"](spec=SPEC)
    policy, other = noise_policy(agents), noise_policy(agents, seed=1)
    for last in ([0, 0, 0], [1, 0, 0], [0, 0, 0]):
        policy.act(observe(), ALL, np.array(last, bool), Clock())
    if not fresh:
        other.act(observe(3), ALL, OPEN, Clock())
    folder = checkpoint.write(tmp_path, 1, {"policy": policy.state_dict()})
    other.load_state_dict(checkpoint.read(folder, "policy"))
    for seed, last in enumerate([[0, 0, 0], [1, 1, 0], [0, 0, 0], [0, 0, 1]]):
        seen = observe(seed), ALL, np.array(last, bool), Clock()
        assert np.array_equal(policy.act(*seen), other.act(*seen))
    assert other.exploration.stddev == policy.exploration.stddev
    assert torch.equal(weights(other.exploration.noisy), weights(policy.exploration.noisy))


def test_a_parameter_noise_saved_before_its_first_episode_draws_again():
    agents = AGENTS["gru"](spec=SPEC)
    policy, other = noise_policy(agents), noise_policy(agents, seed=1)
    state = policy.state_dict()
    other.act(observe(3), ALL, OPEN, Clock())
    other.load_state_dict(state)
    for p in (policy, other):
        p.act(observe(), ALL, OPEN, Clock())
    assert torch.equal(weights(other.exploration.noisy), weights(policy.exploration.noisy))


VALUES = np.array([0.3, 0.9, 0.1, 0.9][:A] + [0.0] * (A - 4), np.float32)


@pytest.mark.parametrize(
    "exploration",
    [
        FixedEpsilon(epsilon=0.4),
        EpsilonGreedy(start=1.0, end=0.0, env_steps=100),
        PerEnvEpsilon(base=0.4, alpha=7.0, n_envs=E),
        Boltzmann(start=1.0, end=0.2, env_steps=100),
    ],
    ids=lambda e: type(e).__name__,
)
def test_actions_are_chosen_as_often_as_their_probability_says(exploration):
    q = np.broadcast_to(VALUES, (E, N, A))
    available = np.ones((E, N, A), bool)
    available[:, 0, 1] = False  # the best is forbidden to the first agent
    rng, counts, draws = np.random.default_rng(0), np.zeros((E, N, A)), 4000
    for _ in range(draws):
        np.add.at(counts, (*np.indices((E, N)), exploration.choose(q, available, at(50), rng)), 1)
    expected = np.stack(
        [exploration.probability(q, available, np.full((E, N), a), at(50)) for a in range(A)], -1
    )
    np.testing.assert_allclose(expected.sum(-1), 1)
    np.testing.assert_allclose(counts / draws, expected, atol=0.03)
    assert (expected[~available] == 0).all()


def test_the_probability_of_epsilon_greedy_by_hand():
    q = np.array([[[1.0, 3.0, 2.0]]])
    available = np.array([[[True, True, False]]])
    exploration = FixedEpsilon(epsilon=0.3)
    found = [exploration.probability(q, available, np.array([[a]]), at(0))[0, 0] for a in range(3)]
    assert found == pytest.approx([0.15, 0.85, 0])
