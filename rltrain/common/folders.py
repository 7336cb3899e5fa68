"""Folders that are written into only if they are new, empty or of the same kind."""

from __future__ import annotations

from pathlib import Path

from rltrain.errors import UsageError

SHOWN = 3
"""Names that a message lists."""


def require_empty(folder: Path, kind: str, advice: str, own: tuple[str, ...] = ()) -> None:
    """Refuse a folder that holds files of something else.

    Args:
        kind: what is to be written, as in "a run".
        advice: what to type instead.
        own: beginnings of names that are of this kind.

    Raises:
        UsageError: names files.
    """
    if not folder.is_dir():
        return
    names = sorted(path.name for path in folder.iterdir() if not path.name.startswith(own or "/"))
    if names:
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        raise UsageError(
            f"{folder} is not empty ({', '.join(names[:SHOWN])}{more}), and {kind} is not written "
            f"among other files. {advice}"
        )
