"""Settings of the config groups: plain numbers beside their ``_target_`` nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rltrain.common.number_types import Count, Envs, Flag, NonNegative, Positive, Threads, Whole


@dataclass(frozen=True, kw_only=True)
class AlgoSettings:
    """The scalars of the node ``algo``."""

    batch_size: Count
    steps_per_collect: Count
    updates_per_episode: Positive | None
    updates_per_env_step: Positive | None
    learning_starts: Whole
    max_grad_norm: Positive | None
    lr_factors: list[list[NonNegative]] | None
    reward_norm: Literal["scale", "standardize"] | None


@dataclass(frozen=True, kw_only=True)
class HardwareSettings:
    """The node ``hardware``."""

    device: Literal["auto", "cpu", "cuda"]
    threads: Threads | Literal["auto"]
    kernels: Literal["auto", "compiled", "torch"]
    target_cache: Count | None
    n_envs: Envs


@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """The keys of the node ``hardware`` that ``hardware=process`` adds."""

    n_workers: Count
    overlap: Flag
    max_restarts: Whole


@dataclass(frozen=True, kw_only=True)
class ClusterSettings:
    """The keys of the node ``hardware`` that ``hardware=ray`` adds to those of workers."""

    address: str | None
    worker_cpus: NonNegative
    worker_resources: dict[str, NonNegative]


@dataclass(frozen=True, kw_only=True)
class RankSettings:
    """The key of the node ``hardware`` that ``hardware=ddp`` adds."""

    rank_timeout: Positive


@dataclass(frozen=True, kw_only=True)
class SupervisionSettings:
    """The key of the node ``env`` that ``hardware=process`` adds."""

    timeout: Positive


@dataclass(frozen=True, kw_only=True)
class LoggerSettings:
    """The node ``logger``."""

    console: Flag
