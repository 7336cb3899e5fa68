"""Checkpoints: atomic, checksummed, versioned and pickle-free folders of safetensors and JSON.

A checkpoint is written into a temporary folder, synced, given its manifest last, and renamed: it
is complete or it is not there. Tensors of a state go to ``<part>.safetensors``, arrays too large to
copy to ``<part>.<path>.npy``, everything else to ``<part>.json``.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from rltrain.common.files import get_json, sync
from rltrain.common.files import put_text as put_text
from rltrain.common.manifest import MANIFEST, drop_part, manifest_of, seal, stored_manifest
from rltrain.common.state_tree import join, put_array, split
from rltrain.errors import CheckpointError, UsageError


def write(
    parent: Path, step: int, parts: Mapping[str, Mapping[str, Any]], kind: str = "full"
) -> Path:
    """Write ``parent/<step>/`` with one pair of files per part; replaces a checkpoint of the same
    step.

    Args:
        parts: part name to its state: nested dicts and lists of tensors, arrays, numbers, text,
            None.
        kind: ``full`` (a run can resume from it) or ``weights``.
    """
    final = parent / str(step)
    temporary = parent / f".tmp-{step}-{os.getpid()}"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        for name, state in parts.items():
            tree, tensors, large = split(state)
            (temporary / f"{name}.json").write_text(json.dumps(tree), encoding="utf-8")
            if tensors:
                save_file(tensors, temporary / f"{name}.safetensors")
            for path, array in large.items():
                put_array(temporary / f"{name}.{path}.npy", array)
        seal(temporary, kind)
        aside = parent / f".tmp-{step}-replaced"
        shutil.rmtree(aside, ignore_errors=True)
        if final.exists():
            os.replace(final, aside)
        os.replace(temporary, final)
        shutil.rmtree(aside, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    sync(parent)
    return final


def put_back(checkpoints: Path) -> None:
    """Give a checkpoint its name again that was being replaced when its process was killed."""
    for aside in checkpoints.glob(".tmp-*-replaced"):
        final = checkpoints / aside.name.split("-")[1]
        if not final.exists():
            os.replace(aside, final)


def read(folder: Path, part: str) -> dict[str, Any]:
    """The state of one part: torch tensors on the CPU, large arrays mapped from their files.

    Raises:
        CheckpointError: unreadable files.
    """
    try:
        listed = stored_manifest(folder)["files"]
        if f"{part}.json" not in listed:
            raise CheckpointError(f"{folder} holds no '{part}'.")
        tree = get_json(folder / f"{part}.json")
        file = f"{part}.safetensors"
        tensors = load_file(folder / file) if file in listed else {}
        for name in listed:
            if name.startswith(f"{part}.") and name.endswith(".npy"):
                path = name.removeprefix(f"{part}.").removesuffix(".npy")
                tensors[path] = np.load(folder / name, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise CheckpointError(f"{folder}: '{part}' cannot be read ({error}).") from error
    out = join(tree, tensors)
    if not isinstance(out, dict):
        raise CheckpointError(f"{folder / part}.json: expected a JSON object.")
    return out


def has(folder: Path, part: str) -> bool:
    """Whether a checkpoint holds a part, according to its manifest."""
    return f"{part}.json" in stored_manifest(folder)["files"]


@dataclass(frozen=True)
class Found:
    """A checkpoint that was chosen: its folder, its env step, and remarks to print."""

    folder: Path
    step: int
    remarks: tuple[str, ...] = ()


def steps_of(checkpoints: Path) -> list[int]:
    """The steps of all folders that look like checkpoints, newest first."""
    folders = [p for p in checkpoints.glob("[0-9]*") if p.is_dir() and p.name.isdigit()]
    return sorted((int(p.name) for p in folders), reverse=True)


def folder_of(path: Path) -> Path:
    """The ``checkpoints/`` of a run folder, or the path itself."""
    inner = path / "checkpoints"
    return inner if inner.is_dir() else path


def is_one(path: Path) -> bool:
    """Whether a path means a single checkpoint, by its step or by a pointer."""
    is_run = (path / "checkpoints").is_dir()
    is_step = (path / MANIFEST).is_file() or (path.name.isdigit() and not is_run)
    return is_step or (path.name in ("best", "latest") and path.is_file())


def find(
    path: Path, load_step: int | Literal["best", "all"] | None = None, *, full: bool = False
) -> Found:
    """The checkpoint that a path and a step mean.

    Args:
        path: a run folder, its ``checkpoints/`` or ``checkpoints/best`` or ``latest``, or one
            checkpoint.
        load_step: the checkpoint nearest to this env step, or of the best test; None = the newest.
        full: only checkpoints that a run can resume from.

    Raises:
        CheckpointError: nothing there, or nothing valid there.
        UsageError: a step beside a single checkpoint.
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
    checkpoints = folder_of(path)
    steps = steps_of(checkpoints)
    if not steps:
        raise CheckpointError(
            f"There is no checkpoint at {path}. Expected a run folder "
            "(outputs/<algo>-<env>/<run>), its checkpoints/ or one checkpoint in it."
        )
    if load_step == "best":
        return single(checkpoints / "best")
    if load_step is not None:
        nearest = min(steps, key=lambda s: abs(s - load_step))
        other = f"There is no checkpoint of env step {load_step:,}: {nearest:,} is the nearest."
        found = single(checkpoints / str(nearest))
        return found if nearest == load_step else replace(found, remarks=(other,))
    remarks: list[str] = []
    for step in steps:
        try:
            if manifest_of(checkpoints / str(step))["kind"] == "full" or not full:
                return Found(checkpoints / str(step), step, tuple(remarks))
        except CheckpointError as error:
            remarks.append(f"Passed over checkpoint {step}: {error}")
    weights = f"It holds weights only: start a new run from them with checkpoint={path}."
    text = [f"{path} holds no checkpoint to go on from.", *(remarks or [weights])]
    raise CheckpointError("\n".join(text))


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
    manifest_of(path)
    return Found(path, int(path.name) if path.name.isdigit() else 0)


