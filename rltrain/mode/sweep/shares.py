"""How the cores or GPUs of a machine are divided among the jobs of a sweep."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from rltrain.assemble.env import n_threads
from rltrain.config.schema import Settings
from rltrain.hardware.device import available_cores


@dataclass(frozen=True)
class Shares:
    """The threads and GPUs that every job gets.

    Attributes:
        at_once: jobs that run side by side.
        gpus: identifiers of the GPUs, which jobs take in turn; empty on the CPU.
        threads: at most this many per job.
    """

    at_once: int
    gpus: tuple[str, ...]
    threads: int

    def overrides(self, settings: Settings) -> list[str]:
        """The threads of a job, where it would take more than its share by itself."""
        typed = settings.hardware.threads != "auto"
        return [] if typed or n_threads(settings) <= self.threads else [f"{THREADS}={self.threads}"]

    def environment(self, slot: int) -> dict[str, str]:
        """Environment variables of the job that takes place ``slot``."""
        return {VISIBLE: self.gpus[slot % len(self.gpus)]} if self.gpus else {}


THREADS = "hardware.threads"
VISIBLE = "CUDA_VISIBLE_DEVICES"


def shares(jobs: int | Literal["auto"], settings: Sequence[Settings]) -> Shares:
    """Divide this machine.

    Args:
        jobs: ``sweep.jobs``; ``auto`` is one job per GPU, or as many as there are cores for the
            typed threads.
        settings: of every job.
    """
    gpus = visible_gpus() if any(s.hardware.device != "cpu" for s in settings) else ()
    cores = available_cores()
    numbers = [s.hardware.threads for s in settings]
    typed = max(1 if n == "auto" else n for n in numbers)
    fit = len(gpus) or max(1, cores // typed)
    at_once = min(len(settings), fit if jobs == "auto" else jobs)
    return Shares(at_once, gpus, max(1, cores // at_once))


def visible_gpus() -> tuple[str, ...]:
    """The GPUs that this process may use, as ``CUDA_VISIBLE_DEVICES`` names them."""
    if not torch.cuda.is_available():
        return ()
    named = os.environ.get(VISIBLE)
    listed = named.split(",") if named else map(str, range(torch.cuda.device_count()))
    return tuple(name.strip() for name in listed)
