"""Workers in the process of a test, whose connections and environments can be cut at any moment."""

import logging
import pickle
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rltrain.common.stateful import Stateful
from rltrain.hardware.env_share import split_envs
from rltrain.hardware.process.process import WorkerProcess
from rltrain.hardware.process.rollout import ProcessRollout
from rltrain.hardware.process.supervision import Supervision
from rltrain.hardware.process.tests import ProcessTests
from rltrain.hardware.process.worker import Answers
from rltrain.hardware.rollout import Rollout
from rltrain.types import Clock, Steps
from tests.hardware.walks import Counter, Tasked, rollout


class Drawing(Counter):
    """A policy with a random stream of one number."""

    rng = 0

    def state_dict(self):
        return {**super().state_dict(), "rng": self.rng}

    def carry_on(self, state):
        self.rng = state["rng"]


class Pool:
    """Opponents with a snapshot of every collect."""

    def __init__(self):
        self.pool = []

    def update(self, clock):
        self.pool.append(clock.env_steps)

    def state_dict(self):
        return {"pool": list(self.pool)}

    def carry_on(self, state):
        self.pool = list(state["pool"])

    load_state_dict = carry_on

    def nothing(self, *parts): ...

    reset = act = finished = forget = nothing


class Line:
    """A connection to answers in this process; raises KeyboardInterrupt at its moment ``due``."""

    moments, due = 0, 0

    def __init__(self, answers):
        self.answers, self.unread, self.closed = answers, [pickle.dumps(answers("start"))], False

    def moment(self):
        Line.moments += 1
        if Line.moments == Line.due:
            raise KeyboardInterrupt
        if self.closed:
            raise OSError

    def poll(self, timeout):
        self.moment()
        assert self.unread, "waits for an answer without a question"
        return True

    def send_bytes(self, message):
        self.moment()
        assert not self.unread, "a question before the last answer was read"
        self.unread.append(pickle.dumps(self.answers(*pickle.loads(message))))
        self.moment()

    def recv_bytes(self):
        self.moment()
        message = self.unread.pop(0)
        self.moment()
        return message

    def close(self):
        self.closed = True


class Beside(WorkerProcess):
    """A worker at the other end of a ``Line``."""

    def __init__(self, make, exchange, begin):
        self.owes, self.seconds = True, np.zeros(2)
        self.process = SimpleNamespace(join=lambda timeout: None, exitcode=1)
        self.connection = Line(Answers(exchange, make, begin))

    def kill(self, timeout=0.0):
        self.connection.close()


class Nearby:
    """An exchange of steps that workers beside this test put into their answers."""

    def publish(self, agents): ...

    def read(self, agents): ...

    def write(self, fields, share):
        return fields

    def joined(self, n_steps, parts):
        return {name: np.concatenate([part[name] for part in parts], 1) for name in parts[0]}

    def worker_seconds(self, share):
        return np.zeros(2)

    seconds = np.zeros((2, 2))


def make(share, replaced):
    part = rollout(share.n_envs, Tasked, lambda e, k: share.first + e + 7 * k)
    parts = {"policy": Drawing(share.n_envs), "opponents": Pool(), "share": share}
    made = Rollout(env=part.env, seeds=part.seeds, **parts)
    made.policy.rng = replaced
    return made, torch.nn.Identity()


def workers(exchange):
    start = partial(Beside, make, exchange)
    limits = {"timeout": 1.0, "max_restarts": 99, "advice": ""}
    return Supervision(start, split_envs(3, 2), **limits)


def rollout_beside(overlap=False):
    """A rollout of three walks in two workers."""
    exchange, env = Nearby(), rollout(1, Tasked).env
    parts = {"exchange": exchange, "env": env, "agents": None, "overlap": overlap}
    parts["exploration"] = Stateful()
    return ProcessRollout(workers=workers(exchange), **parts)


def playing_beside():
    """Tests in three walks in two workers."""
    exchange, env = Nearby(), rollout(1, Tasked).env
    return ProcessTests(workers=workers(exchange), exchange=exchange, env=env, agents=None)


@pytest.fixture
def quiet_log(monkeypatch):
    """Gives back the log, which workers take for themselves."""
    logger = logging.getLogger("rltrain")
    for name in ("handlers", "propagate", "level"):
        monkeypatch.setattr(logger, name, getattr(logger, name))


CLOCK = Clock()


def rollouts(workers):
    """Those of the workers."""
    return [one.connection.answers.worker.rollout for one in workers._processes.values()]


def lose(workers):
    """End all workers behind the back of the run."""
    for worker in workers._processes.values():
        worker.connection.close()


def require_connected(parts: list[Steps]) -> None:
    """Every step follows the one before it in its environment, or that one was lost."""
    n_envs = parts[0].last.shape[1]
    before = [None] * n_envs  # seed, step and last
    for steps in parts:
        before = [None if lost else one for lost, one in zip(steps.lost, before, strict=True)]
        for obs, last in zip(steps.obs[:, :, 0], steps.last, strict=True):
            for e, (seed, t) in enumerate(obs.tolist()):
                if before[e] is not None:
                    number, step, ended = before[e]
                    assert t == 0 if ended else (seed, t) == (number, step + 1)
                before[e] = seed, t, last[e]
