"""The checkpoints of a run: their manifests (sizes and SHA-256 sums of files, and their own), which
one a path and a step refer to, and which are kept.

Sums protect from damage, not from someone who writes new ones: nothing that is read executes
code.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Literal

from rltrain.common.files import (
    SHOWN,
    JsonObject,
    digest,
    drop_temporary,
    get_json,
    get_text,
    put_text,
    sync,
    walk,
    whole_number,
)
from rltrain.errors import CheckpointError, RemovedError, UsageError

MODEL, TRAINER, REPLAY, SPEC, CONFIG = PARTS = ("model", "trainer", "replay", "spec", "config")
"""The parts of a checkpoint."""
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


def put_manifest(folder: Path, manifest: Mapping[str, object]) -> None:
    """Write a manifest with the SHA-256 sum of its own contents."""
    sealed = {**manifest, "sha256": own_digest(manifest)}
    put_text(folder / MANIFEST, json.dumps(sealed, indent=1))


def own_digest(manifest: Mapping[str, object]) -> str:
    """The SHA-256 sum of a manifest's contents except this sum."""
    contents = {key: value for key, value in manifest.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()


def drop_part(folder: Path, part: str) -> None:
    """Remove a part of a finished checkpoint, first from the manifest; other files stay."""
    manifest = stored_manifest(folder)
    kept = {n: facts for n, facts in manifest["files"].items() if n.partition(".")[0] != part}
    if len(kept) < len(manifest["files"]):
        put_manifest(folder, {**manifest, "files": kept})
    drop_temporary(folder, MANIFEST)
    for file in folder.iterdir():
        if file.name.partition(".")[0] == part and not file.is_dir():
            file.unlink()


def stored_manifest(folder: Path) -> JsonObject:
    """The manifest as it is stored; its files are not compared with it.

    Raises:
        OSError, ValueError: it cannot be read, or is not a manifest.
    """
    manifest = get_json(folder / MANIFEST, MANIFEST_BYTES)
    if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), dict):
        raise ValueError(f"{MANIFEST} lists no files")
    return manifest


@contextmanager
def unless_removed(folder: Path) -> Iterator[None]:
    """Context that reads a checkpoint which was found.

    Raises:
        RemovedError: in place of other errors, if its folder is no longer there.
    """
    try:
        yield
    except Exception as error:
        if folder.is_dir() and not isinstance(error, FileNotFoundError):  # it may be half removed
            raise
        raise RemovedError(
            f"{folder} is no longer there: a training removes all but its best and its newest "
            "checkpoints (save.keep_last). Run the command again, or type "
            f"{quote(str(folder.parent / 'best'))} in place of the run."
        ) from error


def listed_files(folder: Path) -> JsonObject:
    """The files that a manifest lists, with their sizes and sums.

    Raises:
        CheckpointError: it cannot be read.
    """
    try:
        files: JsonObject = stored_manifest(folder)["files"]
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{folder} holds no readable manifest ({error!s:.300}).") from error
    return files


def checked_manifest(folder: Path) -> JsonObject:
    """The manifest, after comparing every file with it.

    Raises:
        CheckpointError: what is missing, changed or unreadable.
    """
    path = folder / MANIFEST
    try:
        if path.is_symlink() or not path.is_file():
            raise CheckpointError(f"{path} is missing or not a regular file.")
        manifest = stored_manifest(folder)
        files, version = manifest["files"], manifest["format"]
        if type(version) is not int or not isinstance(manifest.get("kind"), str):
            raise CheckpointError(f"{path} is damaged: its format or kind is invalid.")
        if version > FORMAT:
            raise CheckpointError(
                f"{folder} was written by a newer rltrain (format {version}, this one reads "
                f"{FORMAT}): update rltrain."
            )
        if manifest["sha256"] != own_digest(manifest):
            raise CheckpointError(f"{path} is damaged: its checksum is not that of its contents.")
        for name, facts in files.items():
            file, shown = folder / name, folder / f"{name:.80}"
            if name != Path(name).name or file.is_symlink() or not file.is_file():
                raise CheckpointError(f"{shown} is missing or not a regular file.")
            if file.stat().st_size != facts["bytes"] or digest(file) != facts["sha256"]:
                raise CheckpointError(f"{shown} is damaged: its checksum is not the manifest's.")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{folder} holds no readable manifest ({error!s:.300}).") from error
    return manifest


POINTER_BYTES = 100
"""A longer ``best`` or ``latest`` is not read."""


@dataclass(frozen=True)
class Found:
    """A checkpoint that was chosen: its folder, its env step, and remarks to print."""

    folder: Path
    step: int
    remarks: tuple[str, ...] = ()


def list_steps(checkpoints: Path) -> list[int]:
    """The steps of all folders that look like checkpoints, newest first."""
    names = {p.name for p in checkpoints.glob("[0-9]*") if p.is_dir()}
    numbers = {n for n in map(whole_number, names) if n is not None}
    return sorted((n for n in numbers if str(n) in names), reverse=True)


def checkpoints_folder(path: Path) -> Path:
    """The ``checkpoints/`` of a run folder, or the path itself."""
    inner = path / "checkpoints"
    return inner if inner.is_dir() else path


