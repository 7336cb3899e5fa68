"""Episodes drawn in proportion to their priorities."""

import numpy as np
import pytest
import torch

from rltrain.buffer.episode import EpisodeBuffer
from rltrain.types import Clock
from tests.buffer.episodes import make, saved
from tests.buffer.streams import Stream

START = Clock()


def filled(**given) -> EpisodeBuffer:
    buffer = make(sampler="proportional", alpha=1.0, total_env_steps=100, **given)
    stream = Stream(3)
    while buffer.n_episodes < 12 and not buffer.full:
        buffer.add(stream.steps(4))
    return buffer


def drawn(buffer, n=3000, clock=START):
    batch = buffer.sample(n, clock)
    return batch.index.numpy(), batch.weight.numpy()


def test_new_episodes_are_drawn_alike():
    buffer = filled()
    index, weight = drawn(buffer)
    counts = np.bincount(index - index.min(), minlength=buffer.n_episodes)
    assert (weight == 1).all()
    np.testing.assert_allclose(counts / len(index), 1 / buffer.n_episodes, atol=0.01)


@pytest.mark.parametrize(("env_steps", "beta"), [(0, 0.4), (50, 0.7), (200, 1.0)])
def test_episodes_are_drawn_by_priority_and_weighed_against_it(env_steps, beta):
    buffer = filled()
    ids = np.unique(drawn(buffer)[0])
    priority = np.arange(1, len(ids) + 1)
    buffer.update_priority(torch.from_numpy(ids), torch.from_numpy(priority / 10))
    index, weight = drawn(buffer, clock=Clock(env_steps=env_steps))
    counts = np.bincount(index - ids[0], minlength=len(ids))
    np.testing.assert_allclose(counts / len(index), priority / priority.sum(), atol=0.01)
    expected = (priority[index - ids[0]].astype(float)) ** -beta
    np.testing.assert_allclose(weight, expected / expected.max(), rtol=1e-3)


def test_a_priority_of_an_episode_that_was_removed_is_dropped():
    buffer = filled(capacity=6)
    oldest = drawn(buffer)[0].min()
    stale = torch.tensor([oldest - 1, oldest])  # the row of the first is the newest episode's
    buffer.update_priority(stale, torch.tensor([1e9, 1e-3]))
    index, _ = drawn(buffer)
    assert (index == oldest).mean() < 0.01
    counts = np.bincount(index - oldest, minlength=6)[1:]
    np.testing.assert_allclose(counts / len(index), 1 / 5, atol=0.02)


def test_a_restored_buffer_draws_the_same_episodes():
    buffer = filled()
    ids = torch.from_numpy(np.unique(drawn(buffer)[0]))
    buffer.update_priority(ids, torch.rand(len(ids)))
    other = make(sampler="proportional", alpha=1.0, total_env_steps=100)
    other.load_state_dict(saved(buffer))
    np.testing.assert_equal(drawn(buffer), drawn(other))


def test_a_smaller_buffer_restores_the_priorities_of_the_episodes_it_keeps():
    buffer = filled()
    ids = np.unique(drawn(buffer)[0])
    priority = np.arange(1, len(ids) + 1)
    buffer.update_priority(torch.from_numpy(ids), torch.from_numpy(priority / 10))
    small = make(sampler="proportional", alpha=1.0, total_env_steps=100, capacity=6)
    small.load_state_dict(saved(buffer))
    index, _ = drawn(small)
    counts = np.bincount(index - ids[-6], minlength=6)
    np.testing.assert_allclose(counts / len(index), priority[-6:] / priority[-6:].sum(), atol=0.02)
