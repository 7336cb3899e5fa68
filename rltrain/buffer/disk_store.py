"""DiskStore: the steps of a buffer in memory-mapped files."""

from __future__ import annotations

import errno
import logging
import mmap
import os
import weakref
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from rltrain.buffer.step_check import require_values
from rltrain.buffer.store import BLOCK, Store, blocks_until, runs
from rltrain.common.file_rows import FLAGS, map_file, move_rows
from rltrain.common.files import sync
from rltrain.common.number_types import MOST_COUNTED, saved_array
from rltrain.errors import CheckpointError, FullDiskError
from rltrain.logger.train_log import NOTICE
from rltrain.types import StateDict

log = logging.getLogger("rltrain")
CHUNK = 1 << 24
"""Bytes allocated at once."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
ADVICE = (
    "The steps are nowhere else: put the files back as they were, or start a new run from the "
    "weights: rltrain checkpoint=RUN_FOLDER."
)
CHECKPOINT, BEGUN = 1, 2
"""The newest complete checkpoint, and a state that may have become a newer one."""
LARGE = 1 << 26
"""Larger files are read and written without keeping their pages in this process's memory."""
READ = ("obs", "avail_actions", "state", "hidden")
"""Fields that batches read only through ``Store.tensor``."""


class DiskStore(Store):
    """Steps in memory-mapped files, one per field, created when the first step is stored.

    A state holds the positions and checksums of the blocks. A block that the newest checkpoint
    refers to is not overwritten until there is a newer checkpoint; new steps go to other blocks. So
    the checkpoint's steps are intact whenever the process is killed.

    Blocks are allocated before they are written, so that a full disk raises an error, not a signal.
    """

    def __init__(self, *, folder: Path, copies: int, **sizes: Any) -> None:
        self.folder, self._copies = folder, copies
        self._pages: list[mmap.mmap] = []  # of the open files
        super().__init__(**sizes)

    def _reserve(self, n_blocks: int) -> None:
        self._most = n_blocks * self._copies + 1
        self._unused = 1  # block 0 holds the empty step
        self._held: list[int] = []  # removed, but a checkpoint refers to them
        self._sums = np.zeros((0, len(self.shapes)), np.uint32)  # of each block of the files
        self._summed = np.zeros(0, np.bool_)
        self._kept = np.zeros(0, np.uint8)  # CHECKPOINT refers to it, or BEGUN
        self._large: dict[str, int] = {}  # handles of open files
        for name in READ:
            array = self.arrays.get(name)
            if array is not None and self._most * BLOCK * _width(array) > LARGE:
                self._large[name] = -1
                self.as_in_batches = False

    def _put(self, name: str, rows: np.ndarray, values: np.ndarray) -> None:
        if name in self._large:
            own = np.ascontiguousarray(values, self.arrays[name].dtype)
            move_rows(self._large[name], rows[:, None, None], own, write=True)
        else:
            super()._put(name, rows, values)

    def _take(self, name: str, rows: np.ndarray, out: np.ndarray) -> None:
        if name in self._large:
            as_frames = rows.reshape((*rows.shape, 1, 1)[:3])
            move_rows(self._large[name], as_frames, out, write=False)
        else:
            super()._take(name, rows, out)

    def rewind(self, e: int, step: int) -> None:
        super().rewind(e, step)
        block = step // BLOCK
        if n := step % BLOCK:  # do not write into a kept block
            old = int(self.table[e, block % self.table.shape[1]])
            self._summed[old] = False
            if self._kept[old]:
                self._take_blocks(e, block, block + 1)
                new = int(self.table[e, block % self.table.shape[1]])
                for array in self.arrays.values():
                    array[new * BLOCK :][:n] = array[old * BLOCK :][:n]
                self._free_block(old)

    def saved_steps(self, rows: np.ndarray) -> StateDict:
        env, number, n_rows = _blocks(self.begin, self.end)
        blocks = self._at(env, number)
        for block, n in zip(blocks.tolist(), n_rows.tolist(), strict=True):
            if not self._summed[block]:
                self._sums[block] = self._sum(block, n)
                self._summed[block] = n == BLOCK
        for pages in self._pages:
            pages.flush()
        self._keep(self._kept & CHECKPOINT, blocks, BEGUN)
        saved = {
            "fields": {n: [a.dtype.name, [*self.shapes[n]]] for n, a in self.arrays.items()},
            "end": self.end.copy(),
            "blocks": blocks,
            "sums": self._sums[blocks],
        }
        return {"disk": saved}

    def restore(self, state: StateDict) -> None:
        """Take over the blocks of ``state``; ``append_saved`` then adds their steps.

        Raises:
            ValueError: they have different shapes or types, or are not on disk.
            CheckpointError: a file is missing or damaged.
            FullDiskError: the disk is full.
        """
        saved, begin = state["disk"], state["begin"]
        for name, array in self.arrays.items():
            dtype, shape = saved["fields"][name]
            self._require_field(name, dtype, shape, array.dtype)
        end, blocks, sums = saved["end"], saved["blocks"], saved["sums"]
        fits = begin.shape == end.shape == self.begin.shape and (begin >= 0).all()
        if not (fits and (blocks_until(end) - begin // BLOCK).sum() == len(blocks)):
            raise ValueError("its environments differ")
        if len(np.unique(blocks)) < len(blocks) or (blocks <= 0).any():
            raise ValueError("the places of its steps are invalid")
        env, number, n_rows = _blocks(begin, end)
        self._unused = int(blocks.max(initial=0)) + 1
        if len(blocks):
            self._open(self._unused, again=True)
        self._held = []
        self._keep(np.zeros_like(self._kept), blocks)
        self._freed = (np.flatnonzero(self._kept[1 : self._unused] == 0) + 1).tolist()
        self.begin[:], self.end[:], self._saved_end = begin, begin, end
        self.table = np.zeros((self.n_envs, 8), np.int64)
        self._widen(int(np.bincount(env, minlength=1).max()))
        self.table[env, number % self.table.shape[1]] = blocks
        for block, n, expected in zip(blocks.tolist(), n_rows.tolist(), sums, strict=True):
            self._check(block, n, expected)
        for block, n, skipped in zip(blocks, n_rows, begin[env] - number * BLOCK, strict=True):
            rows = self._read_rows(block, max(skipped, 0), n)
            require_values(rows, self._n_actions, self._packed)
        self._sums[blocks], self._summed[blocks] = sums, n_rows == BLOCK

    def saved_length(self, state: StateDict) -> int:
        if "disk" not in state:
            raise ValueError(
                "The steps of the saved buffer are in its checkpoint: use the "
                "buffer.storage=memory that it was written with."
            )
        begin = saved_array("the buffer's begin", state["begin"], self.begin, 0, MOST_COUNTED)
        end = saved_array("the buffer's end", state["disk"]["end"], self.end, 0, MOST_COUNTED)
        return int((end - begin).sum())

    def append_saved(self, e: int, state: StateDict, first: int, n_steps: int) -> None:
        if self.end[e] + n_steps > self._saved_end[e]:
            raise ValueError("it counts more steps than it has")
        self.end[e] += n_steps

    def saved(self, with_steps: bool) -> None:
        env, number, _ = _blocks(self.begin, self.end)
        self._keep(np.zeros_like(self._kept), self._at(env, number)[: None if with_steps else 0])

    def close(self) -> None:
        """Remove the files unless a checkpoint refers to them."""
        if not self._pages or self._kept.any():
            return
        for name in self.arrays:
            self._path(name).unlink(missing_ok=True)
        with suppress(OSError):
            self.folder.rmdir()
            self.folder.parent.rmdir()  # the run's in buffer.folder
        log.log(NOTICE, "%s was removed: no checkpoint refers to the steps in it", self.folder)

    def _keep(self, kept: np.ndarray, blocks: np.ndarray, by: int = CHECKPOINT) -> None:
        """Keep the blocks of ``kept``, and ``blocks``."""
        self._kept, removed = kept, self._held
        self._kept[blocks] |= by
        self._held = []
        for block in removed:
            self._free_block(block)

    def _at(self, env: np.ndarray, number: np.ndarray) -> np.ndarray:
        """Block ``number`` of each environment in ``env``."""
        return self.table[env, number % self.table.shape[1]]

    def _free_block(self, block: int) -> None:
        (self._held if self._kept[block] else self._freed).append(block)

    def _take_block(self) -> int:
        if not self._freed and self._unused >= len(self._kept):
            more = max(CHUNK // (BLOCK * self.bytes_per_step), 1)
            self._open(max(min(self._unused + more, self._most), self._unused + 1))
        if not self._freed:
            for name in self._large:  # larger pages of the system's cache are read faster
                rows = np.arange(self._unused * BLOCK, (self._unused + 1) * BLOCK)
                array = self.arrays[name]
                self._put(name, rows, np.zeros((BLOCK, array.shape[1]), array.dtype))
            self._freed.append(self._unused)
            self._unused += 1
        block = self._freed.pop()
        self._summed[block] = False
        return block

    def _sum(self, block: int, n_rows: int) -> list[int]:
        """Checksums of the first rows of a block, one per field."""
        return [zlib.crc32(rows.data) for rows in self._read_rows(block, 0, n_rows).values()]

    def _read_rows(self, block: int, first: int, stop: int) -> dict[str, np.ndarray]:
        """Rows ``first`` up to ``stop`` of a block, by field."""
        rows, fields = np.arange(block * BLOCK + first, block * BLOCK + stop), {}
        for name, array in self.arrays.items():
            fields[name] = np.empty((len(rows), array.shape[1]), array.dtype)
            self._take(name, rows, fields[name])
        return fields

    def _check(self, block: int, n_rows: int, expected: np.ndarray) -> None:
        differing = np.flatnonzero(self._sum(block, n_rows) != expected)
        if len(differing):
            path = self._path(list(self.arrays)[differing[0]])
            raise CheckpointError(
                f"{path} is damaged: rows {block * BLOCK:,} to {block * BLOCK + n_rows - 1:,} do "
                f"not have the checksum of the checkpoint. {ADVICE}"
            )

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.bin"

    def _open(self, n_blocks: int, *, again: bool = False) -> None:
        """Map the files, with at least this many blocks.

        Args:
            again: a checkpoint refers to steps in them; otherwise files that are not open are new.
        """
        before, flags = len(self._kept), 0
        held = n_blocks if again else before
        n_blocks = max(n_blocks, before)
        arrays, pages = {}, []
        with self._writing(again):
            if not (self._pages or again):
                self.folder.mkdir(parents=True, exist_ok=True)
                flags = os.O_CREAT | os.O_TRUNC
            for name, array in self.arrays.items():
                n_bytes = BLOCK * _width(array)
                rows = np.empty((n_blocks * BLOCK, 0), array.dtype)
                if n_bytes:
                    taken = 0 if again else held  # a copy of the files may have holes
                    sizes = (n * n_bytes for n in (held, taken, n_blocks))
                    pages.append(map_file(self._path(name), flags, *sizes))
                    rows = np.frombuffer(pages[-1], array.dtype).reshape(-1, array.shape[1])
                arrays[name] = rows
            sync(self.folder)
            sync(self.folder.parent)
        self._use(arrays, 0)
        if not self._pages:
            for name in self._large:
                self._large[name] = handle = os.open(self._path(name), FLAGS)
                weakref.finalize(self, os.close, handle)
        self._pages, more = pages, n_blocks - before
        self._kept, self._summed = np.pad(self._kept, (0, more)), np.pad(self._summed, (0, more))
        self._sums = np.pad(self._sums, ((0, more), (0, 0)))

    @contextmanager
    def _writing(self, again: bool) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if again and error.errno not in FULL:
                raise CheckpointError(
                    f"{error.filename or self.folder} cannot be used ({error.strerror or error}), "
                    f"and the checkpoint refers to steps in it. {ADVICE}"
                ) from error
            raise FullDiskError(
                f"The steps of the buffer cannot be written into {self.folder} "
                f"({error.strerror or error}). Free space on its disk, then resume the run: it "
                "goes on from its last checkpoint, or from env step 0 if there is none."
            ) from error


def _width(array: np.ndarray) -> int:
    """Bytes of a row."""
    return array.shape[1] * array.itemsize


def _blocks(begin: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For every block with steps from ``begin`` [E] up to ``end`` [E]: its environment, its number
    there, and the number of rows written.
    """
    counts = blocks_until(end) - begin // BLOCK
    env, number = runs(begin // BLOCK, counts)
    return env, number, np.minimum(end[env] - number * BLOCK, BLOCK)
