"""Rollouts in worker processes: what a worker is made of, and the rollout that joins the workers.

The fork server of the workers imports this module once.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from rltrain.algo.exploration.interface import Exploration, ExplorationOfShare
from rltrain.algo.learner import Learner
from rltrain.assemble.build_learner import build_agents
from rltrain.assemble.build_opponents import build_opponents
from rltrain.assemble.env import build_env, closed_unless_built
from rltrain.assemble.rollouts import (
    build_exploration,
    build_rollout,
    build_test_rollout,
    n_test_envs,
)
from rltrain.common.machine.install import require_extra
from rltrain.common.seeding import NOISE_STREAM, seed_key
from rltrain.common.spec_record import changes
from rltrain.config.combinations import require_fit
from rltrain.config.schema import Settings
from rltrain.errors import EnvError, UsageError
from rltrain.hardware.device import available_cores, set_allocator_policy, set_threads
from rltrain.hardware.env_share import Share, split_envs
from rltrain.hardware.process.process import WorkerProcess
from rltrain.hardware.process.rollout import ProcessRollout, RunExchange
from rltrain.hardware.process.shared_memory import SharedExchange
from rltrain.hardware.process.supervision import StartWorker, Supervision
from rltrain.hardware.process.tests import ProcessTests
from rltrain.hardware.rollout import Rollout
from rltrain.hardware.steps import step_layout
from rltrain.interfaces import Agents, Buffer, VectorEnv
from rltrain.types import EnvSpec

ADVICE = (
    "With hardware=auto the environments run in this process, where the error has its traceback; "
    "env.timeout is the number of seconds after which a step counts as hung, hardware.max_restarts "
    "the number of workers that are replaced within an hour."
)
TEST_ADVICE = (
    "With test.n_workers=null the episodes of tests are played in this process, where the error "
    "has its traceback."
)
MOST_PER_CORE = 8
"""More workers than this on one core only wait for each other, even if their environments sleep."""
TEST_TIMEOUT, TEST_RESTARTS = 60.0, 20
"""Limits of test workers where ``hardware`` has no ``env.timeout`` and ``max_restarts``."""


def build_process_rollout(
    settings: Settings, env: VectorEnv, learner: Learner, buffer: Buffer, exploration: Exploration
) -> ProcessRollout:
    """The environments of training in worker processes.

    Args:
        env: one of them, for its sizes; it is closed.
        exploration: of this process, which follows that of the workers.

    Raises:
        ValueError: settings that do not fit together, or an environment that cannot be sent.
    """
    workers, hardware = settings.workers, settings.hardware
    assert workers is not None
    assert settings.supervision is not None
    if settings.cluster is not None:
        require_extra("ray", "ray", "hardware=ray")
    cores = available_cores() if settings.cluster is None else None
    check_number(settings, workers.n_workers, hardware.n_envs, "hardware", cores)
    require_fit("workers", settings, replay=buffer)
    ExplorationOfShare(exploration, first=0, total=hardware.n_envs)
    keeps = {"keeps_hidden": buffer.keeps_hidden, "keeps_values": buffer.keeps_values}
    make = partial(make_rollout, sendable(settings), keeps, env.spec)
    shares = split_envs(hardware.n_envs, workers.n_workers)
    agents = learner.online.agents
    exchange: RunExchange
    start_worker: StartWorker
    if settings.cluster is None:
        n_steps, n_agents = settings.learning.time_steps(hardware.n_envs), env.spec.n_agents
        layout, shape = step_layout(env, n_steps, hardware.n_envs), (n_steps, hardware.n_envs)
        if buffer.keeps_hidden:
            layout["hidden"] = (*shape, n_agents, agents.hidden_dim), np.dtype(np.float32)
        if buffer.keeps_values:
            layout["values"] = (*shape, n_agents, 2), np.dtype(np.float32)
        exchange = shared = SharedExchange(layout, agents, len(shares))
        start_worker = partial(WorkerProcess, __name__, make, shared)
    else:
        from rltrain.hardware.ray.cluster import RayExchange, WorkerActor, connect

        cpus, resources = settings.cluster.worker_cpus, settings.cluster.worker_resources
        each = {"CPU": cpus, **resources}
        connect(settings.cluster.address, {name: len(shares) * n for name, n in each.items()})
        exchange = messages = RayExchange(len(shares))
        start_worker = partial(WorkerActor, make, messages, cpus, resources)
    return ProcessRollout(
        workers=Supervision(
            start_worker,
            shares,
            timeout=settings.supervision.timeout,
            max_restarts=workers.max_restarts,
            advice=ADVICE,
        ),
        exchange=exchange,
        env=env,
        agents=agents,
        overlap=workers.overlap,
        exploration=exploration,
    )


@closed_unless_built()
def make_rollout(
    settings: Settings, keeps: Mapping[str, bool] | None, spec: EnvSpec, share: Share, replaced: int
) -> tuple[Rollout, Agents]:
    """Run in a worker: its rollout, and the agents that act in it.

    Args:
        keeps: keywords of ``Rollout``: what it records besides the steps; None: it plays tests.
        spec: of the run's environments.
        replaced: workers that were replaced before; the random numbers then differ.
    """
    set_threads(1)
    set_allocator_policy()
    training = keeps is not None
    if training:
        torch.manual_seed(seed_key(settings.run.seed, NOISE_STREAM, share.first, replaced))
    try:
        env = build_env(settings, share.n_envs, training=training)
    except ValueError as error:  # the run could make one: it is this process that cannot
        raise EnvError(str(error)) from error
    if changed := changes(env.spec.record, spec.record):
        raise UsageError(
            f"A worker process made environments with different spaces from the run ({changed} in "
            "the run). Their module may have changed meanwhile: start the run again."
        )
    agents = build_agents(settings, env.spec)
    if keeps is None:
        opponents = build_opponents(settings, env, training=False, share=share)
        return build_test_rollout(settings, agents, env, share, opponents), agents
    exploration = build_exploration(settings)
    rollout = build_rollout(
        settings, env, agents, exploration, share=share, replaced=replaced, keeps=keeps
    )
    return rollout, agents


def build_process_tests(
    settings: Settings, agents: Agents, env: VectorEnv, *, watched: bool = False
) -> ProcessTests:
    """Test episodes in worker processes.

    Args:
        env: one of their environments, for its sizes; it is closed.
        watched: a callback wants to see their steps.

    Raises:
        ValueError: settings that do not fit together, or an environment that cannot be sent.
    """
    test, workers = settings.run.test, settings.workers
    assert test.n_workers is not None
    require_fit("few tests", settings)
    check_number(settings, test.n_workers, test.n_envs, "test", available_cores())
    require_fit("tests", settings, watched=watched)
    make = partial(make_rollout, sendable(settings), None, env.spec)
    exchange = SharedExchange({}, agents, test.n_workers)
    return ProcessTests(
        workers=Supervision(
            partial(WorkerProcess, __name__, make, exchange),
            split_envs(n_test_envs(settings), test.n_workers),
            timeout=TEST_TIMEOUT if settings.supervision is None else settings.supervision.timeout,
            max_restarts=TEST_RESTARTS if workers is None else workers.max_restarts,
            advice=TEST_ADVICE,
        ),
        exchange=exchange,
        env=env,
        agents=agents,
    )


def check_number(
    settings: Settings, n_workers: int, n_envs: int, node: str, cores: int | None
) -> None:
    """ValueError for workers that do not fit environments or cores (None: of other machines)."""
    require_fit(
        "number of workers",
        settings,
        node=node,
        n_workers=n_workers,
        n_envs=n_envs,
        typed=f"{node}.n_workers" in settings.typed,
        cores=cores,
        per_core=MOST_PER_CORE,
        most=None if cores is None else MOST_PER_CORE * cores,
    )


def sendable(settings: Settings) -> Settings:
    """The settings that workers need, with one thread, on the CPU.

    Raises:
        ValueError: the environment was passed as an object and cannot be sent to another process.
    """
    hardware = replace(settings.hardware, threads=1, device="cpu")
    sent = replace(settings, hardware=hardware, callbacks=())
    maker, reason = str(settings.nodes["env"].kwargs.get("maker", "")), ""
    try:
        pickle.dumps(sent)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        reason = str(error)
    if maker.startswith("__main__:"):
        reason = "it is defined in the script itself, which workers do not run"
    if reason:
        raise ValueError(
            f"The environment {maker} cannot be sent to worker processes: {reason}. Define its "
            "class or factory at the top level of a module and import it, or type hardware=auto."
        )
    return sent
