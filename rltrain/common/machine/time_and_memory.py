"""What a run uses (wall-clock time and its shares, CPU time, memory), and what is left for it:
memory of the machine, or less in a container, and room on its disks.
"""

from __future__ import annotations

import os
import resource
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np
import psutil

from rltrain.common.number_types import saved_number

SHARE = 0.6
"""Share of the free memory or disk that a buffer may fill where ``max_bytes`` is null."""
LIMITS = (
    ("memory.max", "memory.current"),  # cgroup v2, then v1
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
)


class Usage:
    """Time and memory that a run has used, those before a resume included.

    CPU time is that of this process and of the child processes that it has waited for; worker
    processes of ``hardware=process`` and ``ray`` are not among them.
    """

    def __init__(self) -> None:
        self.seconds_before = self.cpu_seconds_before = 0.0
        self.peak_before = 0
        self.begin()

    def begin(self) -> None:
        """Count from now on."""
        self.begun, self.cpu_begun = time.monotonic(), cpu_seconds()

    @property
    def seconds(self) -> float:
        """Wall-clock seconds."""
        return self.seconds_before + time.monotonic() - self.begun

    def state_dict(self) -> dict[str, float]:
        """Wall-clock seconds, CPU seconds of all threads, user and system, and the most memory that
        this process has occupied at once.
        """
        return {
            "seconds": self.seconds,
            "cpu_seconds": self.cpu_seconds_before + cpu_seconds() - self.cpu_begun,
            "peak_memory_bytes": max(self.peak_before, peak_memory()),
        }

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        """Continue from ``state_dict``; ValueError for anything but its numbers."""
        self.seconds_before = saved_number("usage.seconds", state["seconds"], 0.0)
        self.cpu_seconds_before = saved_number("usage.cpu_seconds", state["cpu_seconds"], 0.0)
        self.peak_before = saved_number("usage.peak_memory_bytes", state["peak_memory_bytes"])
        self.begin()


def cpu_seconds() -> float:
    """CPU seconds of this process so far, its threads and the children that it has waited for."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def peak_memory(status: Path = Path("/proc/self/status")) -> int:
    """The largest resident set of this process so far, in bytes.

    Linux's own account begins with the program; ``getrusage``, used elsewhere, may begin with the
    process that started it.
    """
    try:
        lines = status.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


Part = Literal["collecting", "sampling", "learning", "other"]


class Stopwatch:
    """Wall-clock seconds in the parts of a training loop, as shares since they were last taken."""

    def __init__(self) -> None:
        self.seconds: dict[Part, float] = {}
        self.at = self.begun = time.perf_counter()
        self.collected = np.zeros(2)

    def lap(self, part: Part) -> None:
        """The time since the last call went to ``part``."""
        now = time.perf_counter()
        self.seconds[part] = self.seconds.get(part, 0.0) + now - self.at
        self.at = now

    def take(self, collecting: np.ndarray) -> dict[str, float]:
        """The shares of the time since the last call, by name.

        Args:
            collecting: [..., 2] seconds of rollouts, acting and in environments, in all. Their
                ratio divides the time that training spent collecting, or waiting for it.
        """
        now, collected = time.perf_counter(), collecting.reshape(-1, 2).sum(0)
        passed = max(now - self.begun, 1e-9)
        spent = collected - self.collected
        acting = spent[0] / max(spent.sum(), 1e-9)
        share = {part: seconds / passed for part, seconds in self.seconds.items()}
        self.seconds, self.begun, self.collected = {}, now, collected
        return {
            "acting_share": float(share.get("collecting", 0.0) * acting),
            "env_share": float(share.get("collecting", 0.0) * (1 - acting)),
            "sampling_share": share.get("sampling", 0.0),
            "learning_share": share.get("learning", 0.0),
        }


def available_memory(groups: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes that can be used without swapping: what the machine has free, or what is left below
    the limit of this process's control group.

    Args:
        groups: where the control groups are mounted; inside a container its own is the root.
    """
    free = int(psutil.virtual_memory().available)
    for limit_file, usage_file in LIMITS:
        try:
            limit = (groups / limit_file).read_text().strip()
            usage = int((groups / usage_file).read_text())
        except (OSError, ValueError):
            continue
        if limit.isdigit():  # "max": no limit
            free = min(free, max(int(limit) - usage, 0))
    return free


def free_disk(folder: Path) -> int:
    """Bytes that the files of a folder, which need not be there, may have: those of its files, and
    what its disk has free.
    """
    files = list(folder.iterdir()) if folder.is_dir() else []
    while not folder.exists():
        folder = folder.parent
    return sum(file.lstat().st_blocks * 512 for file in files) + shutil.disk_usage(folder).free
