"""Memory that this process may still use: what the machine has free, or less in a container; and
room on its disks.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import psutil

SHARE = 0.6
"""Share of the free memory or disk that a buffer may fill where ``max_bytes`` is null."""
LIMITS = (
    ("memory.max", "memory.current"),  # cgroup v2, then v1
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
)


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
