"""Storage of time steps: a growing sequence of steps per environment, in blocks from one pool.

A stored step is an observation and the transition from it, so every observation, including final
ones, is stored once. It has two addresses: its environment and its number, counted from the first
step ever stored, and its row in the arrays.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rltrain.buffer import lazy_batch
from rltrain.buffer.fields import TRANSITION, Fields, PackedObs, join_frames, n_bytes, zeroed
from rltrain.buffer.lazy_batch import ArrayBatch, BatchMemory, array_form
from rltrain.buffer.step_check import require_values
from rltrain.common.number_types import MOST_COUNTED, saved_array
from rltrain.types import Batch, EnvSpec, Pieces, StateDict

BLOCK = 32
"""Steps in a block. An environment leaves less than two blocks unused."""
DECODED = {"obs": torch.float32, "state": torch.float32, "action": torch.int64}
"""Types in batches that differ from the stored types."""
PIECE = 4096
"""Steps read at once for a checkpoint."""


class Store:
    """``n_blocks`` blocks of ``BLOCK`` steps, shared by the sequences of ``n_envs`` environments.

    Row ``padding`` of the arrays is an empty step: everything zero, ``last`` set, only action 0
    available. Address space is reserved for all blocks; only written steps use memory. Tensors are
    on ``device``.
    """

    def __init__(
        self,
        *,
        spec: EnvSpec,
        n_envs: int,
        n_blocks: int,
        fields: Fields,
        device: torch.device,
    ) -> None:
        self.n_envs, self.n_blocks, self.device = n_envs, n_blocks, device
        self.n_frames = spec.frame_stack
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.arrays: dict[str, np.ndarray] = {}  # [n_blocks * BLOCK + 1, features]
        self.bytes_per_step = n_bytes(fields)
        for name, (shape, dtype) in fields.items():
            self.shapes[name] = shape
            self.arrays[name] = np.empty((0, math.prod(shape)), dtype)
        self._n_actions = spec.n_actions
        self._packed = PackedObs(spec, fields["state"][1]) if spec.obs_bytes else None
        kinds = {self.arrays[name].dtype.name for name in ("obs", "state")}
        single = self.n_frames == 1 and not lazy_batch.is_packed_for(device)
        self.as_in_batches = single and kinds == {"float32"}  # no stacking or conversion
        self.begin = np.zeros(n_envs, np.int64)  # [E] number of the oldest stored step
        self.end = np.zeros(n_envs, np.int64)  # [E] number of the next step
        self.table = np.zeros((n_envs, 8), np.int64)  # block of step n: n // BLOCK % width
        self._all_envs = np.arange(n_envs)
        self._unused = 0  # first block that was never used
        self._freed: list[int] = []
        self._reserve(n_blocks)

    def _reserve(self, n_blocks: int) -> None:
        """Create the arrays for this many blocks."""
        n_rows = n_blocks * BLOCK
        self._use({n: zeroed(n_rows + 1, a) for n, a in self.arrays.items()}, n_rows)

    def _use(self, arrays: dict[str, np.ndarray], padding: int) -> None:
        """Store steps in ``arrays``; row ``padding`` becomes the empty step."""
        self.arrays, self.padding = arrays, padding
        for array in arrays.values():
            array[self.padding] = 0
        arrays["last"][self.padding] = True
        arrays["avail_actions"][self.padding, :: self._n_actions] = True

    @property
    def free_blocks(self) -> int:
        used = blocks_until(self.end) - self.begin // BLOCK
        return self.n_blocks - int(used.sum())

    @property
    def bytes_in_use(self) -> int:
        """Bytes of the blocks that hold steps."""
        return (self.n_blocks - self.free_blocks) * BLOCK * self.bytes_per_step

    def blocks_to_append(self, n_steps: int, env: np.ndarray | None = None) -> int:
        """Blocks that ``append`` of ``n_steps`` steps takes from the pool."""
        end = self.end[self._all_envs if env is None else env]
        return int((blocks_until(end + n_steps) - blocks_until(end)).sum())

    def append(self, fields: Mapping[str, np.ndarray], env: np.ndarray | None = None) -> None:
        """Add T steps to the environments ``env`` [K], None for all of them; fields [T, K, …].

        Final steps have no transition: their action, reward and ``terminated`` are stored as zero.
        """
        env = self._all_envs if env is None else env
        last, end = fields["last"], self.end[env]
        taken, needed = blocks_until(end), blocks_until(end + len(last))
        self._widen(int((needed - self.begin[env] // BLOCK).max()))
        for k in np.flatnonzero(needed > taken).tolist():
            self._take_blocks(int(env[k]), int(taken[k]), int(needed[k]))
        rows = self.rows(env, end + np.arange(len(last))[:, None]).reshape(-1)  # [T * K]
        real, ended = ~last.reshape(-1, 1), bool(last.any())
        for name, array in self.arrays.items():
            field = fields[name]
            if name == "obs" and self._packed is not None and field.dtype != np.uint8:
                field = self._packed.pack(field)  # fields of a checkpoint are packed
            field = field.reshape(len(rows), array.shape[1])
            self._put(
                name, rows, np.where(real, field, 0) if ended and name in TRANSITION else field
            )
        self.end[env] += len(last)

    def release(self, e: int, step: int) -> None:
        """Remove the steps of environment ``e`` before ``step``; empty blocks become free."""
        assert step <= self.end[e], "steps released before they were stored"
        self._free(e, int(self.begin[e]) // BLOCK, step // BLOCK)
        self.begin[e] = step

    def release_all(self, step: np.ndarray) -> None:
        """Remove the steps of every environment e before ``step[e]``."""
        for e in np.flatnonzero(step // BLOCK > self.begin // BLOCK).tolist():
            self.release(e, int(step[e]))
        self.begin[:] = step

    def rewind(self, e: int, step: int) -> None:
        """Remove the steps of environment ``e`` from ``step`` on, as if never appended."""
        self._free(e, blocks_until(step), blocks_until(int(self.end[e])))
        self.end[e] = step

    def restart(self, step: np.ndarray) -> None:
        """Remove everything; the next step of environment e has number ``step[e]``."""
        self._unused, self._freed = 0, []
        self.begin[:], self.end[:] = step, step
        for e in np.flatnonzero(step % BLOCK).tolist():
            self._take_blocks(e, int(step[e]) // BLOCK, int(step[e]) // BLOCK + 1)

    def rows(self, env: np.ndarray | int, step: np.ndarray) -> np.ndarray:
        """Rows of the steps ``step`` of environments ``env`` (broadcast against each other)."""
        block = self.table[env, step // BLOCK % self.table.shape[1]]
        return block * BLOCK + step % BLOCK

    def consecutive_rows(
        self, env: np.ndarray, start: np.ndarray, n_steps: np.ndarray
    ) -> np.ndarray:
        """Rows of K runs of steps, one run after the other: ``n_steps`` [K] steps of environment
        ``env`` [K] from ``start`` [K] on.
        """
        run, step = runs(start, n_steps)
        return self.rows(env[run], step)

    def read(self, name: str, rows: np.ndarray) -> np.ndarray:
        """A field [*rows.shape, …] in its stored type, in memory returned to the system when the
        array is deleted.
        """
        array = self.arrays[name]
        out = zeroed(rows.size, array)
        np.take(array, rows.reshape(-1), axis=0, out=out, mode="clip")  # "raise" would buffer
        return out.reshape(rows.shape + self.shapes[name])

    def tensor(self, name: str, rows: np.ndarray) -> Tensor:
        """A field [*rows.shape, …] of a batch on the CPU; the frames of rows [T, B, n_frames] are
        joined.
        """
        array = self.arrays[name]
        flat = np.empty((rows.size, array.shape[1]), array.dtype)  # the faster allocator
        if flat.size:
            self._take(name, rows, flat)
        return self.decode(name, torch.from_numpy(flat).view(rows.shape + self.shapes[name]))

    def decode(self, name: str, stored: Tensor) -> Tensor:
        """Decode a stored field [T, B, …], or frames [T, B, n_frames, …], for a batch."""
        if 0 not in stored.shape and name == "obs":
            stored = stored if self._packed is None else self._packed.unpack(stored)
            stored = stored if self.n_frames == 1 else join_frames(stored)
        return stored.to(DECODED.get(name, stored.dtype))

    def batch(
        self,
        fields: Mapping[str, np.ndarray],
        rows: Mapping[str, np.ndarray],
        settings: Mapping[str, Any],
    ) -> Batch:
        """A batch on the device.

        Args:
            fields: arrays by name.
            rows: rows of other fields, read from the store.
            settings: non-array fields.
        """
        if not lazy_batch.is_packed_for(self.device):
            read = {name: self.tensor(name, r).numpy() for name, r in rows.items()}
            return ArrayBatch.of({**fields, **read}, **settings)
        stored = {n: ((*r.shape, *self.shapes[n]), self.arrays[n].dtype) for n, r in rows.items()}
        block = BatchMemory({**array_form(fields), **stored}, self.device).fill(fields)
        for name, r in rows.items():
            if block.arrays[name].size:
                self._take(name, r, block.arrays[name].reshape(r.size, -1))
        return block.batch(self.decode, settings)

    def frame_rows(
        self, env: np.ndarray, start: np.ndarray, first: np.ndarray, rows: np.ndarray
    ) -> np.ndarray:
        """Rows of the frames of windows, oldest first: [T+1, B, n_frames].

        Args:
            env, start: [B], where each window begins.
            first: [B], the earliest step of a stack, repeated if a stack would begin before it.
            rows: [T+1, B] of the windows; padding stays zero.
        """
        step = start + np.arange(len(rows))[:, None]  # [T+1, B]
        frames = np.maximum(step[:, :, None] - np.arange(self.n_frames)[::-1], first[:, None])
        frame_rows = self.rows(env[:, None], frames)
        frame_rows[rows == self.padding] = self.padding
        return frame_rows

    def saved_steps(self, rows: np.ndarray) -> StateDict:
        """The part of a state with the steps ``rows``: every field as ``Pieces``, read lazily from
        the arrays.
        """

        def field(name: str) -> Pieces:
            def pieces() -> Iterator[np.ndarray]:
                for i in range(0, len(rows), PIECE):
                    yield self.read(name, rows[i : i + PIECE])

            return Pieces((len(rows), *self.shapes[name]), self.arrays[name].dtype, pieces)

        return {f"steps.{name}": field(name) for name in self.arrays}

    def restore(self, state: StateDict) -> None:
        """Remove everything; ``append_saved`` then adds the steps of ``state``.

        Raises:
            ValueError: they have different shapes or types, or hold what no run stores.
        """
        for name, array in self.arrays.items():
            saved = state[f"steps.{name}"]
            self._require_field(name, saved.dtype, saved.shape[1:], array.dtype)
        for i in range(0, len(state["steps.last"]), PIECE):
            saved = {name: state[f"steps.{name}"][i : i + PIECE] for name in self.arrays}
            require_values(saved, self._n_actions, self._packed)
        self.restart(state["begin"])  # the same blocks as before, so they run out at the same time

    def saved_length(self, state: StateDict) -> int:
        """Steps of a saved state; ValueError if they are on disk, or begin where none can."""
        if "steps.obs" not in state:
            raise ValueError(
                "The steps of the saved buffer are on disk: use the buffer.storage=disk that it "
                "was written with."
            )
        saved_array("the buffer's begin", state["begin"], self.begin, 0, MOST_COUNTED)
        return len(state["steps.last"])

    def append_saved(self, e: int, state: StateDict, first: int, n_steps: int) -> None:
        """Append the saved steps ``first … first + n_steps`` to environment ``e``."""
        saved = slice(first, first + n_steps)
        fields = {name: state[f"steps.{name}"][saved, None] for name in self.arrays}
        self.append(fields, np.array([e]))

    def saved(self, with_steps: bool) -> None:
        """Called when the newest checkpoint, with or without ``saved_steps``, is complete."""

    def close(self) -> None:
        """Remove files that nothing refers to."""

    def _require_field(self, name: str, dtype: object, shape: Any, here: np.dtype) -> None:
        if tuple(shape) != self.shapes[name] or dtype != here:
            raise ValueError(
                f"The saved buffer does not fit: '{name}' of a step should be {here} "
                f"{self.shapes[name]}, got {dtype} {tuple(shape)}. Use the env and the "
                "buffer.precision that it was written with."
            )

    def _put(self, name: str, rows: np.ndarray, values: np.ndarray) -> None:
        """Write ``values`` [B, features] to the rows [B] of a field."""
        self.arrays[name][rows] = values

    def _take(self, name: str, rows: np.ndarray, out: np.ndarray) -> None:
        """Read rows [T, B, n_frames], [T, B] or [T] of a field into ``out`` [rows, features]."""
        self.arrays[name].take(rows.reshape(-1), 0, out=out, mode="clip")  # "raise" would buffer

    def _free(self, e: int, first: int, stop: int) -> None:
        for block in range(first, stop):
            self._free_block(int(self.table[e, block % self.table.shape[1]]))

    def _free_block(self, block: int) -> None:
        self._freed.append(block)

    def _take_blocks(self, e: int, first: int, stop: int) -> None:
        for block in range(first, stop):
            self.table[e, block % self.table.shape[1]] = self._take_block()

    def _take_block(self) -> int:
        if self._freed:
            return self._freed.pop()
        assert self._unused < self.n_blocks, "more blocks taken than there are"
        self._unused += 1
        return self._unused - 1

    def _widen(self, n_blocks: int) -> None:
        """Widen the table for ``n_blocks`` blocks per environment.

        Must run before any environment takes new blocks: only blocks up to ``end`` are copied.
        """
        old, width = self.table, self.table.shape[1]
        while width < n_blocks:
            width *= 2
        if width == old.shape[1]:
            return
        self.table = np.zeros((self.n_envs, width), np.int64)
        for e in range(self.n_envs):
            block = np.arange(self.begin[e] // BLOCK, blocks_until(self.end[e]))
            self.table[e, block % self.table.shape[1]] = old[e, block % old.shape[1]]


def blocks_until(step: Any) -> Any:
    """Blocks of the steps before ``step``."""
    return -(-step // BLOCK)


def runs(first: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Consecutive numbers: ``n[i]`` of them from ``first[i]`` on, for one i after the other.

    Returns:
        the i of every number, and the numbers.
    """
    i = np.repeat(np.arange(len(n)), n)
    return i, (first - n.cumsum() + n)[i] + np.arange(len(i))
