"""Numba's cache of the engine's machine code.

Numba notices a change in the file of a function but not in the files of its helpers, so the cache
folder carries a hash of all kernel files and of Numba's version.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache

settings: Any = numba.config
MAX_THREADS: int = settings.NUMBA_NUM_THREADS
CONSTANTS = ("data/map_data", "engine/compile_cache", "engine/world")
"""Modules without kernels whose constants or options end up in machine code."""


def kernel_files() -> list[Path]:
    """The modules whose code or constants end up in machine code."""
    package = Path(__file__).parents[1]
    modules = [path for name in ("engine", "smaclite") for path in (package / name).rglob("*.py")]
    kernels = {path for path in modules if b"\n@njit(" in path.read_bytes()}
    return sorted(kernels | {package / f"{name}.py" for name in CONSTANTS})


@cache
def cache_folder() -> Path | None:
    """``folder_for`` the kernel files."""
    return folder_for("battles", kernel_files())


def folder_for(name: str, sources: Iterable[Path]) -> Path | None:
    """The user's cache folder for these files as they are now; None if that cannot be written: a
    warning says that machine code is made again by every process.
    """
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sources:
        digest.update(source.read_bytes())
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        folder = Path(base).expanduser() / "rltrain" / f"{name}-{digest.hexdigest()[:12]}"
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except (OSError, RuntimeError):  # RuntimeError: this user has no home folder
        pass
    warn_unkept(f"{base}/rltrain")
    return None


@cache
def warn_unkept(folder: str | Path, reason: str = "") -> None:
    """Warn, once, that machine code is made again by every process."""
    warnings.warn(
        f"Compiled code cannot be kept in {folder}{reason}, so that every process compiles it "
        "again. XDG_CACHE_HOME=FOLDER chooses a folder that can be written.",
        stacklevel=1,
    )


class ForgivingCache(FunctionCache):
    """Numba's cache of a function, which never fails: what cannot be read is compiled and written
    again, and what cannot be written is compiled by every process.
    """

    def load_overload(self, *place: Any) -> Any:
        with suppress(Exception):  # damaged files raise any
            return super().load_overload(*place)
        with suppress(OSError):
            self.flush()  # the index, which saving reads
        return None

    def save_overload(self, *code: Any) -> None:
        try:
            super().save_overload(*code)
        except Exception as error:  # also where a damaged index could not be emptied
            why = getattr(error, "strerror", None) or type(error).__name__
            warn_unkept(Path(self.cache_path).parents[1], f" ({why})")


def compiled(function: object, folder: Path | None, **options: Any) -> Any:
    """``numba.njit`` of a function, kept in ``folder``, if there is one.

    Numba's cache folder is one setting for the process, read when a function is decorated; other
    compiled code may have set its own, so it is put back.
    """
    made, before = numba.njit(error_model="numpy", **options)(function), settings.CACHE_DIR
    settings.CACHE_DIR = str(folder or "")
    try:
        if folder is not None:  # as ``cache=True`` does
            made._cache = ForgivingCache(function)
    finally:
        settings.CACHE_DIR = before
    return made


def is_compiled(function: Any) -> bool:
    """Whether the machine code of a kernel is in the cache, from this very checkout:
    Numba keeps that of every path apart."""
    name = function.py_func.__qualname__
    return function.stats.cache_path is not None and any(
        Path(function.stats.cache_path).glob(f"*.{name}-*.nbc")
    )
