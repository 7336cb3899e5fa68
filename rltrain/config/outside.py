"""Keys whose values reach outside the run: paths, addresses, and keys of any name and value.

From a file that was not typed they are never taken. Patterns are of ``fnmatch``; ``env`` stands for
``test.env`` as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Literal

from rltrain.common.metrics import METRICS

Kind = Literal["file", "place", "free", "command"]
OUTSIDE: Mapping[str, Kind] = {
    "env.prices": "file",
    "env.start_positions": "file",
    "env.replay_dir": "place",
    "env.replay_prefix": "place",
    "env.kwargs.*": "free",
    "algo.optimizer.*": "free",
    "callbacks": "free",
    "test.function.*": "free",
    "dataset.write": "place",
    "dataset.read": "place",
    "hardware.address": "place",
    "hardware.worker_resources.*": "free",
    "logger.trackio.*": "place",
    "logger.wandb.*": "place",
    "checkpoint": "place",
    **dict.fromkeys(("mode", "config", "resume", "runs", "trust", "record"), "command"),
    **dict.fromkeys(("hub.*", "report.*", "sweep.*", "tune.*"), "command"),
}
"""``file``: read by the environment, and copied into the run's folder when it begins. ``place``: a
path or an address. ``free``: of any form, of which numbers and single words are harmless.
``command``: what a command does, and no setting of a run.
"""
FILES = tuple(
    f"{part}{key}" for key, kind in OUTSIDE.items() if kind == "file" for part in ("", "test.")
)
"""The keys of files that are copied."""
NOT_LOADED = tuple(key.removesuffix(".*") for key, kind in OUTSIDE.items() if kind == "command")
"""Settings that are not loaded with a run."""
KEPT = (("project",), ("name",), ("group",), ("tags",), ("mode",))
"""Options of a logger that a run keeps."""
NAMES = ("_target_", "maker", "id")
"""Keys of a part of the user's own that name what is imported: ``trust`` is asked for them."""
WORD = re.compile(r"[\w-]{0,64}")

Path = tuple[str, ...]
Leaves = dict[Path, Any]


def leaves(tree: Any, at: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value that is no mapping, and empty mappings, by the names that lead to it."""
    if not isinstance(tree, Mapping) or not tree:
        yield at, tree
        return
    for name, value in tree.items():
        yield from leaves(value, (*at, str(name)))


@lru_cache(4096)
def key_kind(path: Path) -> Kind | None:
    """The mark of the key at a path; None: it stays inside."""
    path = path[1:] if path[:2] == ("test", "env") else path
    if path[-1] == "_target_" or (path[0] == "logger" and path[2:] in KEPT):
        return None
    key = ".".join(path)
    return next((kind for form, kind in OUTSIDE.items() if fnmatchcase(key, form)), None)


def is_plain(value: Any) -> bool:
    """Whether a value of a free-form key is made of numbers, single words and metrics."""
    if isinstance(value, str):
        return WORD.fullmatch(value) is not None or value in METRICS
    if isinstance(value, Mapping):
        return all(is_plain(str(name)) and is_plain(v) for name, v in value.items())
    return all(map(is_plain, value)) if isinstance(value, list) else True
