"""What every method for teams has in common: its targets, and where its batches end."""

from dataclasses import replace

import pytest
import torch

from rltrain.algo.targets import greedy, pick
from rltrain.types import Clock
from tests.algo.batches import METHODS, SPEC, make_batch, make_method, require_padding_unread

RETURNS = {
    "one_step": {},
    "n_step": {"n_step": 3},
    "td_lambda": {"trace": 0.6},
    "q_lambda": {"trace": 0.6, "corrected": True},
    "munchausen": {"munchausen": 0.9, "temperature": 0.3, "double": False},
    "munchausen_lambda": {"munchausen": 0.9, "temperature": 0.3, "trace": 0.6, "double": False},
}
EVERY = [
    pytest.param(m, r, marks=() if r in ("one_step", "q_lambda") else pytest.mark.slow)
    for m in METHODS
    for r in RETURNS
]


def pair(name, **returns):
    """Online and target model, and the loss."""
    (online, loss), (target, _) = (make_method(name, seed, **returns) for seed in range(2))
    return online, target, loss


def target_mean(name, batch, **returns):
    online, target, loss = pair(name, **returns)
    return loss(online, target, batch, Clock()).metrics["target_mean"].item()


@pytest.mark.parametrize(("method", "returns"), EVERY)
def test_garbage_in_the_padding_changes_neither_loss_nor_gradient(method, returns):
    online, target, loss = pair(method, **RETURNS[returns])
    require_padding_unread(loss, online, target, rtol=0, atol=0)


@pytest.mark.parametrize(("method", "returns"), EVERY)
def test_an_episode_is_worth_the_same_alone_and_beside_longer_ones(method, returns):
    """Terminated, cut off as the longest, cut off before the longest: none has a transition behind
    its end, and λ-returns start at its own.
    """
    online, target, loss = pair(method, **RETURNS[returns])
    batch = make_batch([4, 3, 2], cut_off=[0, 2])
    together = loss(online, target, batch, Clock())
    assert together.count == (4 + 3 + 2) * (2 if method == "iql" else 1)
    alone = [window(batch, b, length) for b, length in enumerate([4, 3, 2])]
    apart = [loss(online, target, each, Clock()) for each in alone]
    torch.testing.assert_close(together.loss_sum, sum(each.loss_sum for each in apart))
    torch.testing.assert_close(together.priority, torch.cat([each.priority for each in apart]))


def window(batch, b, length):
    """One episode of a batch without its padding."""

    def cut(name, n):
        return getattr(batch, name)[:n, b : b + 1]

    observed = ("obs", "avail_actions", "state", "last_action", "last")
    made = ("action", "reward", "terminated", "mask")
    fields = {name: cut(name, length + 1) for name in observed}
    fields |= {name: cut(name, length) for name in made}
    return replace(batch, **fields, weight=torch.ones(1), index=torch.zeros(1, dtype=torch.int64))


