"""Groups of agents with parameters of their own."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from rltrain.algo.network.grouped import GroupedAgents
from tests.algo.batches import AGENTS, SPEC, make_batch, require_acting_equals_unrolling

TRIO = replace(SPEC, n_agents=3)


def agents_of(groups, kind="gru", spec=TRIO):
    torch.manual_seed(0)
    return GroupedAgents(spec=spec, groups=groups, make=lambda s: AGENTS[kind](spec=s))


@pytest.mark.parametrize("kind", ["gru", "mlp"])
def test_agents_of_a_group_share_a_network_and_others_do_not(kind):
    agents = agents_of([[0, 2], [1]], kind)
    batch = make_batch([4, 2], spec=TRIO)
    q = agents.unroll(batch).q
    first = agents.networks[0]
    names = ("obs", "last_action", "avail_actions", "action")
    pair = replace(batch, **{name: getattr(batch, name)[:, :, [0, 2]] for name in names})
    torch.testing.assert_close(q[:, :, [0, 2]], first.unroll(pair).q)
    grad = torch.autograd.grad(q[:, :, 1].sum(), list(agents.parameters()), materialize_grads=True)
    n_first = len(list(first.parameters()))
    assert all((g == 0).all() for g in grad[:n_first])
    assert any((g != 0).any() for g in grad[n_first:])


def test_acting_gives_the_values_of_learning():
    agents = agents_of([[2, 0], [1]])
    batch = make_batch([3], spec=TRIO)
    require_acting_equals_unrolling(agents, batch, torch.zeros(1, 3, agents.hidden_dim))


def test_networks_are_as_large_as_the_agents_of_their_group():
    """Agent 1 has one observation and two actions, the others three and four."""
    spec = replace(TRIO, obs_sizes=(3, 1, 3), action_sizes=(4, 2, 4))
    agents = agents_of([[0, 2], [1]], spec=spec)
    assert [network.fc2.out_features for network in agents.networks] == [4, 2]
    assert agents.networks[1].fc1.in_features == 1 + 2  # observation, previous action
    batch = make_batch([3, 2], spec=TRIO)
    batch = replace(batch, last_action=batch.last_action.clamp(max=1))
    q = agents.unroll(batch).q
    assert q.shape[-1] == 4
    assert (q[:, :, 1, 2:] == 0).all()


@pytest.mark.parametrize("groups", [[[0, 1]], [[0, 1], [1, 2]], [[0], [1], [3]]])
def test_every_agent_is_in_exactly_one_group(groups):
    with pytest.raises(ValueError, match=r"exactly one group.*groups=\[\[0\],\[1\],\[2\]\]"):
        agents_of(groups)


def test_windows_of_one_agent_are_refused():
    batch = replace(make_batch([1]), agent=torch.zeros(1, 1, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"Type buffer.agents=lockstep"):
        agents_of([[0], [1]], spec=SPEC).unroll(batch)


def test_normalized_observations_are_refused():
    make = partial(AGENTS["gru"], normalize_obs=True)
    with pytest.raises(ValueError, match=r"Type algo.network.normalize_obs=false"):
        GroupedAgents(spec=TRIO, groups=[[0, 1, 2]], make=lambda s: make(spec=s))
