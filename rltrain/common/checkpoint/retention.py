"""Which checkpoints of a run are kept."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from rltrain.common.checkpoint.locate import (
    drop_part,
    list_steps,
    name_pointer,
    pointed,
    read_kind,
    stored_manifest,
)
from rltrain.common.checkpoint.storage import PARTS
from rltrain.common.files import JsonObject, drop_temporary


def make_latest(checkpoints: Path, step: int, keep_last: int, newest_only: str) -> None:
    """Point ``latest`` to a full checkpoint; of the others drop the part ``newest_only``; prune."""
    drop_temporary(checkpoints, "best", "latest")
    name_pointer(checkpoints, "latest", step)
    prune(checkpoints, keep_last)
    for other in list_steps(checkpoints):
        if other != step and read_kind(checkpoints / str(other)) == "full":
            drop_part(checkpoints / str(other), newest_only)


def drop_later(checkpoints: Path, step: int) -> None:
    """Delete all checkpoints after ``step``, which becomes the latest one."""
    name_pointer(checkpoints, "latest", step)
    if (pointed(checkpoints, "best") or 0) > step:
        (checkpoints / "best").unlink()
    remove(checkpoints, [other for other in list_steps(checkpoints) if other > step])


def prune(checkpoints: Path, keep_last: int) -> None:
    """Delete all but the newest ``keep_last`` full checkpoints and the best."""
    keep = {pointed(checkpoints, "best"), pointed(checkpoints, "latest")}
    kinds = {s: read_kind(checkpoints / str(s)) for s in list_steps(checkpoints)}
    keep |= set([s for s, kind in kinds.items() if kind == "full"][:keep_last])
    remove(checkpoints, [step for step in kinds if step not in keep])


def remove(checkpoints: Path, steps: Sequence[int]) -> None:
    """Delete checkpoints, damaged ones too; a folder in which there is anything else stays."""
    for folder in (checkpoints / str(step) for step in steps):
        listed: JsonObject = {}
        with suppress(OSError, ValueError):
            listed = stored_manifest(folder)["files"]
        names = {path.name for path in folder.iterdir()} - listed.keys()
        if {name.partition(".")[0] for name in names} <= {"manifest", *PARTS}:
            shutil.rmtree(folder, ignore_errors=True)
