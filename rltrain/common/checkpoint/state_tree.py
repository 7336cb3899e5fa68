"""A nested state as JSON and arrays: how ``state_dict``s become files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rltrain.errors import CheckpointError
from rltrain.types import Pieces

TENSOR, ARRAY = "__tensor__", "__array__"
"""Keys of the placeholders that stand in the JSON where a tensor or a large array was."""


def split(state: Any, path: str = "") -> tuple[Any, dict[str, np.ndarray], dict[str, Pieces]]:
    """A nested state into JSON with placeholders, its arrays and its large ones by dotted path."""
    tensors: dict[str, np.ndarray] = {}
    large: dict[str, Pieces] = {}
    return _walk(state, path, tensors, large), tensors, large


def _walk(node: Any, path: str, tensors: dict[str, np.ndarray], large: dict[str, Pieces]) -> Any:
    """A node as JSON; its arrays are added to ``tensors`` and ``large``.

    Not a function within ``split``, which would refer to itself and so keep all arrays of a
    checkpoint until the garbage collector runs.
    """
    if isinstance(node, Mapping):
        below = {str(k): (v, f"{path}.{k}" if path else str(k)) for k, v in node.items()}
        return {k: _walk(v, at, tensors, large) for k, (v, at) in below.items()}
    if isinstance(node, (list, tuple)):
        return [_walk(v, f"{path}.{i}", tensors, large) for i, v in enumerate(node)]
    if isinstance(node, torch.Tensor):
        tensors[path] = node.detach().cpu().contiguous().numpy()
        return {TENSOR: path, "torch": True}
    if isinstance(node, np.ndarray):
        tensors[path] = np.ascontiguousarray(node)
        return {TENSOR: path}
    if isinstance(node, Pieces):
        large[path] = node
        return {ARRAY: path}
    if isinstance(node, np.generic):
        return node.item()
    if node is None or isinstance(node, (bool, int, float, str)):
        return node
    raise TypeError(f"{path}: {type(node).__name__} cannot be saved")


def join(tree: Any, tensors: Mapping[str, np.ndarray]) -> Any:
    """Undo ``split``."""
    if isinstance(tree, dict):
        if TENSOR in tree or ARRAY in tree:
            path = str(tree.get(TENSOR, tree.get(ARRAY)))
            array = tensors.get(path)
            if array is None:
                raise CheckpointError(f"the tensor '{path}' is missing.")
            return torch.from_numpy(array) if tree.get("torch") else array
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
