"""The manifest of a checkpoint: sizes and SHA-256 sums of its files, and its own.

Sums protect from damage, not from somebody who writes new ones: nothing that is read executes
code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rltrain.common.files import digest, get_json, put_text, sync
from rltrain.errors import CheckpointError

FORMAT = 1
"""Version of the folder's layout; readers refuse a newer one."""
MANIFEST = "manifest.json"
MANIFEST_BYTES = 1 << 20
"""A larger manifest is not read."""


def seal(folder: Path, kind: str) -> None:
    """Sync every file, then write the manifest with sizes and SHA-256 sums."""
    files = {}
    for file in sorted(folder.iterdir()):
        if file.name != MANIFEST:
            sync(file)
            files[file.name] = {"bytes": file.stat().st_size, "sha256": digest(file)}
    put_manifest(folder, {"format": FORMAT, "kind": kind, "files": files})


def put_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write a manifest with the SHA-256 sum of its own contents."""
    sealed = {**manifest, "sha256": own_digest(manifest)}
    put_text(folder / MANIFEST, json.dumps(sealed, indent=1))


def own_digest(manifest: Mapping[str, Any]) -> str:
    """The SHA-256 sum of a manifest's contents but this sum."""
    contents = {key: value for key, value in manifest.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()


def drop_part(folder: Path, part: str) -> None:
    """Remove one part of a finished checkpoint, first from the manifest, then from disk; and what
    is left of one whose removal was interrupted.
    """
    manifest = stored_manifest(folder)
    kept = {n: facts for n, facts in manifest["files"].items() if n.partition(".")[0] != part}
    if len(kept) < len(manifest["files"]):
        put_manifest(folder, {**manifest, "files": kept})
    for file in folder.iterdir():
        if file.name not in kept and file.name != MANIFEST and not file.is_dir():
            file.unlink()


def stored_manifest(folder: Path) -> dict[str, Any]:
    """The manifest as it is stored; its files are not compared with it.

    Raises:
        OSError, ValueError: it cannot be read, or is no manifest.
    """
    manifest = get_json(folder / MANIFEST, MANIFEST_BYTES)
    if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), dict):
        raise ValueError(f"{MANIFEST} lists no files")
    return manifest


def manifest_of(folder: Path) -> dict[str, Any]:
    """The manifest, after comparing every file with it.

    Raises:
        CheckpointError: what is missing, changed or unreadable.
    """
    path = folder / MANIFEST
    try:
        if path.is_symlink() or not path.is_file():
            raise CheckpointError(f"{path} is missing or no plain file.")
        manifest = stored_manifest(folder)
        files, version = manifest["files"], manifest["format"]
        if type(version) is not int or not isinstance(manifest.get("kind"), str):
            raise CheckpointError(f"{path} is damaged: its format or kind is none.")
        if version > FORMAT:
            raise CheckpointError(
                f"{folder} was written by a newer rltrain (format {version}, this one reads "
                f"{FORMAT}): update rltrain."
            )
        if manifest["sha256"] != own_digest(manifest):
            raise CheckpointError(f"{path} is damaged: its checksum is not that of its contents.")
        for name, facts in files.items():
            file = folder / name
            if name != Path(name).name or file.is_symlink() or not file.is_file():
                raise CheckpointError(f"{file} is missing or no plain file.")
            if file.stat().st_size != facts["bytes"] or digest(file) != facts["sha256"]:
                raise CheckpointError(f"{file} is damaged: its checksum is not the manifest's.")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{folder} holds no readable manifest ({error}).") from error
    return manifest
