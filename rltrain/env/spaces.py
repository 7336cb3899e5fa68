"""Observations of Gymnasium's spaces as arrays, and spaces as plain data, so that a checkpoint can
convert observations without its environment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces


class View(NamedTuple):
    """How observations of a space become arrays."""

    convert: Callable[[Any], np.ndarray]
    shape: tuple[int, ...]
    dtype: str  # as stored
    scale: float  # the networks see array * scale
    byte_columns: tuple[tuple[int, int, float], ...] = ()  # EnvSpec.obs_bytes


def viewed(space: spaces.Space[Any], name: str) -> View:
    """The view of a space.

    Args:
        name: of the environment, for messages.

    Raises:
        ValueError: observations without a fixed shape.
    """
    if isinstance(space, spaces.Box):
        return viewed_box(space)
    try:
        n = spaces.flatdim(space)
        to_record(space)
    except (NotImplementedError, ValueError) as error:
        raise ValueError(
            f"{name} has observations {space} without a fixed shape: expected Box, Discrete, "
            "MultiBinary, MultiDiscrete, or Tuple and Dict of them."
        ) from error
    scales = scales_of(space)

    def flattened(obs: Any) -> np.ndarray:
        return np.asarray(spaces.flatten(space, obs), np.float32) * scales

    return View(flattened, (n,), "float32", 1.0, tuple(byte_columns(space, 0)))


def observation_view(record: Mapping[str, Any]) -> Callable[[Any], np.ndarray]:
    """From an observation of a recorded space to [1, *O]; the function raises ValueError for an
    array that is not of the space.
    """
    space = from_record(record)
    convert = viewed(space, "the environment").convert

    def view(obs: Any) -> np.ndarray:
        require_like(obs, space)
        return convert(obs)[None]

    return view


def require_like(obs: Any, space: spaces.Space[Any]) -> None:
    """ValueError unless ``obs`` has the structure and the shapes of ``space``, bytes and categories
    that are in it.
    """
    if isinstance(space, spaces.Dict):
        if not isinstance(obs, Mapping) or set(obs) != set(space.spaces):
            raise ValueError(f"expected an observation of {space}, got {type(obs).__name__}.")
        for name, part in space.spaces.items():
            require_like(obs[name], part)
        return
    if isinstance(space, spaces.Tuple):
        if not isinstance(obs, (tuple, list)) or len(obs) != len(space.spaces):
            raise ValueError(f"expected an observation of {space}, got {type(obs).__name__}.")
        for each, part in zip(obs, space.spaces, strict=True):
            require_like(each, part)
        return
    array = np.asarray(obs)
    if array.shape != space.shape or array.dtype.kind not in "biuf":
        raise ValueError(
            f"expected numbers of the shape {space.shape}, got {array.dtype} of the shape "
            f"{array.shape}."
        )
    if isinstance(space, spaces.Box):
        if space.dtype == np.uint8 and (array != array.astype(np.uint8)).any():
            raise ValueError("expected whole numbers from 0 to 255, got others.")
    elif (array != array.astype(space.dtype)).any() or not space.contains(
        array.astype(space.dtype)
    ):
        raise ValueError(f"expected an observation of {space}, got {obs}.")


def viewed_box(space: spaces.Box) -> View:
    """Numbers as they are; images with their channels first, gray ones with one channel."""
    shape = space.shape
    name = "uint8" if space.dtype in (np.uint8, np.bool_) else "float32"
    dtype = np.dtype(name)
    scale = 1 / 255 if holds_bytes(space) else 1.0
    if len(shape) == 3 and shape[2] > min(shape[:2]):  # channels first already
        return View(lambda obs: np.asarray(obs, dtype), shape, name, scale)
    if len(shape) == 3:
        first = (shape[2], *shape[:2])
        return View(lambda obs: np.asarray(obs, dtype).transpose(2, 0, 1), first, name, scale)
    gray = len(shape) == 2 and name == "uint8"
    flat = (1, *shape) if gray else shape or (1,)
    return View(lambda obs: np.asarray(obs, dtype).reshape(flat), flat, name, scale)


def scales_of(space: spaces.Space[Any]) -> np.ndarray:
    """What to multiply each element of a flattened observation with: bytes come to 0 … 1."""
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        inner = space.values() if isinstance(space, spaces.Dict) else space.spaces
        return np.concatenate([scales_of(one) for one in inner])
    scale = 1 / 255 if isinstance(space, spaces.Box) and holds_bytes(space) else 1
    return np.full(spaces.flatdim(space), scale, np.float32)


def byte_columns(space: spaces.Space[Any], start: int) -> Iterator[tuple[int, int, float]]:
    """``EnvSpec.obs_bytes`` of a space whose flattened observation begins at column ``start``."""
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        for one in space.values() if isinstance(space, spaces.Dict) else space.spaces:
            yield from byte_columns(one, start)
            start += spaces.flatdim(one)
    elif isinstance(space, spaces.Box) and space.dtype == np.uint8:
        yield start, start + spaces.flatdim(space), 1 / 255 if holds_bytes(space) else 1.0


def holds_bytes(space: spaces.Box) -> bool:
    """Whether its numbers go from 0 to 255."""
    return space.dtype == np.uint8 and bool(space.high.max() > 1)


def to_record(space: spaces.Space[Any]) -> dict[str, Any]:
    """A space that can be viewed as plain data."""
    match space:
        case spaces.Box():
            high = 255 if holds_bytes(space) else 1
            return {"box": list(space.shape), "dtype": str(space.dtype), "high": high}
        case spaces.Discrete():
            return {"discrete": int(space.n), "start": int(space.start)}
        case spaces.MultiBinary():
            return {"multi_binary": list(space.shape)}
        case spaces.MultiDiscrete():
            return {"multi_discrete": space.nvec.tolist(), "start": space.start.tolist()}
        case spaces.Tuple():
            return {"tuple": [to_record(one) for one in space.spaces]}
        case spaces.Dict():
            return {"dict": [[name, to_record(one)] for name, one in space.spaces.items()]}
    raise ValueError(f"{space} has no fixed shape.")


def from_record(record: Mapping[str, Any]) -> spaces.Space[Any]:
    """The space of a record.

    Raises:
        ValueError: no record of a space.
    """
    match record:
        case {"box": shape, "dtype": dtype, "high": high}:
            return spaces.Box(0, high, tuple(shape), np.dtype(dtype).type)
        case {"discrete": n, "start": start}:
            return spaces.Discrete(n, start=start)
        case {"multi_binary": shape}:
            return spaces.MultiBinary(shape)
        case {"multi_discrete": nvec, "start": start}:
            return spaces.MultiDiscrete(nvec, start=start)
        case {"tuple": inner}:
            return spaces.Tuple([from_record(one) for one in inner])
        case {"dict": inner}:
            return spaces.Dict([(name, from_record(one)) for name, one in inner])
    raise ValueError(f"expected the record of an observation space, got {record}.")
