"""Workers as actors of a Ray cluster: start them, exchange messages, end them.

Weights are put into the object store once for every broadcast, and only the newest are kept; steps
are in the answers, which are freed once they are read. The store therefore holds one copy of the
weights on every node and one answer of every worker.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch import nn

from rltrain.common.imports import import_path
from rltrain.errors import SIGNAL_CODES, Interrupted, UsageError
from rltrain.hardware.device import available_cores
from rltrain.hardware.env_share import Share
from rltrain.hardware.process.process import POLL, WorkerLost
from rltrain.hardware.process.worker import Answer, Answers, Beginning

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # read when Ray is imported
os.environ.setdefault("RAY_worker_niceness", "0")  # … is started here; 15 would starve the workers
import ray
from ray.exceptions import GetTimeoutError, RayError

log = logging.getLogger("rltrain")
Arrays = Mapping[str, np.ndarray]
ANSWER_TIMEOUT = 10.0
"""Seconds in which a cluster must answer."""


def connect(address: str | None, asked: Mapping[str, float]) -> None:
    """Join the cluster at this address, or start Ray on this machine.

    Args:
        asked: CPUs and other resources that the workers ask for together. Ray on this machine has
            as many, even if they are more than its cores; a cluster without them is reported.

    Raises:
        UsageError: there is no cluster.
    """
    needed = {"CPU": 0.0, **asked}
    if not ray.is_initialized():
        handler = signal.getsignal(signal.SIGTERM)  # Ray sets others, which exit at once
        try:
            if address is None or address == "local":
                ray.init(
                    address="local",
                    num_cpus=max(math.ceil(needed["CPU"]), available_cores()),
                    resources={name: n for name, n in needed.items() if name != "CPU"},
                    include_dashboard=False,
                    **job_options(),
                )
            else:
                if address != "auto":  # Ray itself would try for many minutes
                    host, _, port = address.removeprefix("ray://").rpartition(":")
                    socket.create_connection((host, int(port)), ANSWER_TIMEOUT).close()
                ray.init(address=address, **job_options())
        except (OSError, ValueError) as error:
            raise UsageError(
                f"hardware.address={address}: no Ray cluster answers there "
                f"({str(error).splitlines()[0]}). Type hardware.address=HOST:6379, which 'ray "
                "start --head' shows, hardware.address=auto on a node of the cluster, or "
                "hardware.address=null to start Ray on this machine."
            ) from error
        except SystemExit as ended:
            raise KeyboardInterrupt(SIGNAL_CODES["SIGTERM"]) from ended
        finally:
            with suppress(TypeError, ValueError):  # in a thread Ray sets none
                signal.signal(signal.SIGTERM, handler)
    there = ray.cluster_resources()
    lacking = [
        f"{amount:g} {name} (there: {there.get(name, 0):g})"
        for name, amount in needed.items()
        if amount > there.get(name, 0)
    ]
    if lacking:
        log.warning(
            "all workers together ask the cluster for %s: those without room wait for nodes that "
            "join it. Lower hardware.n_workers, hardware.worker_cpus or worker_resources.",
            ", ".join(lacking),
        )


def job_options() -> dict[str, Any]:
    """Options of Ray. Its workers import modules from where this process does, which Ray would have
    them look for in the current folder first.
    """
    job = ray.job_config.JobConfig(_client_job=bool(import_path()))
    return {"log_to_driver": False, "logging_level": logging.WARNING, "job_config": job}


class SentExchange:
    """A worker's side: weights come with the questions, steps go with the answers."""

    def __init__(self) -> None:
        self.weights: Arrays = {}
        self.seconds = np.zeros(2)

    def read(self, agents: nn.Module) -> None:
        arrays = self.weights.items()
        agents.load_state_dict({name: torch.from_numpy(np.array(a)) for name, a in arrays})

    def write(self, fields: Arrays, share: Share) -> tuple[int, Arrays, np.ndarray]:
        seconds = self.seconds.copy()
        self.seconds[:] = 0
        return share.number, fields, seconds

    def worker_seconds(self, share: Share) -> np.ndarray:
        return self.seconds


class RayWorker(Answers):
    """A worker on the cluster, in the folder of the run if its node has that, for typed modules."""

    def __init__(self, folder: str, *about: Any) -> None:
        with suppress(OSError):
            os.chdir(folder)
        self.sent = SentExchange()
        super().__init__(self.sent, *about)

    def ask(self, weights: Arrays | None, *question: Any) -> Answer:
        """The answer to a question; ``weights`` are those to act with from now on."""
        if weights is not None:
            self.sent.weights = weights
        return self(*question)


class RayExchange:
    """The side of the run: weights in the object store, steps from answers."""

    def __init__(self, n_workers: int) -> None:
        self.seconds = np.zeros((n_workers, 2))
        self.weights: Any = None  # a reference; the weights before it are freed

    def publish(self, agents: nn.Module) -> None:
        tensors = agents.state_dict()
        self.weights = ray.put({name: t.cpu().numpy().copy() for name, t in tensors.items()})

    def joined(
        self, n_steps: int, parts: Sequence[tuple[int, Arrays, np.ndarray]]
    ) -> dict[str, np.ndarray]:
        for number, _, seconds in parts:
            self.seconds[number] += seconds
        names = parts[0][1]
        return {name: np.concatenate([fields[name] for _, fields, _ in parts], 1) for name in names}


class WorkerActor:
    """An actor and the reference to its next answer.

    Args:
        make, exchange: of the run.
        cpus, resources: that the actor asks the cluster for.
        begin: argument of ``Answers``.
    """

    def __init__(
        self,
        make: Any,
        exchange: RayExchange,
        cpus: float,
        resources: Mapping[str, float],
        begin: Beginning,
    ) -> None:
        self.exchange = exchange
        asked = {"num_cpus": cpus, "resources": dict(resources), "scheduling_strategy": "SPREAD"}
        remote: Any = ray.remote(max_restarts=0)(RayWorker).options(**asked)
        self.actor = remote.remote(os.getcwd(), make, begin)
        self.answer: Any = self.actor.ask.remote(None, "start")
        self.owes, self.n_steps = True, 1  # an answer, and the steps that it takes
        self.closed: Any = None

    def send(self, *question: Any) -> None:
        self.n_steps = question[1] if question[0] == "collect" else 1
        self.answer, self.owes = self.actor.ask.remote(self.exchange.weights, *question), True

    def receive(self, timeout: float, stop: Callable[[], bool] = lambda: False) -> Answer:
        """The next answer; an actor does not show its progress, so it has the time of all steps."""
        timeout *= self.n_steps
        until = time.monotonic() + timeout
        try:
            while not ray.wait([self.answer], timeout=POLL)[0]:
                if stop():
                    raise Interrupted
                if time.monotonic() > until:
                    raise WorkerLost(f"it did not answer within {timeout:g} seconds")
            answer: Answer = ray.get(self.answer, timeout=timeout)
        except GetTimeoutError as error:
            raise WorkerLost("its answer did not arrive") from error
        except RayError as error:
            raise WorkerLost(f"{type(error).__name__}: {str(error).splitlines()[0]}") from error
        self.answer, self.owes = None, False  # frees the answer in the object store
        return answer

    def close(self) -> None:
        if ray.is_initialized():
            self.closed = self.actor.close.remote()

    def kill(self, timeout: float = 0.0) -> None:
        if not ray.is_initialized():
            return
        if self.closed is not None and timeout:
            ray.wait([self.closed], timeout=timeout)
        ray.kill(self.actor)
