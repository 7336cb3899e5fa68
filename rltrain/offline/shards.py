"""The files of a dataset: numbered shards of whole episodes, and ``dataset.json`` that lists them.

A shard is one safetensors file: pieces of experience one after the other, by time step, and how
long each is. It is written aside and renamed, then listed: what is listed is complete.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter, ValidationError

from rltrain.buffer.fields import step_fields
from rltrain.common.checkpoint.fit import size_words
from rltrain.common.files import (
    JsonObject,
    digest,
    drop_temporary,
    get_json,
    put_text,
    replacing,
    sync,
)
from rltrain.common.json_text import entry_name, first_problem
from rltrain.common.machine.places import require_writable
from rltrain.common.number_types import Flag, Whole
from rltrain.common.spec_record import changes, excerpt, read_spec
from rltrain.errors import DatasetError, EnvError, UsageError, reason
from rltrain.types import EnvSpec, SpecRecord


@dataclass(frozen=True)
class ShardEntry:
    """The entry of a shard in the index."""

    file: str
    bytes: Whole
    sha256: str
    steps: Whole
    pieces: Whole
    episodes: Whole
    transitions: Whole
    probabilities: Flag


@dataclass(frozen=True)
class Index:
    """Fields that an index must have."""

    format: Whole
    spec: JsonObject
    shards: list[ShardEntry]


FORMAT = 1
"""Version of the layout; readers refuse a newer one."""
INDEX = "dataset.json"
LARGEST_INDEX = 1 << 28
"""Largest JSON file that is read, in bytes."""
AGAIN = "Copy the dataset again, or record a new one."
SIZES = ("n_agents", "n_actions", "obs_shape", "obs_dtype", "state_dim", "n_rewards")
"""The fields of an EnvSpec that must agree for experience to fit."""


def stored_fields(spec: EnvSpec) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    """Shape and type of every field of a time step, as stored. ``probability``: probability that
    each agent's action had under the recorded policy; NaN = unknown.
    """
    action = np.dtype(np.int16 if spec.n_actions < 1 << 15 else np.int32)
    return {
        **step_fields(spec, "float32"),
        "action": ((spec.n_agents,), action),
        "probability": ((spec.n_agents,), np.dtype(np.float32)),
    }


def shard_name(number: int) -> str:
    """The file name of a shard."""
    return f"shard-{number:05d}.safetensors"


def write_shard(
    folder: Path, number: int, arrays: Mapping[str, np.ndarray], content: bytes
) -> JsonObject:
    """Write one shard into a folder with an index and give its entry there.

    Args:
        arrays: every field [time steps, …]; ``length`` [pieces] transitions; ``whole`` [pieces],
            whether the piece is an episode from its first to its final step.
        content: the same as bytes of safetensors.

    Raises:
        EnvError: the disk is full or cannot be written.
    """
    final = folder / shard_name(number)
    try:
        drop_temporary(folder, final.name, INDEX)
        with replacing(final) as temporary:
            temporary.write_bytes(content)
            sync(temporary)
            entry = {
                "file": final.name,
                "bytes": len(content),
                "sha256": digest(temporary),
                "steps": len(arrays["last"]),
                "pieces": len(arrays["length"]),
                "episodes": int(arrays["whole"].sum()),
                "transitions": int(arrays["length"].sum()),
                "probabilities": bool(np.isfinite(arrays["probability"]).all()),
            }
        sync(folder)
    except OSError as error:
        raise refused_disk(folder, error) from error
    return entry


def write_index(folder: Path, facts: Mapping[str, object], shards: list[JsonObject]) -> None:
    """List the shards, with their sums and ``facts`` such as spec and origin.

    Raises:
        EnvError: the disk is full or cannot be written.
    """
    counted = ("episodes", "transitions", "bytes")
    sums = {name: sum(shard[name] for shard in shards) for name in counted}
    record = {"format": FORMAT, **facts, **sums, "shards": shards}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        put_text(folder / INDEX, json.dumps(record, indent=1))
    except OSError as error:
        raise refused_disk(folder, error) from error


def refused_disk(folder: Path, error: OSError) -> EnvError:
    """The error of a disk that is full or cannot be written."""
    return EnvError(
        f"The dataset {folder} cannot be written: {error}. Free disk space, or type "
        "dataset.max_bytes=BYTES to stop recording in time."
    )


def read_index(folder: Path) -> JsonObject:
    """``dataset.json``, after looking at every file that it lists.

    Raises:
        UsageError: there is no dataset.
        DatasetError: it is damaged, or of a newer format.
    """
    path = folder / INDEX
    if not path.is_file():
        raise UsageError(
            f"There is no dataset at {folder}. Expected the path of one folder with {INDEX}, as "
            "dataset.write=FOLDER makes it."
        )
    if path.is_symlink():
        raise DatasetError(f"{path} is a link, which is not followed. {AGAIN}")
    try:
        index = get_json(path, LARGEST_INDEX)
        if not isinstance(index, dict):
            raise ValueError(f"expected a JSON object, got {type(index).__name__}")
    except (OSError, ValueError) as error:
        raise DatasetError(f"{path} cannot be read ({reason(error)}). {AGAIN}") from error
    version = index.get("format")
    if isinstance(version, int) and version > FORMAT:
        raise DatasetError(
            f"{folder} was written by a newer rltrain (format {version}, this one reads {FORMAT}): "
            "update rltrain."
        )
    require_index(path, index)
    for shard in index["shards"]:
        file = folder / name_in(path, shard["file"])
        if not file.is_file():
            raise DatasetError(f"{file} is missing. {AGAIN}")
        if file.stat().st_size != shard["bytes"]:
            raise damaged(file, f"expected {shard['bytes']} bytes, got {file.stat().st_size}")
    return index


def name_in(index: Path, listed: str) -> str:
    """The name of a file that an index lists; DatasetError for one elsewhere, or a link."""
    with suppress(ValueError):
        if not (index.parent / entry_name(listed)).is_symlink():
            return listed
    raise damaged(index, f"it lists {listed!a:.40}, which is not a regular file there")


def require_index(path: Path, index: JsonObject) -> None:
    """DatasetError for an index with anything missing or of a different type."""
    try:
        checked: Index = TypeAdapter(Index).validate_python(index)
        spec, names = checked.spec, Counter(shard.file for shard in checked.shards)
        if missing := [name for name in SIZES if name not in spec]:
            raise damaged(path, f"spec.{missing[0]} is missing")
        if twice := next((name for name, n in names.items() if n > 1), None):
            raise damaged(path, f"it lists {twice!a:.40} twice")
        for name in ("episodes", "transitions"):
            total = sum(getattr(shard, name) for shard in checked.shards)
            if checked.shards and index.get(name, total) != total:
                raise damaged(path, f"{name} is not the sum of those of its shards")
    except ValidationError as error:
        raise damaged(path, first_problem(error)) from error
    try:
        read_spec(spec)
    except ValueError as error:
        raise damaged(path, f"spec.{error}") from error


def list_sums(shards: Sequence[JsonObject]) -> list[str]:
    """The SHA-256 sums of shards, in their order."""
    return [shard["sha256"] for shard in shards]


def require_same(folder: Path, sums: object, shards: Sequence[JsonObject]) -> None:
    """DatasetError for another dataset than that of which a run has saved the first ``sums``."""
    if sums != list_sums(shards):
        raise DatasetError(
            f"{folder} is not the dataset that this run was saved with: the checksums of its "
            "shards differ. Put that one back, or start a new run."
        )


def damaged(path: Path, why: str) -> DatasetError:
    """The error of a damaged dataset."""
    return DatasetError(f"{path} is damaged: {why}. {AGAIN}")


def require_free(folder: Path) -> None:
    """UsageError where there are files already, or none can be created: a dataset is written into a
    new folder.
    """
    if is_used(folder):
        raise UsageError(
            f"dataset.write={folder} already exists: a dataset is written into a new folder. "
            "Choose another name."
        )
    require_writable(folder.absolute(), "dataset.write")


def is_used(folder: Path) -> bool:
    """Whether there is anything but what a killed process was writing."""
    begun = (".shard-", f".{INDEX}.")
    if folder.is_dir():
        return any(not path.name.startswith(begun) for path in folder.iterdir())
    return folder.exists()


def require_fit(folder: Path, theirs: SpecRecord, spec: EnvSpec) -> None:
    """UsageError, with both sizes or both spaces, for experience of another kind of environment."""
    ours = spec.record
    if all(ours[name] == theirs.get(name) for name in SIZES):
        changed = changes(theirs, ours)
        how = changed and f"with different spaces: {changed}"
    else:
        there, here = (
            f"{size_words(r)}, {r['obs_dtype']} observations, {r['n_rewards']} rewards"
            for r in (theirs, ours)
        )
        how = f"with {excerpt(there, here)}, this environment has {excerpt(here, there)}"
    if how:
        raise UsageError(
            f"The dataset {folder} does not fit: it was recorded {how}. Choose the environment it "
            "was recorded in."
        )
