"""A checkpoint's folder, written and read: how a nested ``state_dict`` becomes JSON and arrays."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from rltrain.common.checkpoint.run_checkpoints import (
    CONFIG,
    MODEL,
    SPEC,
    listed_files,
    own_digest,
    seal,
    stored_manifest,
    unless_removed,
)
from rltrain.common.files import DEEPEST, get_json, open_plain, sync, whole_number
from rltrain.common.machine.places import require_writable
from rltrain.errors import CheckpointError, UsageError
from rltrain.types import Pieces, StateDict

PLAIN = (CONFIG, SPEC)
"""The parts that are JSON."""
ACTING = (CONFIG, MODEL, SPEC)
"""The parts that are enough to act."""
PART_BYTES = 1 << 28
"""A larger JSON file of a part is not read."""
HEADER_BYTES = 1 << 24
"""A safetensors file with a longer header is not read."""


def write(
    parent: Path, step: int, parts: Mapping[str, Mapping[str, object]], kind: str = "full"
) -> Path:
    """Write ``parent/<step>/`` with one pair of files per part; replaces a checkpoint of the same
    step. ``parent`` is created, the folder that it is in is not: a run's that was deleted stays so.

    Args:
        parts: part name to its state: nested dicts and lists of tensors, arrays, numbers, text,
            None.
        kind: ``full`` (a run can resume from it) or ``weights``.
    """
    if not parent.exists():
        parent.mkdir()
        sync(parent.parent)
    with sealed(parent / str(step), kind) as folder:
        for name, state in parts.items():
            try:
                tree, arrays = (state, {}) if name in PLAIN else split(state)
                text = json.dumps(tree)
                if len(text) > PART_BYTES:
                    raise ValueError(f"its values are larger than {PART_BYTES:,} bytes of JSON")
            except (TypeError, ValueError) as error:
                raise TypeError(f"the part '{name}' of the checkpoint: {error}") from error
            (folder / f"{name}.json").write_text(text, encoding="utf-8")
            tensors = {path: x for path, x in arrays.items() if not isinstance(x, Pieces)}
            if tensors:
                put_tensors(folder / f"{name}.safetensors", tensors)
            for path, array in arrays.items():
                if isinstance(array, Pieces):
                    put_array(folder / f"{name}.{path}.npy", array)
    return parent / str(step)


@contextmanager
def sealed(final: Path, kind: str) -> Iterator[Path]:
    """Context with a new folder, which gets its manifest and replaces ``final`` at the end."""
    parent, aside = final.parent, final.with_name(f".tmp-{final.name}-replaced")
    temporary = final.with_name(f".tmp-{final.name}-{os.getpid()}")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        yield temporary
        seal(temporary, kind)
        shutil.rmtree(aside, ignore_errors=True)
        if final.exists():
            os.replace(final, aside)
        os.replace(temporary, final)
        sync(parent)  # before what it replaces is deleted
        shutil.rmtree(aside, ignore_errors=True)
    except BaseException:
        restore_replaced(parent)
        raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_new(
    parent: Path, step: int, parts: Mapping[str, Mapping[str, object]], replace: bool
) -> Path:
    """Write the weights ``parent/<step>/``.

    Raises:
        UsageError: it already exists or cannot be created, unless it is to be replaced.
        OSError: it cannot be written.
    """
    if not replace:
        if (parent / str(step)).exists():
            raise UsageError(
                f"{parent / str(step)} already exists and may belong to another agent. Choose "
                "another folder, or pass replace=True."
            )
        require_writable(parent.absolute(), "folder")
    parent.mkdir(parents=True, exist_ok=True)
    return write(parent, step, parts, "weights")


def copy_weights(source: Path, folder: Path) -> None:
    """Copy what acting needs of a checkpoint into a new folder, with a manifest of its own."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with sealed(folder, "weights") as temporary, unless_removed(source):
        for name in stored_manifest(source)["files"]:
            if name.partition(".")[0] in ACTING:
                shutil.copy(source / name, temporary / name)


def weights_digest(folder: Path) -> str:
    """The SHA-256 sum of what acting needs of a checkpoint; that of a copy is the same.

    Raises:
        CheckpointError: its manifest cannot be read.
    """
    listed = listed_files(folder).items()
    return own_digest({n: v for n, v in listed if n.partition(".")[0] in ACTING})


