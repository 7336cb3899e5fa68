"""Rows of a file that is too large for its pages to stay in memory, read and written (compiled)."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import errno
import mmap
import os
import stat
from pathlib import Path

import numpy as np
from numba import types

from rltrain.common.numba_cache import njit

VECTORS = types.intp(types.int32, types.uintp, types.int32, types.int64)
preadv = types.ExternalFunction("preadv", VECTORS)
pwritev = types.ExternalFunction("pwritev", VECTORS)
memcpy = types.ExternalFunction("memcpy", types.uintp(types.uintp, types.uintp, types.uintp))
FLAGS = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""How a file of rows is opened."""
MOST = 1024
"""Pieces of memory in one system call."""


def map_file(path: Path, flags: int, held: int, taken: int, n_bytes: int) -> mmap.mmap:
    """The first ``n_bytes`` bytes of a file, which get room on the disk.

    Args:
        flags: to open it with.
        held: bytes that it must have.
        taken: bytes that have room already.
    """
    handle = os.open(path, FLAGS | flags, 0o666)
    try:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(0, "it is no plain file", str(path))
        if facts.st_size < held:
            raise OSError(0, f"it has {facts.st_size:,} of {held:,} bytes", str(path))
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(handle, taken, n_bytes - taken)
        elif facts.st_size < n_bytes:  # a full disk is found too late
            os.ftruncate(handle, n_bytes)
        return mmap.mmap(handle, n_bytes)
    finally:
        os.close(handle)


def move_rows(handle: int, rows: np.ndarray, values: np.ndarray, *, write: bool) -> None:
    """Read the rows [T, B, F] of a file into ``values`` [T * B * F, width], or write them. What is
    consecutive in the file along T is one system call, and frames that stacks share are read once.

    Raises:
        OSError: not all of them could be.
    """
    assert values.flags.c_contiguous
    pieces = np.empty((MOST, 2), np.uintp)
    width = values.nbytes // max(rows.size, 1)
    addresses = pieces.ctypes.data, values.ctypes.data
    if not _move(handle, rows, pieces, addresses, width, write):
        raise OSError(errno.EIO, os.strerror(errno.EIO))


@njit(__file__)
def _move(handle, rows, pieces, addresses, width, write):
    n_steps, n_windows, n_frames = rows.shape
    vector, start = addresses
    for b in range(n_windows):
        n, first, following = 0, 0, -1  # pieces; the row that they begin at; the row after them
        for t in range(n_steps):
            for f in range(n_frames):
                if _earlier(rows, t, b, f) >= 0:
                    continue
                row, at = rows[t, b, f], start + ((t * n_windows + b) * n_frames + f) * width
                if row != following or n == len(pieces):
                    if not _call(handle, vector, n, first, following, width, write):
                        return False
                    n, first = 0, row
                if n > 0 and pieces[n - 1, 0] + pieces[n - 1, 1] == at:
                    pieces[n - 1, 1] += width
                else:
                    pieces[n, 0], pieces[n, 1] = at, width
                    n += 1
                following = row + 1
        if not _call(handle, vector, n, first, following, width, write):
            return False
        for t in range(0 if write else n_steps):
            for f in range(n_frames):
                place = _earlier(rows, t, b, f)
                if place >= 0:
                    to = (t * n_windows + b) * n_frames + f
                    memcpy(start + to * width, start + place * width, width)
    return True


@njit(__file__)
def _earlier(rows, t, b, f):
    """Where the same row is read before, -1 if it is not."""
    _, n_windows, n_frames = rows.shape
    at = (t * n_windows + b) * n_frames + f
    if f > 0 and rows[t, b, f] == rows[t, b, f - 1]:
        return at - 1
    if t > 0 and f + 1 < n_frames and rows[t, b, f] == rows[t - 1, b, f + 1]:
        return at - n_windows * n_frames + 1
    if t > 0 and rows[t, b, f] == rows[t - 1, b, f]:
        return at - n_windows * n_frames
    return -1


@njit(__file__)
def _call(handle, vector, n, first, following, width, write):
    """Whether a system call moves the rows ``first`` up to ``following``."""
    if n == 0:
        return True
    if write:
        done = pwritev(handle, vector, n, first * width)
    else:
        done = preadv(handle, vector, n, first * width)
    return done == (following - first) * width
