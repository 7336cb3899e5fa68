"""Padding, masks and weights in every loss."""

from dataclasses import replace

import pytest
import torch

from rltrain.algo.loss.q_lambda import LambdaLoss
from rltrain.algo.loss.td import TDLoss
from tests.algo.batches import (
    AGENTS,
    DISTRIBUTIONS,
    LOSSES,
    MIXERS,
    loss_and_grads,
    make_batch,
    make_loss,
    make_model,
    require_padding_unread,
    with_garbage,
)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("mixer", MIXERS)
@pytest.mark.parametrize("agents", AGENTS)
@pytest.mark.parametrize("lengths", [[5, 3, 1], [1, 3, 3]])
def test_garbage_in_the_padding_changes_nothing(agents, mixer, n_step, lengths):
    online, target = make_model(agents, mixer), make_model(agents, mixer, seed=1)
    loss = TDLoss(gamma=0.9, double=True, n_step=n_step)
    require_padding_unread(loss, online, target, lengths, rtol=0, atol=0)


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("name", LOSSES)
def test_garbage_in_the_padding_changes_no_loss(name, n_step):
    """Nor any gradient."""
    online, target = (q_model(name, seed) for seed in range(2))
    require_padding_unread(make_loss(name, n_step=n_step), online, target)


def test_garbage_in_the_padding_does_not_change_q_lambda():
    lengths = [5, 3, 1]
    model, batch = make_model("mlp", "sum"), make_batch(lengths, n_steps=5)
    batch = replace(batch, td_target=torch.randn(5, 3, 1) * batch.mask.unsqueeze(-1))
    spoiled = with_garbage(batch, lengths)
    td_target = torch.where(batch.mask.unsqueeze(-1), batch.td_target, torch.nan)
    loss = LambdaLoss(gamma=0.9, trace=0.5)
    clean = loss_and_grads(loss, model, None, batch)
    spoiled = loss_and_grads(loss, model, None, replace(spoiled, td_target=td_target))
    torch.testing.assert_close(clean, spoiled)


@pytest.mark.parametrize("name", [*LOSSES, "q_lambda"])
def test_every_loss_applies_importance_weights(name):
    """A window of weight 0 changes nothing; one of weight 2 twice as much."""
    batch = make_batch([1, 1], n_steps=1)
    if name == "q_lambda":
        online = target = make_model("mlp", "independent")
        loss = LambdaLoss(gamma=0.9, trace=0.5)
        batch = replace(batch, td_target=torch.ones(1, 2, 2))
    else:
        online, target, loss = q_model(name, 0), q_model(name, 1), make_loss(name)

    def weighed(*weight):
        torch.manual_seed(0)
        return loss_and_grads(loss, online, target, replace(batch, weight=torch.tensor(weight)))

    first, second, both = weighed(1.0, 0.0), weighed(0.0, 1.0), weighed(0.5, 2.0)
    for index in (0, *range(7, len(both))):  # the loss and every gradient
        torch.testing.assert_close(both[index], 0.5 * first[index] + 2 * second[index])
    assert torch.equal(first[2], both[2])  # priorities know no weight


def q_model(loss, seed):
    distribution = DISTRIBUTIONS[LOSSES[loss][0]]
    return make_model("mlp", "independent", seed=seed, distribution=distribution, dueling=True)


def test_garbage_in_the_padding_changes_nothing_on_the_padded_path(monkeypatch):
    """What a GPU runs."""
    online, target = make_model(), make_model(seed=1)
    for agents in (online.agents, target.agents):
        monkeypatch.setattr(agents, "_unroll_packed", agents._unroll_padded)
    loss = TDLoss(gamma=0.9, double=True, n_step=1)
    require_padding_unread(loss, online, target, rtol=0, atol=0)


# not IQN: its levels are drawn in other portions, so other numbers are right too
@pytest.mark.parametrize("name", [name for name in LOSSES if name != "implicit_quantile"])
def test_only_the_first_steps_of_n_step_windows_need_a_gradient(name):
    """With ``mask_end`` the other steps are evaluated without one: the same loss, to the bit of
    what is drawn."""
    online, target = (q_model(name, seed) for seed in range(2))
    batch = make_batch([3, 3, 2, 1], n_steps=3)
    mask = batch.mask.clone()
    mask[1:] = False
    batch, loss = replace(batch, mask=mask), make_loss(name, n_step=3)
    plain = loss_and_grads(loss, online, target, batch)
    short = loss_and_grads(loss, online, target, replace(batch, mask_end=1))
    torch.testing.assert_close(short, plain)


@pytest.mark.parametrize("name", LOSSES)
def test_a_mask_changed_by_a_callback_is_honored_also_where_nothing_is_padding(name):
    """Defect: networks without a compiled step learned from every transition of such a batch."""
    online, target = (q_model(name, seed) for seed in range(2))
    batch = replace(make_batch([1, 1, 1]), mask=torch.tensor([[True, False, True]]))
    found = []
    for whole in (False, True):
        torch.manual_seed(0)
        found.append(loss_and_grads(make_loss(name), online, target, replace(batch, whole=whole)))
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("agents", ["mlp", "gru"])
def test_marks_from_the_end_of_the_mask_on_are_ignored_by_every_path(agents):
    """Their targets would be shorter than n steps, and nothing computed their gradient."""
    changes = {"last_action": False, "agent_id": False}
    online, target = (make_model(agents, "independent", seed=i, **changes) for i in range(2))
    batch = replace(make_batch([3, 3, 2], n_steps=3), mask_end=1)
    mask = batch.mask.clone()
    mask[1:] = False
    loss = TDLoss(gamma=0.9, double=True, n_step=3)
    clean = loss_and_grads(loss, online, target, replace(batch, mask=mask))
    marked = loss_and_grads(loss, online, target, batch)
    torch.testing.assert_close(marked, clean, rtol=0, atol=0)