def put_tensors(path: Path, tensors: Mapping[str, np.ndarray]) -> None:
    """Write a safetensors file.

    Raises:
        OSError: it cannot be written.
    """
    try:
        save_file(dict(tensors), path)
    except SafetensorError as error:
        raise OSError(str(error)) from error


def restore_replaced(checkpoints: Path) -> None:
    """Give a checkpoint, or an export, its name again whose replacement failed or was killed."""
    for aside in checkpoints.glob(".tmp-*-replaced"):
        step = aside.name.split("-")[1]
        if whole_number(step) is not None and not (checkpoints / step).exists():
            os.replace(aside, checkpoints / step)


def read(folder: Path, part: str) -> StateDict:
    """The state of one part: torch tensors on the CPU, large arrays mapped from their files.

    Raises:
        CheckpointError: unreadable files.
    """
    try:
        with unless_removed(folder):
            listed = stored_manifest(folder)["files"]
            if f"{part}.json" not in listed:
                raise CheckpointError(f"{folder} holds no '{part}'.")
            tree = get_json(folder / f"{part}.json", PART_BYTES)
            file = f"{part}.safetensors"
            tensors = get_tensors(folder / file) if file in listed else {}
            for name in listed:
                if name.startswith(f"{part}.") and name.endswith(".npy"):
                    path = name.removeprefix(f"{part}.").removesuffix(".npy")
                    tensors[path] = get_array(folder / name)
        out = join(tree, tensors)
    except (OSError, ValueError, TypeError, RecursionError, MemoryError, SafetensorError) as error:
        raise CheckpointError(f"{folder}: '{part}' cannot be read ({error!s:.300}).") from error
    if not isinstance(out, dict):
        raise CheckpointError(f"{folder / part}.json: expected a JSON object.")
    return out


def read_networks(folder: Path) -> StateDict:
    """The networks of a checkpoint, to act or to start a run: weights of half precision become
    single, and a target network that is not there is as the online one.

    Raises:
        CheckpointError: unreadable files.
    """

    def single(weight: Any) -> Any:
        is_half = isinstance(weight, torch.Tensor) and weight.dtype == torch.float16
        return weight.float() if is_half else weight

    model = read(folder, MODEL)
    for name, weights in model.items():
        if isinstance(weights, dict):
            model[name] = {key: single(weight) for key, weight in weights.items()}
    return {"target": model["online"], **model} if "online" in model else model


def get_array(path: Path) -> np.ndarray:
    """An array mapped from an untrusted file.

    Raises:
        ValueError: it cannot be read.
    """
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # the parsers of NumPy and Python raise many kinds
        raise ValueError(f"{path.name}: {type(error).__name__}: {error}") from error


def get_tensors(path: Path) -> dict[str, np.ndarray]:
    """The tensors of an untrusted safetensors file.

    Raises:
        OSError, SafetensorError: it cannot be read.
        ValueError: its header is too long, or it holds types of numbers that are not loaded.
    """
    with open_plain(path) as file:
        (length,) = struct.unpack("<Q", file.read(8).ljust(8, b"\0"))
    if length > HEADER_BYTES:
        raise ValueError(f"the header of {path.name} is longer than {HEADER_BYTES:,} bytes")
    try:
        return load_file(path)
    except AttributeError as error:  # what NumPy has no type for, such as 8-bit floats
        raise ValueError(f"{path.name} holds numbers of a type that is not loaded") from error


def has(folder: Path, part: str) -> bool:
    """Whether a checkpoint holds a part, according to its manifest.

    Raises:
        CheckpointError: the manifest cannot be read.
    """
    return f"{part}.json" in listed_files(folder)


TENSOR, ARRAY, FLOAT = "__tensor__", "__array__", "__float__"
TUPLE, ITEMS = "__tuple__", "__items__"
PLACEHOLDERS = {TENSOR, ARRAY, FLOAT, TUPLE, ITEMS}
"""Keys of what stands in the JSON where a tensor, a large array, a NaN or infinity, a tuple, or a
dict with other keys than text or with one of these was.
"""
NESTED = DEEPEST - 3
"""Levels of the JSON of a state, without those of a placeholder."""
NUMBERS = re.compile("bool|u?int(8|16|32|64)|float(16|32|64)")
"""Types of numbers that arrays are saved with."""


