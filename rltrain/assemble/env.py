"""Build environments, set threads and device, and record what is played."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import rltrain
from rltrain.common import checkpoint
from rltrain.common.conformance import conform
from rltrain.common.failures import closed_on_error
from rltrain.common.files import absolute_path
from rltrain.common.spec_record import require_spec
from rltrain.config.schema import Settings
from rltrain.errors import CheckpointError
from rltrain.hardware.device import available_cores, prepare_gpu, resolve_device, set_threads
from rltrain.hardware.rollout import ENVIRONMENT
from rltrain.interfaces import RolloutPolicy, VectorEnv
from rltrain.offline.dataset_recorder import RecordedEnv
from rltrain.offline.writer import Writer
from rltrain.types import SpecRecord


def prepare_machine(settings: Settings) -> torch.device:
    """Device and threads of this process, as set in ``hardware``.

    Raises:
        ValueError: ``hardware=cuda`` without a GPU, or Numba without its compiler.
    """
    if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        raise ValueError(
            "NUMBA_DISABLE_JIT is set, and rltrain needs Numba's compiler. Type unset "
            "NUMBA_DISABLE_JIT, then run the command again."
        )
    device = resolve_device(settings.hardware.device)
    set_threads(n_threads(settings))
    if device.type == "cuda":
        prepare_gpu()
    return device


def n_threads(settings: Settings) -> int:
    """Threads of PyTorch and the environments: as set, or 2 for recurrent networks and stacks of
    convolutions, 1 for others.
    """
    if settings.hardware.threads != "auto":
        return settings.hardware.threads
    network = settings.nodes.get("algo.network")
    keywords = {} if network is None else network.kwargs
    convolutions = len(keywords.get("filters") or ())
    return min(2 if "hidden_dim" in keywords or convolutions > 1 else 1, available_cores())


BUILT: ContextVar[list[VectorEnv]] = ContextVar("BUILT")
"""The environments of what is built now."""


@contextmanager
def closed_unless_built() -> Iterator[None]:
    """Context, or decorator, of what builds environments: those are closed if it raises."""
    made: list[VectorEnv] = []
    token = BUILT.set(made)
    try:
        with closed_on_error("an environment", made):
            yield
    finally:
        BUILT.reset(token)


def build_env(
    settings: Settings, n_envs: int, *, training: bool, scripted: bool = False
) -> VectorEnv:
    """Environments in lockstep, for training, tests or one of their scripted policies."""
    from rltrain.kernels.compilation import announce_compilation

    announce_compilation()
    run, node = settings.run, settings.nodes["env" if training else "test.env"]
    recorded = [run.record]
    if not training and run.test.video_interval is not None:
        recorded.append(run.test.record)
    two_sided = settings.is_two_sided(training=training)
    if two_sided and not node.asks_for("two_sided"):
        raise ValueError(
            f"{'env' if training else 'test'}.opponent needs an environment with two sides, and "
            f"env={settings.choices['env']} has one: type env=smac, env=smacv2 or env.team "
            "of env=pettingzoo, env=mpe or env=magent, or leave it out."
        )
    with ENVIRONMENT:
        env = node.build(
            n_envs=n_envs,
            n_threads=n_threads(settings),
            training=training,
            scripted=scripted,
            two_sided=two_sided,
            record=not {True, "video"}.isdisjoint(recorded),  # pages are drawn in a browser
        )
    if hasattr(env, "action_space") and not hasattr(env, "n_envs"):
        raise ValueError(
            f"{type(env).__name__} (env) is no VectorEnv of rltrain.interfaces: expected one of "
            f"{n_envs} environments. Type env=gymnasium env.id=module:function of a function that "
            "makes a single one, or pass that to rltrain.make_trainer(…, env=…)."
        )
    made = conform(env, VectorEnv, "env")
    BUILT.get([]).append(made)
    require_spec(made.spec, f"{type(env).__name__}.spec (env)")
    if settings.agent_order:
        made.order_agents(settings.agent_order)
    return made


def recorded(
    settings: Settings, env: VectorEnv, policy: RolloutPolicy, n_episodes: int | None = None
) -> Any:
    """The environment, with everything that is played in it written to ``dataset.write``.

    Args:
        n_episodes: keep only the first ``n_episodes``; None = all.
    """
    chosen = settings.run.dataset
    assert chosen.write is not None
    writer = Writer(
        folder=absolute_path(chosen.write),
        spec=env.spec,
        n_envs=env.n_envs,
        about={
            "version": rltrain.__version__,
            "played": f"{settings.run.mode}: {settings.title}",
            "algo": settings.choices["algo"],
            "env": settings.choices["env"],
            "spec": env.spec.record,
        },
        shard_bytes=chosen.shard_bytes,
        max_bytes=chosen.max_bytes,
        n_episodes=n_episodes,
    )
    at_once = settings.run.mode != "train"
    return RecordedEnv(env=env, policy=policy, writer=writer, at_once=at_once)


def ordered_as(settings: Settings, record: SpecRecord) -> Settings:
    """The settings whose environments have their agents in the order of a spec.

    Args:
        record: ``EnvSpec.record``, also as read from JSON; without names nothing changes.
    """
    try:
        names = tuple(str(name) for name, *_ in record["agents"] or ())
    except (KeyError, TypeError, ValueError):  # the comparison of the specs reports it
        return settings
    return replace(settings, agent_order=names) if names else settings


def ordered_as_saved(settings: Settings, folder: Path) -> Settings:
    """``ordered_as`` the spec of a checkpoint, if it can be read."""
    try:
        return ordered_as(settings, checkpoint.read(folder, checkpoint.SPEC))
    except CheckpointError:  # the restore reports it
        return settings
