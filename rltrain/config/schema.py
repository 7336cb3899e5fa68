"""The typed form of a configuration: its settings, and the nodes that parts are built from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from rltrain.common.checkpoint.opponent_files import BUILTIN
from rltrain.common.files import JsonObject
from rltrain.common.number_types import (
    Count,
    Envs,
    Flag,
    NonNegative,
    Positive,
    Probability,
    Real,
    Resamples,
    Threads,
    Whole,
)
from rltrain.config.node import Node


@dataclass(frozen=True, kw_only=True)
class TestSettings:
    """The node ``test``: periodic tests."""

    interval: Count
    episodes: Count
    epsilon: Probability
    resample: Flag
    n_envs: Envs
    n_workers: Count | None
    opponent: str
    env: dict[str, Any]
    function: str | dict[str, Any] | None
    video_interval: Count | None
    record: Flag | Literal["video", "html"]


@dataclass(frozen=True, kw_only=True)
class SaveSettings:
    """The node ``save``: checkpoints."""

    interval: Count
    keep_last: Count
    replay_buffer: Flag


@dataclass(frozen=True, kw_only=True)
class DatasetSettings:
    """The node ``dataset``: recording and offline training."""

    write: str | None
    shard_bytes: Count
    max_bytes: Count | None
    read: str | None
    held_out: Probability


@dataclass(frozen=True, kw_only=True)
class SelfPlaySettings:
    """The node ``self_play``: snapshots that play against the agents with env.opponent=self."""

    pool_size: Count
    interval: Count
    sampling: Literal["uniform", "latest", "prioritized"]


@dataclass(frozen=True, kw_only=True)
class LogSettings:
    """The node ``log``."""

    interval: Count


@dataclass(frozen=True, kw_only=True)
class StopSettings:
    """The node ``stop``: when a run ends early."""

    metric: str | None
    mode: Literal["max", "min"]
    value: Real | None
    hours: Positive | None


@dataclass(frozen=True, kw_only=True)
class SweepSettings:
    """The node ``sweep``: how the runs of -m are run; no run's own record has it."""

    jobs: Count | Literal["auto"]
    batch_seeds: Flag
    retries: Whole
    fail_fast: Flag


@dataclass(frozen=True, kw_only=True)
class ReportSettings:
    """The node ``report``: statistics over runs."""

    dir: str | None
    metric: str
    axis: Literal["env_steps", "updates", "minutes"]
    statistic: Literal["mean", "iqm"]
    confidence: Annotated[Positive, Field(lt=1)]
    resamples: Resamples
    last_tests: Count
    normalize: Literal["none", "min_max", "ranges"]
    ranges: dict[str, list[Real]]
    ignore: list[str]
    rename: list[str]
    unfinished: Flag


@dataclass(frozen=True, kw_only=True)
class TuneSettings:
    """The node ``tune``: hyperparameter search."""

    space: list[dict[str, Any]] | None
    trials: Count
    jobs: Count
    metric: str
    mode: Literal["max", "min"]
    last_tests: Count
    sampler: Literal["tpe", "gp", "random"]
    pruner: Literal["median", "successive_halving", "hyperband", "none"]
    dir: str | None


@dataclass(frozen=True, kw_only=True)
class MatchSettings:
    """The node ``match``: battles of agents against each other."""

    battles: Count


@dataclass(frozen=True, kw_only=True)
class InitSettings:
    """The node ``init``."""

    folder: str


@dataclass(frozen=True, kw_only=True)
class HubSettings:
    """The node ``hub``: where mode=push sends a run."""

    repo: str | None
    private: Flag


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """The top level of a configuration."""

    mode: Literal[
        "train",
        "evaluate",
        "watch",
        "push",
        "export",
        "import",
        "init",
        "doctor",
        "list",
        "report",
        "tune",
        "match",
    ]
    seed: Whole
    name: Annotated[str, Field(pattern=r"^\w[\w.-]{0,80}$")] | None
    total_env_steps: Count
    test: TestSettings
    save: SaveSettings
    dataset: DatasetSettings
    self_play: SelfPlaySettings
    log: LogSettings
    stop: StopSettings
    sweep: SweepSettings
    config: str | None
    checkpoint: str | None
    load_step: Whole | Literal["best", "all"] | None
    resume: str | None
    record: Flag | Literal["video", "html"]
    trust: list[str]
    runs: str | None
    checkpoints: str | None
    report: ReportSettings
    tune: TuneSettings
    match: MatchSettings
    init: InitSettings
    hub: HubSettings


MOST_TIME_STEPS = 64
"""Most time steps in one iteration, where their number is automatic."""


