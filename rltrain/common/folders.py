"""New folders below ``outputs/``, and others that are new, empty or of the same kind."""

from __future__ import annotations

import secrets
from datetime import datetime
from pathlib import Path

from rltrain.errors import UsageError

EPISODES = "episodes.html"
"""The page of recorded episodes, in the folder of a recording."""
TRIALS = "trials"
"""The folder in that of a search, with the runs of its trials."""
SHOWN = 3
"""Names that a message lists."""


def new_folder(group: str, mark: str = "", name: str | None = None) -> Path:
    """``outputs/<group>/<date>_<time><mark>-<4 hex>``, or ``outputs/<group>/<name>``."""
    name = name or datetime.now().strftime(f"%Y-%m-%d_%H-%M-%S{mark}-{secrets.token_hex(2)}")
    return Path.cwd() / "outputs" / group / name


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
