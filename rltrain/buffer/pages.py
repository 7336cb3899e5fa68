"""Arrays in pages of the system's memory."""

from __future__ import annotations

import mmap
import platform

import numpy as np
from rich.filesize import decimal

LINUX = platform.system() == "Linux" and platform.machine() in ("x86_64", "aarch64")
NO_RESERVE: int = getattr(mmap, "MAP_NORESERVE", 0x4000 if LINUX else 0)
"""A flag that Python names since 3.13."""


def zeroed(n_rows: int, like: np.ndarray) -> np.ndarray:
    """Zeros with ``n_rows`` rows like ``like``, whose pages use no memory until written."""
    width, dtype = like.shape[1], like.dtype
    n_bytes = n_rows * width * dtype.itemsize
    if n_bytes == 0:
        return np.zeros((n_rows, width), dtype)
    try:
        pages = mmap.mmap(-1, n_bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE)
    except OSError as error:
        raise RuntimeError(
            f"the buffer could not reserve {decimal(n_bytes)} of address space ({error}): "
            "lower buffer.max_bytes."
        ) from error
    return np.frombuffer(pages, dtype, n_rows * width).reshape(n_rows, width)