@pytest.mark.parametrize("corrected", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_lambda_zero_is_one_step(method, corrected):
    batch = make_batch([4, 3], cut_off=[1])
    y = target_mean(method, batch, trace=0.0, corrected=corrected)
    assert y == pytest.approx(target_mean(method, batch), rel=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_lambda_one_is_the_return_and_a_bootstrap_where_it_was_cut_off(method):
    batch = make_batch([4])
    rewards = batch.reward[:, 0, 0].tolist()
    sums = [sum(0.9**k * r for k, r in enumerate(rewards[t:])) for t in range(4)]
    assert target_mean(method, batch, trace=1.0) == pytest.approx(sum(sums) / 4, rel=1e-5)
    batch = make_batch([4, 2], cut_off=[0, 1])
    whole = target_mean(method, batch, n_step=4)  # rewards to the end, then X
    assert target_mean(method, batch, trace=1.0) == pytest.approx(whole, rel=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_without_weight_and_temperature_the_munchausen_target_is_the_plain_one(method):
    batch = make_batch([4, 3], cut_off=[1])
    soft = target_mean(method, batch, munchausen=0.0, temperature=1e-6, double=False)
    assert soft == pytest.approx(target_mean(method, batch, double=False), rel=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_the_munchausen_term_of_a_certain_policy_is_zero(method):
    """One available action: ln π = 0, and the soft value is its value."""
    batch = make_batch([4, 3], cut_off=[1])
    only = torch.zeros_like(batch.avail_actions)
    only[..., 0] = True
    batch = replace(batch, avail_actions=only, action=torch.zeros_like(batch.action))
    soft = target_mean(method, batch, munchausen=0.9, temperature=0.3, double=False)
    assert soft == pytest.approx(target_mean(method, batch), rel=1e-5)


@pytest.mark.parametrize("returns", RETURNS)
def test_agents_without_a_mixer_learn_from_their_own_rewards(returns):
    """A reward of the second agent moves the targets half as much as one of both."""
    spec = replace(SPEC, n_rewards=2)
    online, loss = make_method("iql", spec=spec, **RETURNS[returns])
    batch = make_batch([3], spec=spec)

    def moved(by):
        means = [
            loss(online, online, replace(batch, reward=reward), Clock()).metrics["target_mean"]
            for reward in (batch.reward, batch.reward + torch.tensor(by))
        ]
        return (means[1] - means[0]).item()

    assert moved([0.0, 1.0]) == pytest.approx(moved([1.0, 1.0]) / 2, rel=1e-3)
    assert moved([0.0, 1.0]) > 0.1


@pytest.mark.parametrize(
    ("returns", "said"),
    [
        ({"trace": 0.5, "n_step": 3}, "Type algo.loss.n_step=1, or algo.loss.trace=null"),
        ({"corrected": True}, "type a lambda as well, such as algo.loss.trace=0.6"),
        ({"floor": 1.0}, "algo.loss.floor=1 .*0 or less"),
    ],
)
def test_returns_that_contradict_each_other_are_refused(returns, said):
    with pytest.raises(ValueError, match=said):
        make_method("vdn", **returns)


@pytest.mark.parametrize("method", ["ow_qmix", "cw_qmix"])
def test_a_critic_does_not_begin_with_the_states_of_the_agents_that_acted(method):
    online, target, loss = pair(method)
    batch = make_batch([4, 3])
    hidden = torch.randn(2, SPEC.n_agents, online.agents.hidden_dim)
    begun = []
    for model in (online, target):
        unroll = model.critic.agents.unroll
        model.critic.agents.unroll = lambda batch, unroll=unroll, **limits: (
            begun.append(batch.hidden) or unroll(batch, **limits)
        )
    loss(online, target, replace(batch, hidden=hidden), Clock())
    assert begun == [None, None]


@pytest.mark.parametrize("double", [True, False])
def test_central_weighting_compares_with_the_value_of_the_actions_it_calls_greedy(double):
    """Rashid et al. 2020, section 4; ``double`` chooses the next action only. Defect: without it
    the value was that of the target network's greedy actions.
    """
    online, target, loss = pair("cw_qmix", double=double)
    batch = make_batch([6, 6, 5, 4, 6, 6])
    weights, weigh = [], loss._weight
    loss._weight = lambda *given: weights.append(weigh(*given)) or weights[-1]
    with torch.no_grad():
        loss(online, target, batch, Clock())
        best = greedy(online.agents.unroll(batch).q, batch.avail_actions)
        q = target.critic.agents.unroll(batch).q
        q_best = target.critic.mixer(pick(q, best), batch.state)[:-1]
        td_target, _ = loss._td_target(target, batch, best, batch.state)
    is_best = (batch.action == best[:-1]).all(-1, keepdim=True)
    expected = torch.where(is_best | (td_target > q_best), 1.0, loss.alpha)
    (found,) = weights
    assert torch.equal(found[batch.mask], expected[batch.mask])
    assert len(found[batch.mask].unique()) == 2
