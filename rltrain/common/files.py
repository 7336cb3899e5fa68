"""Small files, written atomically, and checksums."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from rltrain.errors import UsageError


def put_text(path: Path, text: str) -> None:
    """Replace a small file atomically."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    sync(temporary)
    os.replace(temporary, path)
    sync(path.parent)


def drop_temporary(folder: Path, *names: str) -> None:
    """Remove what processes left that were killed while they replaced the files ``names``."""
    for name in names:
        for leftover in folder.glob(f".{name}.*"):
            leftover.unlink(missing_ok=True)


def get_json(path: Path, limit: int | None = None) -> Any:
    """Read a JSON file that somebody else may have written.

    Args:
        limit: largest size, in bytes.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no JSON, too large or nested too deep, or has one key twice.
    """
    if limit is not None and path.stat().st_size > limit:
        raise ValueError(f"{path.name} is larger than {limit:,} bytes")
    try:
        return json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=unique_keys)
    except RecursionError as error:
        raise ValueError(f"{path.name} is nested too deep") from error


def json_object(path: Path) -> dict[str, Any]:
    """A JSON object from a file; empty if there is none or it cannot be read."""
    try:
        found = get_json(path)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object. Of a key that is there twice, readers would take one and checks the other."""
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"key '{next(n for n in names if names.count(n) > 1)}' is there twice")
    return found


def sync(path: Path) -> None:
    """fsync a file or a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def digest(path: Path) -> str:
    """The SHA-256 sum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def require_writable(folder: Path, key: str = "hydra.run.dir") -> None:
    """Refuse a folder that cannot be made or written, without leaving anything behind.

    Args:
        key: what is typed for another folder.

    Raises:
        UsageError: what to type instead.
    """
    existing = folder
    while not existing.exists():
        existing = existing.parent
    with refused_writes(folder, key), TemporaryFile(dir=existing):
        pass  # it never has a name, so that nothing is left of a process that is killed here


@contextmanager
def refused_writes(folder: Path, key: str = "hydra.run.dir") -> Iterator[None]:
    """Refuse a folder in which a file cannot be made.

    Raises:
        UsageError: what to type instead.
    """
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"The folder {folder} cannot be written: {error.strerror or error}. Start rltrain from "
            f"a folder of yours with room on its disk, or type {key}=FOLDER."
        ) from error


KEPT_FILES = "files"
"""The folder in a run's, where the files lie that its environment reads."""


def kept_file(run_dir: Path, key: str) -> Path | None:
    """The copy in the folder of a run of the file that a key names, unless there is none, or a link
    in its place.
    """
    path = run_dir / KEPT_FILES / key
    linked = path.is_symlink() or path.parent.is_symlink()
    return path if path.is_file() and not linked else None


def keep_file(run_dir: Path, key: str, source: str) -> None:
    """Copy the file that a key names into the folder of a run, unless that has it."""
    path = run_dir / KEPT_FILES / key
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        temporary = path.with_name(f".{key}")
        shutil.copyfile(Path(source).expanduser(), temporary)
        os.replace(temporary, path)
