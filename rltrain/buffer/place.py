"""Where a buffer stores its steps, in memory or on disk, and whether they fit there."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from rich.filesize import decimal

from rltrain.buffer.disk_store import DiskStore
from rltrain.buffer.store import Store
from rltrain.common.files import absolute_path, require_empty
from rltrain.common.machine.places import require_writable, unique_name
from rltrain.common.machine.time_and_memory import SHARE, available_memory, free_disk
from rltrain.common.number_types import Count

log = logging.getLogger("rltrain")


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a buffer stores its steps, and how many bytes it may use there.

    Raises:
        UsageError: the folder cannot be written, or holds something else.
    """

    max_bytes: Count | None  # null = 60% of the free memory or disk
    storage: Literal["memory", "disk"] = "memory"
    folder: str | None = None  # parent of the run's own folder; null = the run folder
    own_folder: Path | None = None  # in the run folder
    saves_steps: bool = False  # checkpoints refer to the files

    def __post_init__(self) -> None:
        if self.path is None or self.own_folder is None or self.folder is None:
            return
        require_writable(self.path, "buffer.folder")
        if not self.own_folder.with_name("run.json").exists():
            require_empty(self.path, "a replay buffer", "Choose another buffer.folder.")

    @cached_property
    def path(self) -> Path | None:
        """The folder of the files; None = in memory."""
        if self.storage == "memory":
            return None
        assert self.own_folder is not None, "steps on disk need a folder"
        own = self.own_folder.absolute()
        if self.folder is None:
            return own
        return absolute_path(self.folder) / unique_name(own.parent) / own.name

    @property
    def copies(self) -> int:
        """Maximum copies of a step: removed ones stay until the next checkpoint."""
        return 2 if self.path is not None and self.saves_steps else 1

    @cached_property
    def free(self) -> int:
        """Free bytes of memory or disk."""
        return available_memory() if self.path is None else free_disk(self.path)

    @property
    def cap(self) -> int:
        """Bytes that the buffer may use."""
        return int(SHARE * self.free) if self.max_bytes is None else self.max_bytes

    def require_free(self, needed: int, capacity: int) -> None:
        """Refuse a buffer of ``needed`` bytes if there is no room.

        Raises:
            ValueError: states the required and free bytes and what to type.
        """
        if needed <= self.free:
            return
        where = "of memory are free here" if self.path is None else f"are free for {self.path}"
        share = SHARE * self.free / needed
        raise ValueError(
            f"The buffer may grow to {decimal(needed, precision=2)} (buffer.capacity={capacity}), "
            f"but {decimal(self.free, precision=2)} {where}: set "
            f"buffer.capacity={max(int(share * capacity), 1)} or less, or "
            f"buffer.max_bytes={int(SHARE * self.free)}, or buffer.precision=float16."
        )

    def store(self, **sizes: Any) -> Store:
        """Make the store, with the keywords of ``Store``."""
        if self.path is None:
            return Store(**sizes)
        log.info("steps will be stored in %s", self.path)
        return DiskStore(folder=self.path, copies=self.copies, **sizes)
