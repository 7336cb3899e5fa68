"""Compiled acting against the policy in NumPy and PyTorch."""

import copy

import numpy as np
import pytest
import torch

from rltrain import kernels
from rltrain.algo.exploration.epsilon import EpsilonGreedy, FixedEpsilon, PerEnvEpsilon
from rltrain.algo.network.gru import GRUAgents
from rltrain.algo.policy import Policy
from rltrain.errors import DivergedError
from rltrain.kernels.acting import RecurrentStep, agents_step
from rltrain.types import Clock, EnvSpec
from tests.algo import batches
from tests.algo.batches import AGENTS, make_model

SPEC = EnvSpec(n_agents=2, n_actions=5, obs_shape=(3,))
BARE = {"last_action": False, "agent_id": False}


def policies(exploration, kind="mlp", **changes):
    """The same policy twice, the second one compiled."""
    made = []
    for compiled in (False, True):
        agents = make_model(kind, "independent", SPEC, **changes).agents
        p = Policy(agents=agents, exploration=exploration(), spec=SPEC, n_envs=6, rng=generator())
        if compiled:
            kernels.compile_policy(p)
        made.append(p)
    return made


def generator():
    return np.random.default_rng(3)


def same_actions(plain, compiled):
    rng = np.random.default_rng(0)
    for step in range(20):
        obs = rng.standard_normal((6, 2, 3), np.float32)
        available = (rng.random((6, 2, 5)) < 0.4).astype(np.uint8)  # sometimes none
        seen = obs, available, rng.random(6) < 0.2, Clock(env_steps=step)
        acted = [policy.act(*seen) for policy in (plain, compiled)]
        np.testing.assert_array_equal(*acted)
        np.testing.assert_array_equal(*(p.probability() for p in (plain, compiled)))
    assert plain.rng.bit_generator.state == compiled.rng.bit_generator.state


@pytest.mark.parametrize("changes", [BARE, {"last_action": True}], ids=["bare", "last action"])
def test_actions_and_random_stream_are_those_of_the_plain_policy(changes):
    plain, compiled = policies(lambda: EpsilonGreedy(start=1.0, end=0.0, env_steps=15), **changes)
    assert "choose" in vars(compiled.exploration)
    assert ("values" in vars(compiled)) is (changes is BARE)
    same_actions(plain, compiled)


def test_other_explorations_are_left_alone():
    plain, compiled = policies(lambda: PerEnvEpsilon(base=0.4, alpha=7.0, n_envs=6), "gru")
    assert "choose" not in vars(compiled.exploration)
    same_actions(plain, compiled)


def test_recurrent_agents_act_and_remember_as_the_plain_ones():
    plain, compiled = policies(lambda: EpsilonGreedy(start=1.0, end=0.0, env_steps=15), "gru")
    assert "values" in vars(compiled)
    same_actions(plain, compiled)
    np.testing.assert_allclose(compiled.hidden, plain.hidden, rtol=1e-5, atol=1e-6)


def test_weights_that_are_moved_in_memory_are_found_again():
    plain, compiled = policies(lambda: FixedEpsilon(epsilon=0.0), "gru")
    same_actions(plain, compiled)
    for policy in (plain, compiled):
        for weights in policy.agents.parameters():
            weights.data = -weights.data
    same_actions(plain, compiled)


def test_values_that_are_nan_are_refused():
    _, compiled = policies(lambda: FixedEpsilon(epsilon=0.0), **BARE)
    with torch.no_grad():
        next(compiled.agents.parameters()).fill_(torch.nan)
    obs, available = np.ones((6, 2, 3), np.float32), np.ones((6, 2, 5), np.uint8)
    with pytest.raises(DivergedError, match="NaN"):
        compiled.act(obs, available, np.zeros(6, bool), Clock())


def made(more=True, **sizes):
    spec = EnvSpec(**{"n_agents": 3, "n_actions": 5, "obs_shape": (4,), **sizes})
    return GRUAgents(spec=spec, hidden_dim=20, last_action=more, agent_id=more)


def inputs(agents, n_envs, n_agents=3, obs_shape=(4,)):
    last = torch.randint(-1, 5, (n_envs, n_agents))
    return torch.randn(n_envs, n_agents, *obs_shape), last, torch.rand(n_envs, n_agents, 20)


def require_equal_steps(agents, *given):
    ours = agents_step(RecurrentStep(agents), agents, *given)
    theirs = GRUAgents.step(agents, *given)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n_envs", [1, 7, 40])
@pytest.mark.parametrize("n_agents", [1, 3])
@pytest.mark.parametrize("more", [True, False])
@torch.inference_mode()
def test_the_recurrent_step_equals_the_tensor_operations(more, n_agents, n_envs):
    """With and without previous action and agent id; one agent has no id among its inputs."""
    agents = made(more, n_agents=n_agents, obs_shape=(2, 2), obs_scale=0.5)
    require_equal_steps(agents, *inputs(agents, n_envs, n_agents, (2, 2)))


@torch.inference_mode()
def test_a_previous_action_that_does_not_exist_is_refused():
    agents = made()
    obs, last, hidden = inputs(agents, 2)
    last[1, 2] = 5
    with pytest.raises(IndexError, match="previous action"):
        agents_step(RecurrentStep(agents), agents, obs, last, hidden)


@torch.inference_mode()
def test_sizes_that_do_not_fit_are_refused():
    agents = made()
    obs, last, hidden = inputs(agents, 2)
    with pytest.raises(ValueError, match="expected 4 inputs and 20 units, got 3 and 20"):
        agents_step(RecurrentStep(agents), agents, obs[..., :3], last, hidden)


def test_the_switch_chooses_the_recurrent_step_and_copies_act_with_their_own_weights(monkeypatch):
    monkeypatch.setattr(batches, "KERNELS", "compiled")
    spec = EnvSpec(n_agents=3, n_actions=5, obs_shape=(4,))
    agents = AGENTS["gru"](spec=spec)
    assert agents.step.func is agents_step
    copied = copy.deepcopy(agents)
    with torch.no_grad():
        agents.fc2.bias += 1
        given = torch.ones(1, 3, 4), torch.zeros(1, 3, dtype=torch.int64), torch.zeros(1, 3, 8)
        torch.testing.assert_close(agents.step(*given)[0], copied.step(*given)[0] + 1)