@dataclass(frozen=True, kw_only=True)
class AlgoSettings:
    """The scalars of the node ``algo``."""

    batch_size: Count
    steps_per_collect: Count | Literal["auto"]
    updates_per_episode: Positive | None
    updates_per_env_step: Positive | None
    learning_starts: Whole
    max_grad_norm: Positive | None
    lr_factors: list[list[NonNegative]] | None
    reward_norm: Literal["scale", "standardize"] | None

    def time_steps(self, n_envs: int) -> int:
        """Time steps per iteration; automatically as many as one gradient step needs."""
        if self.steps_per_collect != "auto":
            return self.steps_per_collect
        per_step = Fraction(str(self.updates_per_env_step or 1)) * n_envs
        return min(math.ceil(1 / per_step), MOST_TIME_STEPS)


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
class OpponentSettings:
    """The keys of the node ``env`` of environments with two sides."""

    opponent: str
    opponents: dict[str, Positive] | None
    opponent_epsilon: Probability

    @property
    def weights(self) -> Mapping[str, float]:
        """Who plays the other side in training, as typed, and how often."""
        return self.opponents or {self.opponent: 1.0}


@dataclass(frozen=True, kw_only=True)
class LoggerSettings:
    """The node ``logger``."""

    console: Flag


def scenario(env: Mapping[str, object], keys: Iterable[str]) -> str:
    """The first of these options that is set: a name, the path of a file, or names."""
    found = next((env[key] for key in keys if env.get(key)), "")
    return ",".join(map(str, found)) if isinstance(found, list) else str(found)


OF_COMMANDS = ("sweep", "report", "match", "init", "hub")
"""Nodes that concern a command rather than a run: a run's own record does not have them."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A checked configuration. ``plain`` is its JSON form, with the converted values; ``typed`` are
    the dotted keys whose values differ from those of the chosen groups.
    """

    run: RunSettings
    algo: AlgoSettings | None  # None: a scripted policy, built from the node "algo"
    hardware: HardwareSettings
    workers: WorkerSettings | None  # None: the environments run in this process
    cluster: ClusterSettings | None  # None: workers are processes of this machine
    ranks: RankSettings | None  # None: one process learns
    supervision: SupervisionSettings | None
    opponents: OpponentSettings | None  # None: the environment has one side
    logger: LoggerSettings
    nodes: Mapping[str, Node]
    callbacks: tuple[Node, ...]
    choices: Mapping[str, str]
    plain: Mapping[str, Any]
    remarks: tuple[str, ...] = ()  # what the user should know about the choices
    env_chose_algo: bool = False  # no algorithm was typed: it is the one of the environment's file
    typed: frozenset[str] = frozenset()
    agent_order: tuple[str, ...] = ()  # of a team's agents, if it is known
    opponent_folders: Mapping[str, Path] = field(default_factory=dict)  # checkpoints, as typed
    resumes_from: Path | None = None  # the checkpoints/ of the run that is resumed

    def opponent_weights(self, *, training: bool) -> Mapping[str, float]:
        """Who plays the other side in training or in tests, as typed, and how often."""
        if not training:
            return {self.run.test.opponent: 1.0}
        if self.opponents is None:
            return {BUILTIN: 1.0}
        return self.opponents.weights

    def is_two_sided(self, *, training: bool) -> bool:
        """Whether anything but the environment plays its other side."""
        return set(self.opponent_weights(training=training)) != {BUILTIN}

    @property
    def learning(self) -> AlgoSettings:
        """The scalars of ``algo``, of a run that learns."""
        assert self.algo is not None, "check() refuses to train what does not learn"
        return self.algo

    @property
    def title(self) -> str:
        """``qmix on smac 3m, seed 0``, ``scripted closest on smac 3m, seed 0``."""
        env, scripted = self.nodes["env"].kwargs, self.nodes.get("algo")
        preset = self.choices["env"] not in ("gymnasium", "pettingzoo", "lbf", "rware", "own")
        keys = ("maps", "map_file", "map_name", "game") if preset else ("maker", "id")
        name = f"{self.choices['env']} {Path(scenario(env, keys)).name}".rstrip()
        algo = self.choices["algo"] + (f" {scripted.kwargs['policy']}" if scripted else "")
        return f"{algo} on {name}, seed {self.run.seed}"

    @property
    def record(self) -> JsonObject:
        """``config.json``: what the run resolved to, and the chosen option of each group."""
        run = {key: value for key, value in self.plain.items() if key not in OF_COMMANDS}
        return {"choices": dict(self.choices), **run}
