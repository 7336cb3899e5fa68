"""Compiled code outside the battle engine: Numba's cache folder and options.

Numba's own cache notices a change in the file of a function but not in the files of its helpers, so
the cache folder carries a hash of all sources of compiled code and of Numba's version.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba

settings: Any = numba.config
prange = numba.prange
set_num_threads = numba.set_num_threads
MAX_THREADS: int = settings.NUMBA_NUM_THREADS


@cache
def cache_folder(*sources: str) -> Path:
    """The user's cache folder for these files as they are now; one for this process if that cannot
    be written."""
    digest = hashlib.sha256(numba.__version__.encode())
    for name in (__file__, *sources):
        digest.update(Path(name).read_bytes())
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folder = Path(base).expanduser() / "rltrain" / f"numba-{digest.hexdigest()[:12]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK)
    except OSError:
        writable = False
    return folder if writable else Path(tempfile.mkdtemp(prefix="rltrain-numba-"))


def njit(*sources: str, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """``numba.njit``, cached by the text of ``sources``: all files whose code or constants end up
    in the machine code.

    Numba's cache folder is one setting for the process, read when a function is decorated; other
    compiled code may have set its own, so it is put back.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        before = settings.CACHE_DIR
        settings.CACHE_DIR = str(cache_folder(*sources))
        try:
            return numba.njit(cache=True, error_model="numpy", **options)(function)
        finally:
            settings.CACHE_DIR = before

    return decorate
