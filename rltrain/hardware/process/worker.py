"""A worker: a ``Rollout`` in some of the environments, in another process, which carries out what
the rollout of the run asks it to.

An answer is ``(kind, value, records, carried)``: the kinds are ``value``, ``failed`` (the
environment; the message) and ``raised`` (the exception), ``records`` what was logged meanwhile,
``carried`` what outlives the episodes (None: it was sent a moment ago).
"""

from __future__ import annotations

import logging
import pickle
import time
import traceback
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import nn

from rltrain.common.machine.child_processes import end_with_parent, kill_with_parent
from rltrain.common.machine.streams import keep_streams
from rltrain.errors import EnvError
from rltrain.hardware.env_share import Share
from rltrain.hardware.rollout import Rollout
from rltrain.hardware.steps import step_arrays
from rltrain.interfaces import EpisodeSeeds
from rltrain.types import Clock, Episode, StateDict

CARRIED_INTERVAL = 10.0
"""Seconds of collecting between answers with what outlives the episodes."""
Answer = tuple[str, Any, tuple[Any, ...], StateDict | None]
MakeRollout = Callable[[Share, int], tuple[Rollout, nn.Module]]
"""From a share and how often its worker was replaced: the rollout and the agents that act."""


class Exchange(Protocol):
    """How a worker gets weights and gives steps."""

    def read(self, agents: nn.Module) -> None:
        """Load the weights of the run."""

    def write(self, fields: Mapping[str, np.ndarray], share: Share) -> object:
        """Give steps [T, E, …] to the run; returns what the answer has to contain."""

    def worker_seconds(self, share: Share) -> np.ndarray:
        """Where a worker adds up its times, [2]."""


class Worker:
    """A rollout that acts with the weights of a run, and gives its steps to it.

    Args:
        rollout: in the environments of ``share``.
        agents: those that act in it.
        share: which environments of the run.
        exchange: of weights and steps.
    """

    def __init__(
        self, rollout: Rollout, agents: nn.Module, share: Share, exchange: Exchange
    ) -> None:
        self.rollout, self.agents, self.share = rollout, agents, share
        self.exchange = exchange
        self.seeds = rollout.seeds = CountedSeeds(rollout.seeds)
        rollout.seconds = exchange.worker_seconds(share)

    def collect(
        self, n_steps: int, clock: Clock
    ) -> tuple[tuple[Episode, ...], np.ndarray, int, object, StateDict]:
        """Give the next ``n_steps`` time steps to the run.

        Returns:
            the finished episodes, the environments [E] whose open episode is to be dropped first,
            the number of the next episode, what ``exchange`` has for the run, and the state of the
            exploration.
        """
        self.exchange.read(self.agents)
        steps = self.rollout.collect(n_steps, clock)
        while len(steps.last) < n_steps:  # one lost its episode: all begin again
            self.rollout.abandon(self.seeds.used)
            steps = self.rollout.collect(n_steps, clock)
        part = self.exchange.write(step_arrays(steps), self.share)
        explored = self.rollout.policy.state_dict().get("exploration", {})
        return steps.episodes, steps.lost, self.seeds.used, part, explored

    def run_episodes(self, n: int, seed: int, clock: Clock) -> list[Episode]:
        """``n`` test episodes."""
        self.exchange.read(self.agents)
        return self.rollout.run_episodes(n, seed, clock)

    def state_dict(self) -> StateDict:
        """The rollout's state and torch's random stream, which noisy layers draw from."""
        return {
            "rollout": self.rollout.state_dict(),
            "torch_rng": torch.get_rng_state(),
            "episodes": self.seeds.used,
        }

    def load_state_dict(self, state: StateDict) -> None:
        """Continue from ``state_dict``."""
        self.rollout.load_state_dict(state["rollout"])
        torch.set_rng_state(state["torch_rng"])
        self.seeds.used = int(state["episodes"])

    def restart(self, state: StateDict, episodes: int) -> None:
        """Begin new episodes with what outlives them, ``Rollout.restart``."""
        self.rollout.restart(state["rollout"], episodes)
        torch.set_rng_state(state["torch_rng"])

    def __getattr__(self, name: str) -> Any:
        """Other questions are answered by the rollout: ``call``, ``abandon``."""
        return getattr(self.rollout, name)


