"""Compiled acting of recurrent agents against PyTorch."""

import copy

import pytest
import torch

from rltrain.algo.network.gru import GRUAgents
from rltrain.kernels.recurrent.acting import RecurrentStep, recurrent_step
from rltrain.types import EnvSpec
from tests.algo import batches
from tests.algo.batches import AGENTS


def made(**sizes):
    spec = EnvSpec(**{"n_agents": 3, "n_actions": 5, "obs_shape": (4,), **sizes})
    return GRUAgents(spec=spec, hidden_dim=20, last_action=True, agent_id=True)


def inputs(agents, n_envs, n_agents=3, obs_shape=(4,)):
    last = torch.randint(-1, 5, (n_envs, n_agents))
    return torch.randn(n_envs, n_agents, *obs_shape), last, torch.rand(n_envs, n_agents, 20)


@pytest.mark.parametrize("n_envs", [1, 7, 40])
@pytest.mark.parametrize("n_agents", [1, 3])
@torch.inference_mode()
def test_compiled_acting_equals_the_tensor_operations(n_agents, n_envs):
    """One agent has no id among its inputs."""
    agents = made(n_agents=n_agents, obs_shape=(2, 2), obs_scale=0.5)
    given = inputs(agents, n_envs, n_agents, (2, 2))
    ours, theirs = (
        recurrent_step(RecurrentStep(agents), agents, *given),
        GRUAgents.step(agents, *given),
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@torch.inference_mode()
def test_without_previous_action_and_agent_id():
    spec = EnvSpec(n_agents=3, n_actions=5, obs_shape=(4,))
    agents = GRUAgents(spec=spec, hidden_dim=20, last_action=False, agent_id=False)
    given = inputs(agents, 2)
    ours, theirs = (
        recurrent_step(RecurrentStep(agents), agents, *given),
        GRUAgents.step(agents, *given),
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@torch.inference_mode()
def test_a_previous_action_that_does_not_exist_is_refused():
    agents = made()
    obs, last, hidden = inputs(agents, 2)
    last[1, 2] = 5
    with pytest.raises(IndexError, match="previous action"):
        recurrent_step(RecurrentStep(agents), agents, obs, last, hidden)


@torch.inference_mode()
def test_sizes_that_do_not_fit_are_refused():
    agents = made()
    obs, last, hidden = inputs(agents, 2)
    with pytest.raises(ValueError, match="expected 4 inputs and 20 units, got 3 and 20"):
        recurrent_step(RecurrentStep(agents), agents, obs[..., :3], last, hidden)


def test_the_switch_chooses_it_and_copies_act_with_their_own_weights(monkeypatch):
    monkeypatch.setattr(batches, "KERNELS", "compiled")
    spec = EnvSpec(n_agents=3, n_actions=5, obs_shape=(4,))
    agents = AGENTS["gru"](spec=spec)
    assert agents.step.func is recurrent_step
    copied = copy.deepcopy(agents)
    with torch.no_grad():
        agents.fc2.bias += 1
        given = torch.ones(1, 3, 4), torch.zeros(1, 3, dtype=torch.int64), torch.zeros(1, 3, 8)
        torch.testing.assert_close(agents.step(*given)[0], copied.step(*given)[0] + 1)
