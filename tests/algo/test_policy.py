import numpy as np
import pytest
import torch
from batches import AGENTS, SPEC
from torch import nn

from rltrain.algo.exploration import EpsilonGreedy, FixedEpsilon
from rltrain.algo.policy import Policy
from rltrain.types import Clock

E, N, A = 3, SPEC.n_agents, SPEC.n_actions
OPEN, ALL = np.zeros(E, bool), np.ones((E, N, A), np.uint8)


class Says(nn.Module):
    """Feed-forward agents with fixed values."""

    hidden_dim = 0

    def __init__(self, q):
        super().__init__()
        self.q = torch.tensor(q)

    def step(self, obs, last_action, hidden):
        return self.q.expand(*last_action.shape, -1), hidden


def make_policy(agents="gru", epsilon=0.0, n_envs=E, seed=0):
    if isinstance(agents, str):
        torch.manual_seed(0)
        agents = AGENTS[agents](spec=SPEC)
    return Policy(
        agents=agents,
        exploration=FixedEpsilon(epsilon=epsilon),
        spec=SPEC,
        n_envs=n_envs,
        rng=np.random.default_rng(seed),
    )


def observe(seed=0):
    return np.random.default_rng(seed).standard_normal((E, N, 3), np.float32)


def test_epsilon_falls_with_the_env_steps():
    exploration = EpsilonGreedy(start=1.0, end=0.1, env_steps=100)
    values = [exploration.epsilon(Clock(env_steps=steps)) for steps in (0, 50, 100, 500)]
    assert values == pytest.approx([1, 0.55, 0.1, 0.1])


def test_greedy_takes_the_best_available_action_and_the_first_of_equals():
    policy = make_policy(Says([1.0, 5.0, 3.0, 3.0]))
    avail_actions = ALL.copy()
    assert (policy.act(observe(), avail_actions, OPEN, Clock()) == 1).all()
    avail_actions[..., 1] = 0
    action = policy.act(observe(), avail_actions, OPEN, Clock())
    assert (action == 2).all()
    assert (action.shape, action.dtype) == ((E, N), np.int64)


def test_every_environment_and_agent_tosses_its_own_coin():
    n_envs, epsilon = 20000, 0.4
    policy = make_policy(Says([9.0, 0.0, 0.0, 0.0]), epsilon, n_envs=n_envs)
    obs, available = np.zeros((n_envs, N, 3), np.float32), np.ones((n_envs, N, A), bool)
    explored = policy.act(obs, available, np.zeros(n_envs, bool), Clock()) != 0
    rate = epsilon * 3 / 4
    assert explored.mean(0) == pytest.approx([rate] * N, abs=0.015)
    assert explored.all(1).mean() == pytest.approx(rate**2, abs=0.015)


def test_random_actions_are_uniform_over_the_available_ones():
    n_envs = 30000
    policy = make_policy(Says([0.0] * A), 1.0, n_envs=n_envs)
    obs, available = np.zeros((n_envs, N, 3), np.float32), np.zeros((n_envs, N, A), np.uint8)
    available[:, 0, [1, 3]] = available[:, 1, [0, 1, 2]] = 1
    action = policy.act(obs, available, np.zeros(n_envs, bool), Clock())
    share = [np.bincount(action[:, agent], minlength=A) / n_envs for agent in range(N)]
    assert share[0] == pytest.approx([0, 1 / 2, 0, 1 / 2], abs=0.015)
    assert share[1] == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0], abs=0.015)
    assert share[0][0] == share[0][2] == share[1][3] == 0


def test_hidden_state_and_last_action_start_anew_behind_an_episodes_last_slot():
    policy, fresh = make_policy(), make_policy()
    first = observe(0)
    policy.act(first, ALL, OPEN, Clock())
    policy.act(observe(1), ALL, np.array([False, True, False]), Clock())
    carried = policy.hidden
    assert (carried[1] == 0).all()
    assert (carried[0] != 0).any()
    policy.act(first, ALL, OPEN, Clock())
    fresh.act(first, ALL, OPEN, Clock())
    assert np.array_equal(policy.hidden[1], fresh.hidden[1])
    assert not np.array_equal(policy.hidden[0], fresh.hidden[0])


def test_hidden_is_the_state_before_the_coming_act():
    policy = make_policy()
    before = policy.hidden
    assert before.shape == (E, N, 8)
    assert (before == 0).all()
    policy.act(observe(), ALL, OPEN, Clock())
    assert (before == 0).all()
    assert (policy.hidden != 0).any()


@pytest.mark.parametrize("copies", [np.array([False, True, False]), np.array([1])])
def test_forget_starts_some_copies_anew(copies):
    policy = make_policy()
    policy.act(observe(), ALL, OPEN, Clock())
    policy.forget(copies)
    assert [(h == 0).all() for h in policy.hidden] == [False, True, False]
    assert (policy.state_dict()["last_action"] == -1).all(1).tolist() == [False, True, False]


def test_reset_starts_every_copy_anew():
    policy = make_policy()
    policy.act(observe(), ALL, OPEN, Clock())
    policy.reset()
    assert (policy.hidden == 0).all()
    assert (policy.state_dict()["last_action"] == -1).all()


@pytest.mark.parametrize("agents", AGENTS)
def test_a_restored_policy_goes_on_bit_for_bit(agents):
    policy, other = make_policy(agents, 0.5), make_policy(agents, 0.5, seed=1)
    policy.act(observe(), ALL, OPEN, Clock())
    other.load_state_dict(policy.state_dict())
    for seed in range(5):
        ours, theirs = (p.act(observe(seed), ALL, OPEN, Clock()) for p in (policy, other))
        assert np.array_equal(ours, theirs)
    assert np.array_equal(policy.hidden, other.hidden)


def test_nan_values_are_refused():
    policy = make_policy(Says([0.0, float("nan"), 0.0, 0.0]))
    with pytest.raises(RuntimeError, match="NaN"):
        policy.act(observe(), ALL, OPEN, Clock())
