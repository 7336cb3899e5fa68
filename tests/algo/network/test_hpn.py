"""Values of ``HPNAgents`` do not depend on the order of units; those of attacks move with them."""

from dataclasses import replace

import pytest
import torch

from rltrain.algo.network.hpn import HPNAgents
from rltrain.env.smac.spec import env_spec
from tests.algo.batches import (
    SPEC,
    accelerated,
    make_batch,
    require_acting_equals_unrolling,
    with_garbage,
)

MAP = env_spec("2s3z")
MOVE, ENEMIES, ALLIES = 6, 5, 4


def agents_of(spec=MAP):
    torch.manual_seed(0)
    made = HPNAgents(spec=spec, hidden_dim=8, hyper_dim=8, last_action=False, agent_id=True)
    return accelerated(made)


def permuted(batch, name, order):
    """The batch with the units of a block in another order."""
    block = MAP.layout["obs"][name]
    start, end = block["start"], block["start"] + block["count"] * block["size"]
    obs = batch.obs.clone()
    rows = obs[..., start:end].unflatten(-1, (block["count"], block["size"]))
    obs[..., start:end] = rows[..., order, :].flatten(-2)
    return replace(batch, obs=obs)


def test_the_order_of_enemies_moves_their_attacks_and_nothing_else():
    agents, batch, order = agents_of(), make_batch([3, 2], spec=MAP), torch.randperm(ENEMIES)
    q, moved = (agents.unroll(b).q for b in (batch, permuted(batch, "enemies", order)))
    torch.testing.assert_close(moved[..., :MOVE], q[..., :MOVE])
    torch.testing.assert_close(moved[..., MOVE:], q[..., MOVE:][..., order])
    assert q[0, 0, 0, MOVE:].unique().numel() == ENEMIES


def test_the_order_of_allies_does_not_matter():
    agents, batch, order = agents_of(), make_batch([3, 2], spec=MAP), torch.tensor([3, 0, 2, 1])
    q, moved = (agents.unroll(b).q for b in (batch, permuted(batch, "allies", order)))
    torch.testing.assert_close(moved, q)


def test_units_have_a_part_in_the_values():
    agents, batch = agents_of(), make_batch([2], spec=MAP)
    batch = replace(batch, obs=batch.obs.requires_grad_())
    (grad,) = torch.autograd.grad(agents.unroll(batch).q[..., 0].sum(), batch.obs)
    assert (grad[:-1].abs().amax((0, 1, 2)) > 0).all()


def test_acting_gives_the_values_of_learning():
    agents, batch = agents_of(), make_batch([3], spec=MAP)
    require_acting_equals_unrolling(agents, batch, torch.zeros(1, MAP.n_agents, 8))


def test_garbage_in_the_padding_changes_no_value():
    agents, batch = agents_of(), make_batch([3, 1], spec=MAP)
    outputs = [agents.unroll(b).q for b in (batch, with_garbage(batch, [3, 1]))]
    torch.testing.assert_close(*outputs)


def test_an_environment_without_units_is_refused():
    with pytest.raises(ValueError, match=r"blocks enemies and allies.*algo/network=gru"):
        agents_of(SPEC)
