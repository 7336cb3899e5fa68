from dataclasses import replace

import numpy as np
import pytest
import torch

from rltrain.algo.reward_norm import RewardNorm
from rltrain.buffer.replay import one_agent
from rltrain.types import Clock
from tests.algo.batches import SPEC, make_batch, make_learner, make_model, with_garbage

LENGTHS = [4, 2]
BATCH = make_batch(LENGTHS)
REAL = [BATCH.reward[t, b, 0].item() for b, length in enumerate(LENGTHS) for t in range(length)]


def norm(kind="standardize"):
    return RewardNorm(kind=kind, n_rewards=1, device=torch.device("cpu"))


@pytest.mark.parametrize("kind", ["scale", "standardize"])
def test_moments_are_those_of_the_real_transitions(kind):
    normalize = norm(kind)
    reward = normalize(with_garbage(BATCH, LENGTHS)).reward[:, 0, 0]
    shift = np.mean(REAL) if kind == "standardize" else 0
    expected = (np.array(REAL[:4]) - shift) / np.std(REAL)
    np.testing.assert_allclose(reward, expected, rtol=1e-5)


def test_moments_of_two_batches_are_those_of_both():
    other = make_batch([3], seed=5)
    normalize = norm()
    normalize(BATCH)
    normalize(other)
    both = REAL + other.reward[:, 0, 0].tolist()
    assert normalize.mean.item() == pytest.approx(np.mean(both))
    assert (normalize.squares / normalize.count).item() == pytest.approx(np.var(both))


def test_streams_have_moments_of_their_own():
    batch = replace(BATCH, reward=torch.cat([BATCH.reward, 10 * BATCH.reward], -1))
    normalize = RewardNorm(kind="scale", n_rewards=2, device=torch.device("cpu"))
    reward = normalize(batch).reward
    torch.testing.assert_close(reward[..., 0], reward[..., 1])


@pytest.mark.parametrize("value", [0.0, 1.0, -1.0, 0.1, -1e-3, 1e4])
@pytest.mark.parametrize("kind", ["scale", "standardize"])
def test_a_reward_that_never_changes_is_not_divided(kind, value):
    """Defect: it was multiplied by 10,000, and learning diverged."""
    constant, normalize = replace(BATCH, reward=torch.full_like(BATCH.reward, value)), norm(kind)
    for _ in range(5):
        found = normalize(constant).reward[0, 0, 0]
    assert found == pytest.approx(value if kind == "scale" else 0, abs=1e-9)


def test_a_reward_that_is_not_finite_does_not_enter_the_moments():
    normalize, batch = norm(), replace(BATCH, reward=BATCH.reward.clone())
    batch.reward[0, 0] = torch.nan
    normalize(batch)
    assert normalize.mean.item() == pytest.approx(np.mean(REAL[1:]))


def test_a_restored_learner_goes_on_with_the_moments():
    learners = [
        make_learner(make_model(mixer="sum"), reward_norm=norm("standardize")) for _ in range(2)
    ]
    learners[0].update(BATCH, Clock())
    learners[1].load_state_dict(learners[0].state_dict())
    weights = [learner.update(BATCH, Clock(updates=1)) for learner in learners]
    assert weights[0].metrics["loss"] == weights[1].metrics["loss"]
    torch.testing.assert_close(*(each.online.state_dict() for each in learners), rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["scale", "standardize"])
def test_windows_of_one_agent_each_have_the_moments_of_its_stream(kind):
    reward = torch.randn(1, 400, 2, generator=torch.Generator().manual_seed(0))
    reward = reward * torch.tensor([1.0, 100.0]) + torch.tensor([3.0, 0.0])
    together = make_batch([1] * 400, spec=replace(SPEC, n_agents=2, n_rewards=2))
    together = replace(together, reward=reward)
    agent = torch.arange(400) % 2
    normalize, each = (
        RewardNorm(kind=kind, n_rewards=2, device=torch.device("cpu")) for _ in range(2)
    )
    alone = each(one_agent(together, agent))
    assert alone.reward.shape == (1, 400, 1)
    for i in range(2):
        mine = reward[0, agent == i, i].numpy()
        shift = mine.mean() if kind == "standardize" else 0
        found = alone.reward[0, agent == i, 0]
        np.testing.assert_allclose(found, (mine - shift) / mine.std(), rtol=1e-4)
    normalize(together)
    np.testing.assert_allclose(each.count, normalize.count / 2)
