"""Small files, written atomically, and checksums."""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

from rltrain.errors import UsageError


def put_text(path: Path, text: str) -> None:
    """Replace a small file atomically."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    sync(temporary)
    os.replace(temporary, path)
    sync(path.parent)


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
    probe = existing / f".rltrain-{secrets.token_hex(4)}"
    try:
        probe.mkdir()
        probe.rmdir()
    except OSError as error:
        raise UsageError(
            f"The folder {folder} cannot be written: {error.strerror}. Start rltrain from a folder "
            f"of yours, or type {key}=FOLDER."
        ) from error
