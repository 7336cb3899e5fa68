"""Memory that this process may still use: what the machine has free, or less in a container."""

from __future__ import annotations

from pathlib import Path

import psutil
from rich.filesize import decimal

SHARE = 0.6
"""Share of the free memory that a buffer may fill where ``max_bytes`` is null."""
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


def memory_cap(max_bytes: int | None) -> int:
    """Bytes that a buffer may use; null = a share of the memory that is free now."""
    return int(SHARE * available_memory()) if max_bytes is None else max_bytes


def require_memory(needed: int, capacity: int) -> None:
    """Refuse a buffer of ``needed`` bytes that this machine cannot hold.

    Raises:
        ValueError: with what it needs, what there is and what to type.
    """
    free = available_memory()
    if needed <= free:
        return
    share = SHARE * free / needed
    raise ValueError(
        f"The buffer may grow to {decimal(needed, precision=2)} (buffer.capacity={capacity}), but "
        f"{decimal(free, precision=2)} of memory are free here: set "
        f"buffer.capacity={max(int(share * capacity), 1)} or less, or "
        f"buffer.max_bytes={int(SHARE * free)}, or buffer.precision=float16."
    )
