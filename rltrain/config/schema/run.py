"""Settings of a run and of the commands that work on runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from rltrain.common.number_types import Count, Envs, Flag, Positive, Probability, Real, Seed, Whole


@dataclass(frozen=True, kw_only=True)
class TestSettings:
    """The node ``test``: periodic tests."""

    interval: Count
    episodes: Count
    epsilon: Probability
    n_envs: Envs
    n_workers: Count | None
    env: dict[str, Any]
    function: str | dict[str, Any] | None
    video_interval: Count | None


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
    resamples: Count
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
class HubSettings:
    """The node ``hub``: where mode=push sends a run."""

    repo: str | None
    private: Flag


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """The top level of a configuration."""

    mode: Literal[
        "train", "evaluate", "watch", "push", "export", "import", "doctor", "list", "report", "tune"
    ]
    seed: Seed
    total_env_steps: Count
    test: TestSettings
    save: SaveSettings
    dataset: DatasetSettings
    log: LogSettings
    stop: StopSettings
    sweep: SweepSettings
    config: str | None
    checkpoint: str | None
    load_step: Whole | Literal["best", "all"] | None
    resume: str | None
    record: Flag
    trust: list[str]
    runs: str | None
    report: ReportSettings
    tune: TuneSettings
    hub: HubSettings
