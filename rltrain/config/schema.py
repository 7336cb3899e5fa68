"""The typed form of a configuration: settings of the run and of the groups, and what a ``_target_``
node builds.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rltrain.common.number_types import (
    Count,
    Flag,
    NonNegative,
    Positive,
    Probability,
    Real,
    Whole,
)
from rltrain.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class TestSettings:
    interval: Count
    episodes: Count
    epsilon: Probability
    n_envs: Count
    env: dict[str, Any]
    function: str | dict[str, Any] | None


@dataclass(frozen=True, kw_only=True)
class SaveSettings:
    interval: Count
    keep_last: Count
    replay_buffer: Flag


@dataclass(frozen=True, kw_only=True)
class DatasetSettings:
    write: str | None
    shard_bytes: Count
    max_bytes: Count | None
    read: str | None
    held_out: Probability


@dataclass(frozen=True, kw_only=True)
class LogSettings:
    interval: Count


@dataclass(frozen=True, kw_only=True)
class StopSettings:
    metric: str | None
    value: Real | None
    hours: Positive | None


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    mode: Literal["train", "evaluate", "doctor"]
    seed: Whole
    total_env_steps: Count
    test: TestSettings
    save: SaveSettings
    dataset: DatasetSettings
    log: LogSettings
    stop: StopSettings
    checkpoint: str | None
    load_step: Whole | None
    resume: str | None
    record: Flag
    trust: list[str]


@dataclass(frozen=True, kw_only=True)
class AlgoSettings:
    batch_size: Count
    steps_per_collect: Count
    updates_per_episode: Positive | None
    updates_per_env_step: Positive | None
    learning_starts: Whole
    max_grad_norm: Positive | None
    lr_schedule: list[list[NonNegative]] | None


@dataclass(frozen=True, kw_only=True)
class HardwareSettings:
    device: Literal["auto", "cpu", "cuda"]
    threads: Count | None
    n_envs: Count


@dataclass(frozen=True, kw_only=True)
class LoggerSettings:
    console: Flag
    wandb: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Node:
    """A checked ``_target_`` node: what to call, with which keywords."""

    path: str
    target: str
    kwargs: Mapping[str, Any]

    def build(self, **facts: Any) -> Any:
        """Call the target with its keywords, completed by those facts that it asks for."""
        call = locate(self.target)
        wanted = inspect.signature(call).parameters
        return call(**self.kwargs, **{k: v for k, v in facts.items() if k in wanted})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A checked configuration. ``plain`` is its JSON form, with the converted values."""

    run: RunSettings
    algo: AlgoSettings | None  # None: a player that learns nothing, built from the node "algo"
    hardware: HardwareSettings
    logger: LoggerSettings
    nodes: Mapping[str, Node]
    callbacks: tuple[Node, ...]
    choices: Mapping[str, str]
    plain: Mapping[str, Any]


def locate(target: str) -> Callable[..., Any]:
    """The class or function that a ``_target_`` names.

    Raises:
        UsageError: no such module or name.
    """
    module, _, name = target.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(
            f"_target_ '{target}' cannot be found ({error}). Expected the full name of a class "
            "or function, such as rltrain.algo.QMix."
        ) from error
    return found
