"""A worker and the rollout of a run, both in this process."""

import os
import pickle
import threading

import pytest
import torch

from rltrain.common.stateful import Stateful
from rltrain.config.catalog import SHIPPED
from rltrain.hardware.env_share import Share, split_envs
from rltrain.hardware.process.rollout import ProcessRollout
from rltrain.hardware.process.tests import ProcessTests
from rltrain.hardware.process.worker import Worker, pickled
from rltrain.types import Clock, Episode
from tests.hardware.walks import Walk, rollout

SHARE = Share(0, 0, 2, 2)


class Here:
    """Exchange and supervision of one worker that is not elsewhere; keeps the clocks sent to it."""

    shares, broken, replaced = [SHARE], False, 0

    def __init__(self):
        self.clocks, self.worker = [], Worker(rollout(2), torch.nn.Identity(), SHARE, self)
        self.seconds = self.worker.rollout.seconds

    def worker_seconds(self, share):
        return torch.zeros(2).numpy()

    def read(self, agents): ...

    def publish(self, agents): ...

    def write(self, fields, share):
        return fields

    def joined(self, n_steps, parts):
        return parts[0]

    def send(self, method, args):
        (own,) = args
        self.clocks.append(own[-1])
        self.answer = getattr(self.worker, method)(*own)

    def receive(self):
        return [self.answer]

    def take_lost(self):
        return torch.zeros(2, dtype=torch.bool).numpy()


@pytest.mark.parametrize("overlap", [False, True])
def test_workers_get_the_clock_of_the_iteration_that_they_collect_for(overlap):
    here, clock = Here(), Clock(env_steps=10, episodes=3, updates=7)
    parts = {"workers": here, "exchange": here, "env": rollout(2).env, "agents": None}
    collects = ProcessRollout(**parts, overlap=overlap, exploration=Stateful())
    expected = [clock]
    for _ in range(3):
        clock = clock.after(collects.collect(4, clock))
        expected.append(clock)
    assert clock.env_steps > 10
    assert clock.episodes > 3
    assert here.clocks == (expected if overlap else expected[:-1])
    assert Walk.spec == collects.spec


@pytest.mark.parametrize("restart", [False, True])
def test_a_restored_worker_draws_the_noise_that_it_would_have_drawn(restart):
    worker = Here().worker
    worker.collect(3, Clock())
    state = worker.state_dict()
    drawn = torch.randn(4)
    worker.restart(state, 1) if restart else worker.load_state_dict(state)
    assert torch.equal(torch.randn(4), drawn)


def test_values_that_pickle_refuses_are_an_error_and_no_lost_worker():
    refused = (lambda: 0, iter(x for x in ()), threading.Lock(), {"nested": [open(os.devnull)]})  # noqa: SIM115
    for value in refused:
        kind, error, records, carried = pickle.loads(pickled(("value", value, (1,), {"a": 2})))
        assert (kind, records, carried) == ("raised", (1,), {"a": 2})
        with pytest.raises(TypeError, match=r"pickle refuses it: .*type hardware=\w+\.") as said:
            raise error
        assert str(said.value).rpartition("=")[2].rstrip(".") in SHIPPED.options("hardware")
    assert pickle.loads(pickled(("value", 3, (), None))) == ("value", 3, (), None)


class Elsewhere:
    """Workers whose test episodes have their number as their return."""

    def __init__(self, shares, n):
        self.shares, self.n, total = shares, n, shares[0].total
        self.of = lambda share: [
            Episode(i, 1) for i in range(n) if share.first <= i % total < share.first + share.n_envs
        ]

    def send(self, method, args):
        assert [n for n, *_ in args] == [len(self.of(share)) for share in self.shares]

    def receive(self, stop):
        return [self.of(share) for share in self.shares]


@pytest.mark.parametrize("n", [2, 7, 12])
def test_the_test_episodes_of_workers_are_put_in_their_order(n):
    here = Here()
    tests = ProcessTests(
        workers=Elsewhere(split_envs(5, 2), n), exchange=here, env=rollout(1).env, agents=None
    )
    played = tests.run_episodes(n, 0, Clock())
    assert [episode.episode_return for episode in played] == list(range(n))