class CountedSeeds:
    """Seeds of episodes, with the number of the first that was not used yet."""

    def __init__(self, seeds: EpisodeSeeds) -> None:
        self.seeds, self.used = seeds, 0
        self.first = getattr(seeds, "first", 0)

    def __call__(self, e: int, k: int) -> int:
        self.used = max(self.used, k + 1)
        return self.seeds(e, k)


class Beginning(NamedTuple):
    """What a worker begins with."""

    share: Share
    replaced: int  # workers of the run that were replaced before
    episodes: int  # those that the worker before this one began in each environment
    carried: StateDict | None  # what outlives them


class Answers:
    """The answers of a worker to the questions of a run; the first one makes the worker."""

    def __init__(self, exchange: Exchange, make: MakeRollout, begin: Beginning) -> None:
        self.exchange, self.make, self.begin = exchange, make, begin
        self.carried_until = 0.0  # when it is sent again
        self.worker: Worker | None = None
        self.records: list[tuple[str, int, str]] = []
        logger = logging.getLogger("rltrain")
        logger.handlers, logger.propagate = [Collect(self.records)], False
        logger.setLevel(logging.INFO)

    def __call__(self, method: str, *args: object) -> Answer:
        """The answer of a method of the worker; ``start`` only makes it."""
        carried = None
        try:
            if self.worker is None:
                self.worker = self._made()
            value = None if method == "start" else getattr(self.worker, method)(*args)
            now = time.monotonic()
            if method != "collect" or now >= self.carried_until:
                carried = self.worker.rollout.carried()
                self.carried_until = now + CARRIED_INTERVAL
            answer: tuple[str, object] = ("value", value)
        except EnvError as error:
            answer = ("failed", str(error))
        except Exception as error:
            error.add_note(f"in worker process {self.begin.share.number}\n{traceback.format_exc()}")
            answer = ("raised", sendable(error))
        records = tuple(self.records)
        self.records.clear()
        return (*answer, records, carried)

    def _made(self) -> Worker:
        share, replaced, episodes, carried = self.begin
        rollout, agents = self.make(share, replaced)
        worker = Worker(rollout, agents, share, self.exchange)
        if carried is not None:  # all but the random stream, which is new
            kept = carried.get("policy", {})
            policy = {**kept, "rng": rollout.policy.state_dict()["rng"]}
            rollout.carry_on({**carried, "policy": policy})
        if episodes:
            rollout.abandon(episodes)
        return worker

    def close(self) -> None:
        """Close the environments."""
        if self.worker is not None:
            self.worker.rollout.close()


def serve(connection: Connection, exchange: Exchange, make: MakeRollout, begin: bytes) -> None:
    """Run by a process: answer until the parent closes the pipe.

    Args:
        exchange, make, begin: arguments of ``Answers``; ``begin`` pickled.
    """
    end_with_parent()
    kill_with_parent()
    keep_streams()
    answers = Answers(exchange, make, pickle.loads(begin))
    question: tuple[Any, ...] = ("start",)
    while True:
        answer = answers(*question)
        try:
            connection.send_bytes(pickled(answer))
            question = pickle.loads(connection.recv_bytes())
        except (EOFError, OSError):
            break
    answers.close()


def pickled(answer: Answer) -> bytes:
    """What is sent of an answer; a value that pickle refuses becomes a TypeError in the run."""
    try:
        return pickle.dumps(answer)  # opens no file for a tensor
    except Exception as error:
        text = (
            "hardware=process sends what environments return between processes, but pickle "
            f"refuses it: {error}. Return plain values, or type hardware=auto."
        )
        return pickle.dumps(("raised", TypeError(text), *answer[2:]))


def sendable(error: Exception) -> Exception:
    """The error, or a RuntimeError with its text if pickling cannot send it."""
    try:
        pickle.loads(pickle.dumps(error))  # its constructor may need other arguments
        return error
    except Exception:
        plain = RuntimeError(f"{type(error).__name__}: {error}")
        plain.add_note("\n".join(error.__notes__))
        return plain


class Collect(logging.Handler):
    """Keeps logger, level and text of records for the parent, which shows them."""

    def __init__(self, records: list[tuple[str, int, str]]) -> None:
        super().__init__()
        self.records = records

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append((record.name, record.levelno, record.getMessage()))
