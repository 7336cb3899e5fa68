"""One step store: a growing lane of slots per environment copy, in blocks from one pool.

A slot is one observation with what followed it, so every observation, final ones included, is
stored once. A slot has two addresses: (lane, number), where numbers count up for ever, and its row
in the arrays.
"""

from __future__ import annotations

import math
import mmap
import os
import platform
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from rltrain.buffer.fields import Storage, bytes_per_slot, fields_of
from rltrain.types import EnvSpec

BLOCK = 32
"""Slots handed to a lane at once; a lane wastes less than two blocks."""


class Store:
    """``n_blocks`` blocks of ``BLOCK`` slots, shared by ``n_lanes`` lanes that grow in lock-step.

    Row ``padding`` of the arrays is a slot that never happened: everything zero, ``last`` 1, only
    action 0 available. Address space is reserved for all blocks; memory is used by written slots.
    """

    def __init__(
        self, *, spec: EnvSpec, n_lanes: int, n_blocks: int, storage: Storage, hidden_dim: int = 0
    ) -> None:
        self.n_lanes = n_lanes
        self.n_blocks = n_blocks
        self.padding = n_blocks * BLOCK
        self.bytes_per_slot = bytes_per_slot(spec, storage, hidden_dim)
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.arrays: dict[str, np.ndarray] = {}  # [n_blocks * BLOCK + 1, features]
        for name, (shape, dtype) in fields_of(spec, storage, hidden_dim).items():
            self.shapes[name] = shape
            self.arrays[name] = _reserve(self.padding + 1, math.prod(shape), dtype)
        self.arrays["last"][self.padding] = True
        self.arrays["avail_actions"][self.padding, :: spec.n_actions] = True
        self.begin = np.zeros(n_lanes, np.int64)  # [E] number of the oldest slot kept
        self.end = np.zeros(n_lanes, np.int64)  # [E] number of the next slot
        self.table = np.zeros((n_lanes, 8), np.int64)  # block of slot number n: n // BLOCK % width
        self._fresh = 0  # blocks never used yet start here
        self._freed: list[int] = []

    @property
    def free_blocks(self) -> int:
        return self.n_blocks - self._fresh + len(self._freed)

    @property
    def bytes_in_use(self) -> int:
        """Bytes of the blocks that belong to a lane now."""
        return (self.n_blocks - self.free_blocks) * BLOCK * self.bytes_per_slot

    def blocks_to_append(self, n_slots: int) -> int:
        """Blocks that ``append`` of ``n_slots`` slots to every lane takes from the pool."""
        return int((_blocks_until(self.end + n_slots) - _blocks_until(self.end)).sum())

    def append(self, fields: Mapping[str, np.ndarray]) -> None:
        """Add T slots to every lane, fields [T, E, …]; takes ``blocks_to_append(T)`` blocks."""
        n_slots = len(fields["last"])
        taken, needed = _blocks_until(self.end), _blocks_until(self.end + n_slots)
        self._widen(int((needed - self.begin // BLOCK).max()))
        for lane in np.flatnonzero(needed > taken):
            self._take_blocks(int(lane), int(taken[lane]), int(needed[lane]))
        number = self.end + np.arange(n_slots)[:, None]  # [T, E]
        self.write(self.rows(np.arange(self.n_lanes), number), fields)
        self.end += n_slots

    def extend(self, lane: int, n_slots: int) -> np.ndarray:
        """Add ``n_slots`` unwritten slots to one lane and return their rows [n_slots]."""
        first = int(self.end[lane])
        blocks = -(-first // BLOCK), -(-(first + n_slots) // BLOCK)
        self._widen(blocks[1] - int(self.begin[lane]) // BLOCK)
        self._take_blocks(lane, *blocks)
        self.end[lane] += n_slots
        return self.rows(lane, first + np.arange(n_slots))

    def blocks_to_extend(self, lane: int, n_slots: int) -> int:
        """Blocks that ``extend`` takes from the pool."""
        end = int(self.end[lane])
        return -(-(end + n_slots) // BLOCK) - -(-end // BLOCK)

    def release(self, lane: int, number: int) -> None:
        """Forget the slots of a lane before ``number``; empty blocks return to the pool."""
        for block in range(int(self.begin[lane]) // BLOCK, number // BLOCK):
            self._freed.append(int(self.table[lane, block % self.table.shape[1]]))
        self.begin[lane] = number

    def rewind(self, lane: int, number: int) -> None:
        """Forget the slots of a lane from ``number`` on, as if they had not been appended."""
        for block in range(-(-number // BLOCK), -(-int(self.end[lane]) // BLOCK)):
            self._freed.append(int(self.table[lane, block % self.table.shape[1]]))
        self.end[lane] = number

    def restart(self, number: np.ndarray) -> None:
        """Forget everything; lane e goes on, empty, with slot ``number[e]``."""
        self._fresh, self._freed = 0, []
        self.begin[:], self.end[:] = number, number
        for lane in np.flatnonzero(number % BLOCK):
            self._take_blocks(int(lane), int(number[lane]) // BLOCK, int(number[lane]) // BLOCK + 1)

    def rows(self, lane: np.ndarray | int, number: np.ndarray) -> np.ndarray:
        """Rows that hold slots ``number`` of lanes ``lane`` (broadcast against each other)."""
        block = self.table[lane, number // BLOCK % self.table.shape[1]]
        return block * BLOCK + number % BLOCK

    def window_rows(self, lane: np.ndarray, start: np.ndarray, length: np.ndarray) -> np.ndarray:
        """Rows [T+1, B] of windows of ``length`` [B] transitions from slots ``start`` [B] of lanes
        ``lane`` [B] on, T = the longest; padding behind the shorter ones.
        """
        t = np.arange(length.max() + 1)[:, None]  # [T+1, 1]
        return np.where(t <= length, self.rows(lane, start + t), self.padding)

    def rows_in_turn(self, lane: np.ndarray, start: np.ndarray, n_slots: np.ndarray) -> np.ndarray:
        """Rows of ``n_slots`` [K] slots from ``start`` [K] of lanes ``lane`` [K] on, one run after
        the other.
        """
        before = np.repeat(np.cumsum(n_slots) - n_slots, n_slots)
        number = np.repeat(start, n_slots) + np.arange(n_slots.sum()) - before
        return self.rows(np.repeat(lane, n_slots), number)

    def write(self, rows: np.ndarray, fields: Mapping[str, np.ndarray]) -> None:
        """Store each field [*rows.shape, …] in the slots ``rows``."""
        flat = rows.reshape(-1)
        for name, array in self.arrays.items():
            array[flat] = fields[name].reshape(len(flat), array.shape[1])

    def read(self, name: str, rows: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Gather a field into [*rows.shape, …] in its stored type, or into ``out``."""
        array = self.arrays[name]
        if out is None:  # pages of its own: a large copy goes back to the kernel when dropped
            out = _reserve(rows.size, array.shape[1], array.dtype)
            out = out.reshape(rows.shape + self.shapes[name])
        flat = out.reshape(rows.size, array.shape[1])
        np.take(array, rows.reshape(-1), axis=0, out=flat, mode="clip")  # "raise" would buffer
        return out

    def tensor(self, name: str, rows: np.ndarray, device: torch.device) -> Tensor:
        """A field [*rows.shape, …] in its stored type on a device: converted there, it travels
        small.
        """
        shape = rows.shape + self.shapes[name]
        dtype = getattr(torch, self.arrays[name].dtype.name)
        if 0 in shape:
            return torch.empty(shape, dtype=dtype, device=device)
        out = torch.empty(shape, dtype=dtype, pin_memory=device.type == "cuda")
        self.read(name, rows, out=out.numpy())
        return out.to(device, non_blocking=True)

    def observations(
        self,
        lane: np.ndarray,
        start: np.ndarray,
        first: np.ndarray,
        rows: np.ndarray,
        n_frames: int,
        device: torch.device,
    ) -> Tensor:
        """Observations of windows, stacked: [T+1, B, N, n_frames * O0, …] float32.

        Args:
            lane, start: [B], where each window begins.
            first: [B], the earliest slot that a stack may look back to; it is repeated where a
                stack would begin before it.
            rows: [T+1, B] of the windows; padding stays zero.
            n_frames: observations in a stack.
            device: where the observations go.
        """
        if n_frames == 1:
            return self.tensor("obs", rows, device).to(torch.float32)
        number = start + np.arange(len(rows))[:, None]  # [T+1, B]
        frames = np.maximum(number[:, :, None] - np.arange(n_frames)[::-1], first[:, None])
        frame_rows = self.rows(lane[:, None], frames)  # [T+1, B, n_frames], oldest first
        frame_rows[rows == self.padding] = self.padding
        return join_frames(self.tensor("obs", frame_rows, device)).to(torch.float32)

    def _take_blocks(self, lane: int, first: int, stop: int) -> None:
        for block in range(first, stop):
            if self._freed:
                row = self._freed.pop()
            else:
                assert self._fresh < self.n_blocks, "more blocks taken than there are"
                row, self._fresh = self._fresh, self._fresh + 1
            self.table[lane, block % self.table.shape[1]] = row

    def _widen(self, n_blocks: int) -> None:
        """Make the table wide enough for ``n_blocks`` blocks of one lane.

        Must run before any lane takes new blocks: only the blocks up to ``end`` are copied.
        """
        old, width = self.table, self.table.shape[1]
        while width < n_blocks:
            width *= 2
        if width == old.shape[1]:
            return
        self.table = np.zeros((self.n_lanes, width), np.int64)
        for lane in range(self.n_lanes):
            block = np.arange(self.begin[lane] // BLOCK, -(-self.end[lane] // BLOCK))
            self.table[lane, block % self.table.shape[1]] = old[lane, block % old.shape[1]]


def join_frames(frames: Tensor) -> Tensor:
    """[T, B, n_frames, N, *O] to [T, B, N, n_frames * O0, …], as the policy sees them."""
    return frames.transpose(2, 3).flatten(3, 4)


def _blocks_until(number: np.ndarray) -> np.ndarray:
    return -(-number // BLOCK)


def _reserve(n_rows: int, width: int, dtype: np.dtype) -> np.ndarray:
    """A zeroed array [n_rows, width] of pages that cost nothing until they are written."""
    n_bytes = n_rows * width * dtype.itemsize
    if n_bytes == 0:
        return np.zeros((n_rows, width), dtype)
    try:
        if os.name == "posix":
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _no_reserve()
            pages = mmap.mmap(-1, n_bytes, flags=flags)
        else:
            pages = mmap.mmap(-1, n_bytes)
    except OSError as error:
        raise RuntimeError(
            f"the replay could not reserve {n_bytes / 1e9:.1f} GB of address space ({error}): "
            "set buffer.max_bytes to less."
        ) from error
    return np.frombuffer(pages, dtype, n_rows * width).reshape(n_rows, width)


def _no_reserve() -> int:
    """MAP_NORESERVE, which Python names from 3.13 on only."""
    linux = platform.system() == "Linux" and platform.machine() in ("x86_64", "aarch64")
    return int(getattr(mmap, "MAP_NORESERVE", 0x4000 if linux else 0))