def is_one(path: Path) -> bool:
    """Whether a path refers to a single checkpoint, by its step or by a pointer."""
    if (path / MANIFEST).is_file() or (path.name in ("best", "latest") and path.is_file()):
        return True
    if whole_number(path.name) is None or (path / "checkpoints").is_dir():
        return False
    runs = (folder for folder, _, names in walk(path) if "run.json" in names)
    return next(runs, None) is None  # a folder of runs may be named after a year


def find(
    path: Path, load_step: int | Literal["best", "all"] | None = None, *, full: bool = False
) -> Found:
    """The checkpoint that a path and a step refer to.

    Args:
        path: a run folder, its ``checkpoints/`` or ``checkpoints/best`` or ``latest``, or one
            checkpoint.
        load_step: the checkpoint nearest to this env step, or of the best test; None = the newest.
        full: only checkpoints that a run can resume from.

    Raises:
        CheckpointError: nothing there, or nothing valid there.
        UsageError: a step together with a single checkpoint.
    """
    if load_step == "all":
        raise UsageError("load_step=all is for mode=evaluate: expected one env step, or best.")
    if is_one(path):
        if load_step is not None:
            raise UsageError(
                f"load_step={load_step} chooses a checkpoint of a run, and {path} is one. Leave "
                "out load_step, or give the run folder."
            )
        return single(path)
    checkpoints = checkpoints_folder(path)
    steps = list_steps(checkpoints)
    if not steps:
        name = " That of a trainer is trainer.run_dir." if str(path) in ("best", "latest") else ""
        raise CheckpointError(
            f"There is no checkpoint at {path}. Expected a run folder "
            f"(outputs/<algo>-<env>/<run>), its checkpoints/ or one checkpoint in it.{name}"
        )
    if load_step == "best":
        return single(checkpoints / "best")
    if load_step is not None:
        if not math.isfinite(load_step):
            raise UsageError(f"load_step={load_step}: expected the env step of a checkpoint.")
        nearest = min(steps, key=lambda s: abs(s - load_step))
        other = f"There is no checkpoint of env step {load_step:,}: {nearest:,} is the nearest."
        chosen = single(checkpoints / str(nearest))
        return chosen if nearest == load_step else replace(chosen, remarks=(other,))
    remarks: list[str] = []
    for step in steps:
        try:
            if checked_manifest(checkpoints / str(step))["kind"] == "full" or not full:
                return Found(checkpoints / str(step), step, first_remarks(remarks))
        except CheckpointError as error:
            remarks.append(f"Skipped checkpoint {step}: {error}")
    override = f"checkpoint={quote(str(path))}"
    weights = f"It holds weights only: start a new run from them with {override}."
    use = "to resume from" if full else "that can be read"
    text = [f"{path} holds no checkpoint {use}.", *(first_remarks(remarks) or [weights])]
    with unless_removed(checkpoints / str(steps[0])):
        raise CheckpointError("\n".join(text))


def first_remarks(skipped: Sequence[str]) -> tuple[str, ...]:
    """The first remarks on skipped checkpoints, and how many more there are."""
    more = len(skipped) - SHOWN
    return (*skipped[:SHOWN], *([f"Skipped {more} more that cannot be read."] if more > 0 else ()))


def single(path: Path) -> Found:
    """One checkpoint, or that which ``best`` or ``latest`` names.

    Raises:
        CheckpointError: nothing there, or nothing valid there.
    """
    if path.name in ("best", "latest"):
        step = pointed(path.parent, path.name)
        if step is None:
            raise CheckpointError(f"{path.parent} names no {path.name} checkpoint.")
        path = path.with_name(str(step))
    if not path.is_dir():
        raise CheckpointError(f"There is no checkpoint at {path}.")
    with unless_removed(path):
        checked_manifest(path)
    return Found(path, whole_number(path.name) or 0)


def name_pointer(checkpoints: Path, pointer: str, step: int) -> None:
    """Let ``checkpoints/best`` or ``checkpoints/latest`` name a step."""
    put_text(checkpoints / pointer, f"{step}\n")


def pointed(checkpoints: Path, pointer: str) -> int | None:
    """The step that a pointer names, or None."""
    try:
        return whole_number(get_text(checkpoints / pointer, POINTER_BYTES).strip())
    except (OSError, ValueError):
        return None


def newest_full(checkpoints: Path) -> int | None:
    """The env step of the newest checkpoint to resume from, without comparing checksums."""
    steps = list_steps(checkpoints)
    return next((s for s in steps if read_kind(checkpoints / str(s)) == "full"), None)


def resumable(checkpoints: Path) -> bool:
    """Whether there is anything but weights, even if damaged."""
    return any(read_kind(checkpoints / str(s)) != "weights" for s in list_steps(checkpoints))


def read_kind(folder: Path) -> str:
    """``full``, ``weights``, or ``broken`` (without comparing checksums)."""
    try:
        return str(stored_manifest(folder)["kind"])
    except (OSError, ValueError, KeyError, TypeError):
        return "broken"


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
