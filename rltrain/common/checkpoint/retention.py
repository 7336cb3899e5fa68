"""Which checkpoints of a run are kept."""

from __future__ import annotations

import shutil
from pathlib import Path

from rltrain.common.checkpoint.locate import drop_part, list_steps, name_pointer, pointed, read_kind
from rltrain.common.files import drop_temporary


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
    for later in [other for other in list_steps(checkpoints) if other > step]:
        shutil.rmtree(checkpoints / str(later), ignore_errors=True)


def prune(checkpoints: Path, keep_last: int) -> None:
    """Delete all but the newest ``keep_last`` full checkpoints and the best."""
    keep = {pointed(checkpoints, "best"), pointed(checkpoints, "latest")}
    kinds = {s: read_kind(checkpoints / str(s)) for s in list_steps(checkpoints)}
    keep |= set([s for s, kind in kinds.items() if kind == "full"][:keep_last])
    for step in kinds:
        if step not in keep:
            shutil.rmtree(checkpoints / str(step), ignore_errors=True)
