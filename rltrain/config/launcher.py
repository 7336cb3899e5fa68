"""The launcher of a sweep's jobs on this machine, used where no other one is typed.

Hydra builds launchers of the package ``hydra_plugins`` only: this one is handed to its sweeper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, open_dict

Launch = Callable[[Sequence[tuple[Sequence[str], Path]]], None]
"""Runs jobs: the overrides of each, as those of a single run, and its folder."""


SEARCH_PATH = "hydra.searchpath"


def own_overrides(hydra: Any) -> list[str]:
    """The overrides of a sweep that name folders of the user's own; every job has them."""
    return [word for word in hydra.overrides.hydra if word.startswith(SEARCH_PATH)]


class Processes(Launcher):
    """Composes the jobs, which gives each its folder, and has ``run`` run them as processes."""

    def __init__(self, run: Launch) -> None:
        self.run = run

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        self.context, self.config = hydra_context, config

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        jobs = []
        for number, overrides in enumerate(job_overrides, initial_job_idx):
            config = self.context.config_loader.load_sweep_config(self.config, list(overrides))
            with open_dict(config):
                config.hydra.job.id = f"{initial_job_idx}_{number}"
                config.hydra.job.num = number
            HydraConfig.instance().set_config(config)
            sweep = config.hydra.sweep
            words = [*overrides, *own_overrides(config.hydra)]
            jobs.append((words, Path(sweep.dir) / sweep.subdir))
        self.run(jobs)
        return [JobReturn(overrides=o, status=JobStatus.COMPLETED) for o in job_overrides]
