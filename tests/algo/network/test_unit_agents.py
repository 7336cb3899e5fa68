"""Values of agents over entities do not depend on the order of units, nor on absent ones; those of
attacks move with them.
"""

from dataclasses import replace
from functools import partial

import pytest
import torch

from rltrain.algo.network.gru import GRUAgents
from rltrain.algo.network.unit_agents import AttentionAgents, HPNAgents
from rltrain.battles.data.scenarios import find_scenario
from rltrain.battles.options import Smacv2Options
from rltrain.buffer.replay import one_agent
from rltrain.env.smac.backend import make_spec
from tests.algo.batches import (
    SPEC,
    accelerated,
    make_batch,
    require_acting_equals_unrolling,
    with_garbage,
)
from tests.algo.maps import laid_out, spec_among
from tests.battles.specs import env_spec

MAP = env_spec("2s3z")
MOVE, ENEMIES, ALLIES = 6, 5, 4
KINDS = {
    "hpn": partial(HPNAgents, hyper_dim=8),
    "attention": partial(AttentionAgents, embed_dim=8, heads=2),
}


@pytest.fixture(params=KINDS)
def agents_of(request):
    """Make a network from a spec."""

    def made(spec=MAP, agent_id=True):
        torch.manual_seed(0)
        words = {"hidden_dim": 8, "last_action": False, "agent_id": agent_id}
        return accelerated(KINDS[request.param](spec=spec, **words))

    return made


def permuted(batch, name, order, spec=MAP):
    """The batch with the first units of a block in another order."""
    block = spec.layout["obs"][name]
    start, end = block["start"], block["start"] + block["count"] * block["size"]
    obs = batch.obs.clone()
    rows = obs[..., start:end].unflatten(-1, (block["count"], block["size"]))
    obs[..., start:end] = torch.cat([rows[..., order, :], rows[..., len(order) :, :]], -2).flatten(
        -2
    )
    return replace(batch, obs=obs)


def test_the_order_of_enemies_moves_their_attacks_and_nothing_else(agents_of):
    agents, batch, order = agents_of(), make_batch([3, 2], spec=MAP), torch.randperm(ENEMIES)
    q, moved = (agents.unroll(b).q for b in (batch, permuted(batch, "enemies", order)))
    torch.testing.assert_close(moved[..., :MOVE], q[..., :MOVE], rtol=0, atol=1e-6)
    torch.testing.assert_close(moved[..., MOVE:], q[..., MOVE:][..., order], rtol=0, atol=1e-6)
    assert q[0, 0, 0, MOVE:].unique().numel() == ENEMIES


@pytest.mark.parametrize(
    ("spec", "first"),
    [
        (make_spec(find_scenario("terran_5_vs_3"), Smacv2Options()), 6),
        (make_spec(find_scenario("terran_5_vs_3"), Smacv2Options(conic_fov=True)), 18),
        (make_spec(find_scenario("protoss_5_vs_5"), Smacv2Options(conic_fov=True)), 18),
        (replace(MAP, layout={"obs": MAP.layout["obs"]}), 6),  # attacks are the last actions
    ],
)
def test_an_attack_has_the_value_of_its_enemy_where_teams_have_other_sizes(agents_of, spec, first):
    agents, batch = agents_of(spec), make_batch([3, 2], spec=spec)
    moved = permuted(batch, "enemies", torch.arange(1, -1, -1), spec)
    q, other = agents.unroll(batch).q, agents.unroll(moved).q
    order = torch.arange(spec.n_actions)
    order[[first, first + 1]] = order[[first + 1, first]]
    torch.testing.assert_close(other, q[..., order], rtol=0, atol=1e-6)
    assert not torch.allclose(other, q)


def test_the_order_of_allies_does_not_matter(agents_of):
    agents, batch, order = agents_of(), make_batch([3, 2], spec=MAP), torch.tensor([3, 0, 2, 1])
    q, moved = (agents.unroll(b).q for b in (batch, permuted(batch, "allies", order)))
    torch.testing.assert_close(moved, q, rtol=0, atol=1e-6)


def test_units_have_a_part_in_the_values(agents_of):
    agents, batch = agents_of(), make_batch([2], spec=MAP)
    batch = replace(batch, obs=batch.obs.requires_grad_())
    (grad,) = torch.autograd.grad(agents.unroll(batch).q[..., 0].sum(), batch.obs)
    assert (grad[:-1].abs().amax((0, 1, 2)) > 0).all()


def test_acting_gives_the_values_of_learning(agents_of):
    agents, batch = agents_of(), make_batch([3], spec=MAP)
    require_acting_equals_unrolling(agents, batch, torch.zeros(1, MAP.n_agents, 8))


def test_garbage_in_the_padding_changes_no_value(agents_of):
    agents, batch = agents_of(), make_batch([3, 1], spec=MAP)
    outputs = [agents.unroll(b).q for b in (batch, with_garbage(batch, [3, 1]))]
    torch.testing.assert_close(*outputs)


def test_an_environment_without_units_is_refused(agents_of):
    with pytest.raises(ValueError, match=r"blocks enemies and allies.*algo/network=gru"):
        agents_of(SPEC)


def test_absent_units_change_no_value(agents_of):
    small, large = spec_among("2s3z"), spec_among("2s3z", "3s5z_vs_3s6z")
    agents, others = agents_of(small, agent_id=False), agents_of(large, agent_id=False)
    assert agents.any_size
    others.load_state_dict(agents.state_dict())
    batch = make_batch([3, 2], spec=small)
    q, wide = agents.unroll(batch).q, others.unroll(laid_out(batch, small, large)).q
    torch.testing.assert_close(wide[:, :, :5, : 6 + 5], q, rtol=0, atol=1e-6)


def test_one_hot_agents_and_actions_are_of_one_size(agents_of):
    assert not agents_of(agent_id=True).any_size


def test_agents_that_see_nothing_have_the_values_that_each_would_have(agents_of):
    agents, batch = agents_of(agent_id=False), make_batch([3, 4, 1], spec=MAP)
    batch.obs[:, 0, 1:3], batch.obs[:, 1, 4], batch.obs[0, 2] = 0, 0, 0
    output, each = agents.unroll(batch), GRUAgents.unroll(agents, batch)
    torch.testing.assert_close(output.q, each.q, rtol=0, atol=1e-6)
    torch.testing.assert_close(output.hidden, each.hidden, rtol=0, atol=1e-6)
    grads = [torch.autograd.grad(o.q.pow(2).sum(), [*agents.parameters()]) for o in (output, each)]
    torch.testing.assert_close(*grads, rtol=1e-5, atol=1e-5)


def test_windows_of_one_agent_that_sees_nothing_have_values(agents_of):
    agents, batch = agents_of(agent_id=False), make_batch([3, 2, 3, 2], spec=MAP)
    batch = replace(batch, obs=batch.obs.clone())
    batch.obs[:, :3] = 0
    alone = one_agent(batch, torch.tensor([0, 1, 2, 0]))
    q = agents.unroll(replace(alone, agent=None)).q
    torch.testing.assert_close(agents.unroll(alone).q, q, rtol=0, atol=0)
