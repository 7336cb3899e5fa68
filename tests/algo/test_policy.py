import numpy as np
import pytest
import torch
from torch import nn

from rltrain.algo.exploration.epsilon import FixedEpsilon
from rltrain.algo.policy import Frames, Policy
from rltrain.common import checkpoint
from rltrain.errors import DivergedError
from rltrain.types import Clock, EnvSpec
from tests.algo.batches import AGENTS, ALL, DISTRIBUTIONS, OPEN, SPEC, A, E, N, observe


class Says(nn.Module):
    """Feed-forward agents with fixed values."""

    hidden_dim = 0

    def __init__(self, q):
        super().__init__()
        self.q = torch.tensor(q)

    def step(self, obs, last_action, hidden):
        return self.q.expand(*last_action.shape, -1), hidden


def make_policy(agents="gru", epsilon=0.0, n_envs=E, seed=0, noisy=True, **changes):
    if isinstance(agents, str):
        torch.manual_seed(0)
        agents = AGENTS[agents](spec=SPEC, **changes)
    given = {"n_envs": n_envs, "rng": np.random.default_rng(seed), "noisy": noisy}
    explores = FixedEpsilon(epsilon=epsilon)
    return Policy(agents=agents, exploration=explores, spec=SPEC, **given)


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


def test_hidden_state_and_last_action_are_reset_behind_an_episodes_last_step():
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


@pytest.mark.parametrize(
    ("indices", "expected"),
    [(np.array([False, True, False]), [False, True, False]), (np.array([1]), [False, True, False]),
     (None, [True, True, True])],
)  # fmt: skip
def test_forget_resets_some_environments_and_reset_all(indices, expected):
    policy = make_policy()
    policy.act(observe(), ALL, OPEN, Clock())
    policy.reset() if indices is None else policy.forget(indices)
    assert [(h == 0).all() for h in policy.hidden] == expected
    assert (policy.state_dict()["last_action"] == -1).all(1).tolist() == expected


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
    with pytest.raises(DivergedError, match="NaN"):
        policy.act(observe(), ALL, OPEN, Clock())


UNSTEADY = {
    "noisy": {"noisy_sigma": 5.0},
    "implicit": {"distribution": DISTRIBUTIONS["implicit_quantile"]},
}


@pytest.mark.parametrize("changes", UNSTEADY.values(), ids=UNSTEADY)
def test_tests_act_without_noise_and_leave_the_random_stream_alone(changes):
    """Defects: noise was active in tests; tests changed what was trained."""
    policy = make_policy("mlp", noisy=False, **changes)
    policy.agents.train()
    state = torch.get_rng_state()
    first = policy.act(observe(), ALL, OPEN, Clock())
    policy.reset()
    assert np.array_equal(policy.act(observe(), ALL, OPEN, Clock()), first)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("changes", UNSTEADY.values(), ids=UNSTEADY)
def test_training_acts_with_noise_also_after_a_test(changes):
    policy = make_policy("mlp", noisy=True, **changes)
    policy.agents.eval()
    state = torch.get_rng_state()
    policy.act(observe(), ALL, OPEN, Clock())
    assert not torch.equal(torch.get_rng_state(), state)


STACKED = EnvSpec(n_agents=1, n_actions=2, obs_shape=(2,), frame_stack=3)


def frame(*numbers):
    """Observations [E, N = 1, O = 2] of two environments, (x, 10 x) each."""
    return np.array([[[x, 10 * x]] for x in numbers], np.float32)


def test_the_first_observation_fills_the_stack_and_later_ones_push_out_the_oldest():
    frames = Frames(STACKED, 2)
    assert frames.push(frame(1, 2)).tolist() == [[[1, 10, 1, 10, 1, 10]], [[2, 20, 2, 20, 2, 20]]]
    assert frames.push(frame(3, 4))[0, 0].tolist() == [1, 10, 1, 10, 3, 30]
    frames.push(frame(5, 6))
    assert frames.push(frame(7, 8))[1, 0].tolist() == [4, 40, 6, 60, 8, 80]


def test_frames_of_images_are_stacked_along_their_channels():
    spec = EnvSpec(n_agents=1, n_actions=2, obs_shape=(2, 3, 4), frame_stack=2, obs_dtype="uint8")
    frames = Frames(spec, 1)
    old, new = (np.full((1, 1, 2, 3, 4), x, np.uint8) for x in (7, 9))
    new[0, 0, 1] = 8
    frames.push(old)
    stacked = frames.push(new)
    assert (stacked.shape, stacked.dtype) == ((1, 1, 4, 3, 4), np.uint8)
    assert stacked[0, 0, :, 0, 0].tolist() == [7, 7, 9, 8]


class Sees(Says):
    """Remembers what it was shown."""

    def step(self, obs, last_action, hidden):
        self.obs = obs.clone()
        return super().step(obs, last_action, hidden)


def stacked_policy():
    explores, rng = FixedEpsilon(epsilon=0.0), np.random.default_rng(0)
    agents = Sees([0.0, 1.0])
    return Policy(agents=agents, exploration=explores, spec=STACKED, n_envs=2, rng=rng)


def play(policy, obs, last=(False, False)):
    policy.act(obs, np.ones((2, 1, 2), np.uint8), np.array(last), Clock())
    return policy.agents.obs[:, 0, ::2].tolist()


def test_stacked_frames_never_pass_an_episodes_end():
    """Copy 1 ends its episode with the observation 4, which it still sees stacked."""
    policy = stacked_policy()
    assert play(policy, frame(1, 2)) == [[1, 1, 1], [2, 2, 2]]
    assert play(policy, frame(3, 4), last=(False, True)) == [[1, 1, 3], [2, 2, 4]]
    assert play(policy, frame(5, 6)) == [[1, 3, 5], [6, 6, 6]]
    policy.forget(np.array([0]))
    assert play(policy, frame(7, 8)) == [[7, 7, 7], [6, 6, 8]]


def test_restored_frames_go_on(tmp_path):
    """Through a checkpoint on disk, also behind an episode's end."""
    policy, other = stacked_policy(), stacked_policy()
    play(policy, frame(1, 2))
    play(policy, frame(3, 4), last=(True, False))
    play(other, frame(9, 9))
    folder = checkpoint.write(tmp_path, 1, {"policy": policy.state_dict()})
    other.load_state_dict(checkpoint.read(folder, "policy"))
    assert play(other, frame(5, 6)) == play(policy, frame(5, 6)) == [[5, 5, 5], [2, 4, 6]]


def test_memories_that_no_agents_have_are_refused():
    """Defect: an action that there is not was an index in compiled code."""
    policy = make_policy()
    policy.act(np.zeros((E, N, *SPEC.obs_shape), np.float32), ALL, OPEN, Clock())
    whole = policy.state_dict()
    make_policy().load_state_dict(whole)
    for key, bad in (
        *(("last_action", bad) for bad in (-2, A, 10**9)),
        *(("hidden", bad) for bad in (np.nan, np.inf)),
    ):
        state = {**whole, key: whole[key].clone()}
        state[key][-1] = bad
        with pytest.raises(ValueError, match=rf"policy\.{key} has"):
            make_policy().load_state_dict(state)
        for wrong in (whole[key][:-1], whole[key].to(torch.float16)):
            with pytest.raises(ValueError, match=rf"policy\.{key} should be"):
                make_policy().load_state_dict({**whole, key: wrong})