def name_pointer(checkpoints: Path, pointer: str, step: int) -> None:
    """Let ``checkpoints/best`` or ``checkpoints/latest`` name a step."""
    put_text(checkpoints / pointer, f"{step}\n")


def pointed(checkpoints: Path, pointer: str) -> int | None:
    """The step that a pointer names, or None."""
    try:
        return int((checkpoints / pointer).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def make_latest(checkpoints: Path, step: int, keep_last: int, newest_only: str) -> None:
    """Point ``latest`` to a full checkpoint; of the others drop the part ``newest_only``; prune."""
    name_pointer(checkpoints, "latest", step)
    prune(checkpoints, keep_last)
    for other in steps_of(checkpoints):
        if other != step and kind_of(checkpoints / str(other)) == "full":
            drop_part(checkpoints / str(other), newest_only)


def prune(checkpoints: Path, keep_last: int) -> None:
    """Delete all but the newest ``keep_last`` full checkpoints and the best; sweep leftovers."""
    keep = {pointed(checkpoints, "best"), pointed(checkpoints, "latest")}
    kinds = {s: kind_of(checkpoints / str(s)) for s in steps_of(checkpoints)}
    keep |= set([s for s, kind in kinds.items() if kind == "full"][:keep_last])
    for step in kinds:
        if step not in keep:
            shutil.rmtree(checkpoints / str(step), ignore_errors=True)
    for leftover in checkpoints.glob(".tmp-*"):
        shutil.rmtree(leftover, ignore_errors=True)


def newest_full(checkpoints: Path) -> int | None:
    """The env step of the newest checkpoint to resume from, without comparing checksums."""
    steps = steps_of(checkpoints)
    return next((s for s in steps if kind_of(checkpoints / str(s)) == "full"), None)


def resumable(checkpoints: Path) -> bool:
    """Whether there is anything but weights, even if damaged."""
    return any(kind_of(checkpoints / str(s)) != "weights" for s in steps_of(checkpoints))


def kind_of(folder: Path) -> str:
    """``full``, ``weights``, or ``broken`` (without comparing checksums)."""
    try:
        return str(stored_manifest(folder)["kind"])
    except (OSError, ValueError, KeyError, TypeError):
        return "broken"