def split(state: object, path: str = "") -> tuple[Any, dict[str, np.ndarray | Pieces]]:
    """A nested state into JSON with placeholders, and its arrays by dotted path.

    Raises:
        TypeError: what cannot be saved, with its path.
    """
    arrays: dict[str, np.ndarray | Pieces] = {}
    return _walk(state, path, arrays, NESTED), arrays


def _walk(node: object, path: str, arrays: dict[str, np.ndarray | Pieces], room: int) -> Any:
    """A node as JSON; its arrays are added to ``arrays``, under names that are also those of files.
    ``room``: how many more levels of the JSON may follow.

    Not a function within ``split``, which would refer to itself and so keep all arrays of a
    checkpoint until the garbage collector runs.
    """
    if room < 0:
        raise TypeError(
            f"{path:.80}…: more than {NESTED} levels of dicts and lists cannot be saved"
        )
    if node is None or isinstance(node, (bool, int, str)):  # most are
        return node
    if isinstance(node, Mapping):
        plain = all(isinstance(k, str) for k in node) and PLACEHOLDERS.isdisjoint(node)
        room -= 1 if plain else 3
        below = {k: (v, f"{path}.{k}" if path else str(k)) for k, v in node.items()}
        walked = {k: _walk(v, at, arrays, room) for k, (v, at) in below.items()}
        if plain:
            return walked
        keys = {k: _walk(k, f"the key {at}", arrays, room) for k, (_, at) in below.items()}
        return {ITEMS: [[keys[k], v] for k, v in walked.items()]}
    if isinstance(node, (list, tuple)):
        room -= 2 if isinstance(node, tuple) else 1
        each = [_walk(v, f"{path}.{i}", arrays, room) for i, v in enumerate(node)]
        return {TUPLE: each} if isinstance(node, tuple) else each
    if isinstance(node, torch.Tensor | np.ndarray | Pieces):
        name = quote(path, safe="", errors="backslashreplace")
        while name in arrays or name == "__metadata__":  # the description of a file of tensors
            name += "~"
        arrays[name] = node if isinstance(node, Pieces) else _stored(node, path)
        if isinstance(node, Pieces):
            return {ARRAY: name}
        return {TENSOR: name, **({"torch": True} if isinstance(node, torch.Tensor) else {})}
    if isinstance(node, np.generic):
        node = node.item()
    if isinstance(node, float) and not math.isfinite(node):
        return {FLOAT: repr(float(node))}
    if isinstance(node, (bool, int, float, str)):  # also of NumPy's
        return node
    raise TypeError(f"{path and f'{path}: '}{type(node).__name__} cannot be saved")


def _stored(node: torch.Tensor | np.ndarray, path: str) -> np.ndarray:
    """An array as it is written; TypeError for numbers of another type than the files have."""
    kind = str(getattr(node.dtype, "name", node.dtype)).removeprefix("torch.")
    if not NUMBERS.fullmatch(kind):
        raise TypeError(f"{path and f'{path}: '}an array of {kind} cannot be saved")
    if isinstance(node, torch.Tensor):
        node = node.detach().cpu().contiguous().numpy()
    return np.asarray(node, order="C")


def join(tree: object, tensors: Mapping[str, np.ndarray]) -> Any:
    """Undo ``split``."""
    if isinstance(tree, dict):
        if TENSOR in tree or ARRAY in tree:
            path = str(tree.get(TENSOR, tree.get(ARRAY)))
            array = tensors.get(path)
            if array is None:
                raise ValueError(f"the tensor '{path:.100}' is missing")
            return torch.from_numpy(array) if tree.get("torch") else array
        if FLOAT in tree:
            return float(tree[FLOAT])
        if TUPLE in tree:
            return tuple(join(v, tensors) for v in tree[TUPLE])
        if ITEMS in tree:
            return {join(k, tensors): join(v, tensors) for k, v in tree[ITEMS]}
        return {k: join(v, tensors) for k, v in tree.items()}
    if isinstance(tree, list):
        return [join(v, tensors) for v in tree]
    return tree


def put_array(path: Path, array: Pieces) -> None:
    """Write a large array as ``.npy``, piece by piece."""
    header = {
        "descr": np.lib.format.dtype_to_descr(array.dtype),
        "fortran_order": False,
        "shape": array.shape,
    }
    with path.open("wb") as file:
        np.lib.format.write_array_header_2_0(file, header)
        for piece in array.pieces():
            file.write(np.ascontiguousarray(piece).data)
