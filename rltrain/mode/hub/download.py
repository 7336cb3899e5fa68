"""checkpoint=hf://owner/name: a run from the Hub.

What is downloaded is untrusted data: files of known names and limited sizes, read as any
checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from rltrain.common.files import digest, open_plain
from rltrain.common.machine.install import require_extra
from rltrain.common.machine.places import user_cache
from rltrain.errors import CheckpointError, UsageError, reason, usage_errors

PREFIX = "hf://"
ADDRESS = re.compile(r"hf://([\w.-]+/[\w.-]+)((?:/[\w.-]+)*)/?")
FILES = re.compile(
    r"(config|run)\.json|checkpoints/(best|latest|\d{1,15}/((manifest|config|spec|model)\.json|"
    r"model\.safetensors))"
)
"""The only files of a run that are downloaded."""
MAX_BYTES = {".safetensors": 2_000_000_000, ".json": 10_000_000, "": 100}
"""Largest size of a file, by its suffix."""
MAX_FILES = 1_000


def download(typed: str) -> Path:
    """The local copy of what ``hf://owner/name[/path]`` means: a run folder, or a part of one.

    Raises:
        UsageError: no such address, or the extra is missing.
        CheckpointError: it cannot be downloaded, or is larger than a checkpoint should be.
    """
    address = ADDRESS.fullmatch(typed)
    if address is None or ".." in typed:
        raise UsageError(
            f"checkpoint={typed}: expected hf://owner/name, or hf://owner/name/checkpoints/500000."
        )
    api = client(f"checkpoint={typed}")
    repo, path = address[1], PurePosixPath(address[2].lstrip("/"))
    try:
        commit = str(api.repo_info(repo_id=repo).sha)
        if not re.fullmatch("[0-9a-f]{1,64}", commit):
            raise TypeError(f"its commit is {commit!r:.80}")
        files = wanted(api.list_repo_tree(repo_id=repo, recursive=True, revision=commit), path)
        folder = cache() / repo.replace("/", "--") / commit
        for name, entry in [*files.items()] * 2:  # what arrives damaged is fetched again once
            if not intact(folder / name, entry):
                given = {"repo_id": repo, "filename": name, "revision": commit}
                api.hf_hub_download(**given, local_dir=folder, force_download=True)
        for file, size in ((folder / name, entry.size) for name, entry in files.items()):
            if file.is_symlink() or file.stat().st_size != size:
                file.unlink()
                raise CheckpointError(f"{file.name} is not the {size:,} bytes that were listed.")
    except CheckpointError as error:
        raise CheckpointError(f"{typed}: {error}") from error
    except (LookupError, TypeError, AttributeError, json.JSONDecodeError) as error:
        problem = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise CheckpointError(
            f"{typed}: the repository's listing is malformed: {problem}."
        ) from error
    except Exception as error:
        raise CheckpointError(f"{typed} cannot be downloaded ({reason(error)}).") from error
    if not files:
        raise CheckpointError(f"{typed} has no checkpoint of rltrain.")
    return folder / path


def wanted(listed: Iterable[Any], path: PurePosixPath) -> dict[str, Any]:
    """The listed files of the run at ``path``, or of the run that it is a part of, by their names.

    Raises:
        CheckpointError: there are too many, or one is too large.
        TypeError: the listing is malformed.
    """
    parts = path.parts
    inside = parts.index("checkpoints") if "checkpoints" in parts else len(parts)
    run, one = PurePosixPath(*parts[:inside]), parts[inside + 1 : inside + 2]
    files: dict[str, Any] = {}
    for entry in listed:
        file = PurePosixPath(entry.path)
        if not file.is_relative_to(run) or getattr(entry, "size", None) is None:
            continue
        name = file.relative_to(run)
        step = name.parts[1] if len(name.parts) == 3 else None
        other = step is not None and bool(one) and one[0].isdigit() and step != one[0]
        if other or not FILES.fullmatch(str(name)):
            continue
        if type(entry.size) is not int or entry.size < 0:
            raise TypeError(f"{file} has {entry.size!r:.40} bytes")
        if entry.size > MAX_BYTES[name.suffix]:
            raise CheckpointError(f"{file} has {entry.size:,} bytes, too many for such a file.")
        files[str(file)] = entry
        if len(files) > MAX_FILES:
            raise CheckpointError(f"The repository has more than {MAX_FILES:,} checkpoint files.")
    return files


def intact(file: Path, entry: Any) -> bool:
    """Whether a file has the size and the checksum that were listed, Git's or that of Git LFS."""
    if file.is_symlink() or not file.is_file() or file.stat().st_size != entry.size:
        return False
    if entry.lfs is not None:
        return digest(file) == entry.lfs.sha256
    with open_plain(file) as content:
        blob = b"blob %d\0" % entry.size + content.read()
    return hashlib.sha1(blob, usedforsecurity=False).hexdigest() == entry.blob_id


def cache() -> Path:
    """Where downloads are kept: ``$XDG_CACHE_HOME/rltrain/hub``."""
    return user_cache().resolve() / "hub"


def client(typed: str) -> Any:
    """The client of the Hub; UsageError if it is not installed."""
    with usage_errors():
        require_extra("hub", "huggingface_hub", typed)
    from huggingface_hub import HfApi

    return HfApi()
