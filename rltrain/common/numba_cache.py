"""Compiled code outside the battle engine: Numba's cache folder and options.

Numba's own cache notices a change in the file of a function but not in the files of its helpers, so
the cache folder carries a hash of all sources of compiled code and of Numba's version.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

import numba

from rltrain.battles.engine import compile_cache

prange = numba.prange
set_num_threads = numba.set_num_threads
MAX_THREADS = compile_cache.MAX_THREADS
_sources: dict[str, list[str]] = {}
"""Files whose code ends up in the machine code of ``arithmetic`` functions, by their file."""


@cache
def cache_folder(*sources: str) -> Path | None:
    """The user's cache folder for these files as they are now; None if that cannot be written."""
    return compile_cache.folder_for(
        "numba", map(Path, (__file__, compile_cache.__file__, *sources))
    )


def njit(*sources: str, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """``numba.njit``, cached by the text of ``sources``: all files whose code or constants end up
    in the machine code.
    """
    return partial(compile_cache.compiled, folder=cache_folder(*sources), **options)


def arithmetic(file: str, *helpers: ModuleType, **options: Any) -> Callable[..., Any]:
    """``njit`` of float32 arithmetic, whose multiplications and additions may be fused. "reassoc"
    would undo rounding tricks and round differently on other machines; with "nnan", NaN would not
    propagate.

    Args:
        file: of the functions.
        helpers: other files whose functions they call.
    """
    files = (_sources.get(str(helper.__file__), [str(helper.__file__)]) for helper in helpers)
    _sources[file] = list(dict.fromkeys(chain([file], *files)))
    return partial(njit, *_sources[file], fastmath={"contract", "nsz"}, **options)
