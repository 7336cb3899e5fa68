"""The files that a run's environment reads, copied into the folder of the run."""

from __future__ import annotations

import shutil
from pathlib import Path

from rltrain.common.files import replacing

KEPT_FILES = "files"
"""The folder in a run's, for the files that its environment reads."""


def kept_file(run_dir: Path, key: str) -> Path | None:
    """A run's own copy of the file that a key names; None if there is none, or a link."""
    path = run_dir / KEPT_FILES / key
    linked = path.is_symlink() or path.parent.is_symlink()
    return path if path.is_file() and not linked else None


def keep_file(run_dir: Path, key: str, source: Path) -> None:
    """Copy the file that a key names into the folder of a run, unless it is that copy."""
    path = run_dir / KEPT_FILES / key
    if path.resolve() != source.resolve():
        path.parent.mkdir(exist_ok=True)
        with replacing(path) as temporary:
            shutil.copyfile(source, temporary)
