"""The mixer over entities: permuted units, absent units, batches of several maps."""

from dataclasses import fields, replace

import pytest
import torch

from rltrain.algo.loss.td import TDLoss
from rltrain.algo.mixer.entity_qmix import EntityQMix
from rltrain.algo.network.unit_agents import AttentionAgents, HPNAgents
from rltrain.interfaces import Model
from rltrain.types import Batch, Clock
from tests.algo.batches import SPEC, gradients, make_batch
from tests.algo.maps import laid_out, spec_among

BOTH = spec_among("3m", "2s3z_vs_3s3z")
CLOSE = {"rtol": 1e-6, "atol": 1e-6}


def mixer_of(spec=BOTH):
    torch.manual_seed(0)
    return EntityQMix(spec=spec, embed_dim=4, hypernet_dim=8)


def mix(mixer, q, state):
    return mixer(q, q.detach(), torch.zeros(q.shape, dtype=torch.int64), state)


def blocks_of(state, name):
    block = BOTH.layout["state"][name]
    start, end = block["start"], block["start"] + block["count"] * block["size"]
    return state[..., start:end].unflatten(-1, (block["count"], block["size"]))


def test_the_order_of_units_does_not_matter():
    q, state = torch.randn(3, 4, 5), torch.randn(3, 4, BOTH.state_dim)
    moved = state.clone()
    for name, order in (("allies", [4, 2, 0, 1, 3]), ("enemies", [5, 0, 3, 1, 2, 4])):
        blocks_of(moved, name)[:] = blocks_of(state, name)[..., order, :].clone()
    mixed = mix(mixer_of(), q, state)
    torch.testing.assert_close(mix(mixer_of(), q[..., [4, 2, 0, 1, 3]], moved), mixed, **CLOSE)
    assert not torch.allclose(mix(mixer_of(), q, moved), mixed)


def test_it_never_falls_with_an_agents_value_and_dead_agents_do_not_count():
    q = torch.randn(50, 4, 5).requires_grad_()
    state = 3 * torch.randn(50, 4, BOTH.state_dim)
    (slope,) = torch.autograd.grad(mix(mixer_of(), q, state).sum(), q)
    lives = blocks_of(state, "allies")[..., 0] > 0
    assert (slope[lives] > 0).float().mean() > 0.9
    assert (slope >= 0).all()
    assert (slope[~lives] == 0).all()


def test_a_state_without_units_is_refused():
    with pytest.raises(ValueError, match=r"blocks allies and enemies.*algo/mixer=qmix"):
        mixer_of(SPEC)


@pytest.mark.parametrize(
    ("kind", "words"),
    [(HPNAgents, {"hyper_dim": 4}), (AttentionAgents, {"embed_dim": 8, "heads": 2})],
)
def test_a_batch_of_several_maps_is_the_batches_of_each_map(kind, words):
    """The same loss and gradient from teams that are padded and from teams that are not."""
    specs = [spec_among("3m"), spec_among("2s3z_vs_3s3z")]
    batches = [make_batch([4, 2], specs[0], seed=1), make_batch([3, 4, 1], specs[1], seed=2)]
    wide = [laid_out(b, spec, BOTH) for b, spec in zip(batches, specs, strict=True)]
    joined = {
        f.name: torch.cat([getattr(b, f.name) for b in wide], wide[0].mask.dim() - 1)
        if getattr(wide[0], f.name).dim() > 1
        else torch.cat([getattr(b, f.name) for b in wide])
        for f in fields(Batch)
        if isinstance(getattr(wide[0], f.name), torch.Tensor)
    }
    loss, found = TDLoss(gamma=0.9, double=True, n_step=1), []

    def models(spec):
        torch.manual_seed(0)
        shape = {"hidden_dim": 8, "last_action": False, "agent_id": False}
        mixers = [EntityQMix(spec=spec, embed_dim=4, hypernet_dim=8) for _ in range(2)]
        return [Model(kind(spec=spec, **shape, **words), mixer) for mixer in mixers]

    weights = [model.state_dict() for model in models(BOTH)]
    for spec, batch in (*zip(specs, batches, strict=True), (BOTH, replace(wide[0], **joined))):
        online, target = models(spec)
        for model, state in zip((online, target), weights, strict=True):
            model.load_state_dict(state)
        result = loss(online, target, batch, Clock())
        found.append([result.loss_sum, result.count, *gradients(result, online)])
    for one, other, both in zip(*found, strict=True):
        torch.testing.assert_close(one + other, both, rtol=1e-5, atol=1e-6)
