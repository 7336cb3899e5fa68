"""Observations of Gymnasium's spaces as arrays, and spaces as plain data (records), so that a
checkpoint can convert observations without its environment.

What is not in its space is refused, except for real numbers beyond the bounds of a Box, which many
environments exceed a little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from gymnasium import spaces

from rltrain.common.env_values import EXACT, warn_of_rounding
from rltrain.common.spec_record import channel_side, flat_size, number_type
from rltrain.env.env_options import Channels
from rltrain.types import SpecRecord

Convert = Callable[[Any], np.ndarray]
"""From an observation to an array; ValueError for what is not in the space."""
Bounds = tuple[np.ndarray, np.ndarray]
"""Smallest and largest whole numbers of a Box."""
MOST = 100_000
"""Categories of an observation that still become one-hot numbers."""


class ObsView(NamedTuple):
    """How observations of a space become arrays."""

    convert: Convert
    shape: tuple[int, ...]
    dtype: Literal["float32", "uint8"]  # as stored
    scale: float  # the networks see array * scale
    byte_columns: tuple[tuple[int, int, float], ...] = ()  # EnvSpec.obs_bytes


def viewed(space: spaces.Space[object], name: str, channels: Channels = "auto") -> ObsView:
    """The view of a space.

    Args:
        name: of the environment, for messages.
        channels: of images.

    Raises:
        ValueError: observations without a fixed shape, or too many categories.
    """
    try:
        record = to_record(space, channels)
        numbered = [one for one in entries(record) if "discrete" in one or "multi_discrete" in one]
        view = recorded_view(record) if (n := sum(map(flat_size, numbered))) <= MOST else None
    except ValueError as error:
        raise ValueError(
            f"{name} has observations {space} without a fixed shape: expected Box, Discrete, "
            "MultiBinary, MultiDiscrete, or Tuple and Dict of them. Leave out or encode what is "
            "none of these with a wrapper, such as gymnasium.wrappers.FilterObservation, and type "
            "env.id=module:function of a function that makes the wrapped environment."
        ) from error
    if view is None:
        raise ValueError(
            f"{name} has observations {space}: {n:,} categories, which become one-hot numbers, and "
            f"at most {MOST:,} do. Encode them with a wrapper "
            "(gymnasium.wrappers.TransformObservation), such as a number as its digits."
        )
    return view


def require_numbers(shape: tuple[int, ...], name: str, space: object) -> None:
    """ValueError if observations of this space, arrays of ``shape``, have no numbers."""
    if 0 in shape:
        raise ValueError(
            f"{name} has observations {space}, which have no numbers: expected at least one, such "
            "as Box(0, 1, (1,))."
        )


def entries(record: SpecRecord) -> Iterator[SpecRecord]:
    """The parts of a recorded space that are no Tuple and no Dict, in their order."""
    match record:
        case {"tuple": inner}:
            inside = list(inner)
        case {"dict": inner}:
            inside = [one for _, one in inner]
        case _:
            yield record
            return
    for one in inside:
        yield from entries(one)


def recorded_view(record: SpecRecord) -> ObsView:
    """The view of a recorded space: numbers as they are, images with their channels first (gray
    ones with one channel), categories one-hot, several entries one after the other.
    """
    if "box" not in record:
        columns, n = tuple(byte_columns(record)), flat_size(record)
        read, scales = flat(record), np.ones(n, np.float32)
        for start, stop, scale in columns:
            scales[start:stop] = scale
        return ObsView(lambda obs: read(obs) * scales, (n,), "float32", 1.0, columns)
    shape, dtype = tuple(record["box"]), number_type(record["dtype"])
    name: Literal["float32", "uint8"] = "uint8" if dtype in (np.uint8, np.bool_) else "float32"
    stored, channels, bounds = np.dtype(name), record.get("channels"), recorded_bounds(record)

    def convert(obs: object) -> np.ndarray:
        seen = cast_to(numbers(obs, shape, dtype, bounds), stored)
        return seen.transpose(2, 0, 1) if channels == "last" else seen.reshape(whole)

    whole = (1, *shape) if channels == "one" else shape or (1,)
    whole = (shape[2], *shape[:2]) if channels == "last" else whole
    return ObsView(convert, whole, name, recorded_scale(record))


class StoredView:
    """From an observation of a recorded space to [1, *O]; pickled as the record."""

    def __init__(self, record: SpecRecord) -> None:
        self.record, self.convert = record, recorded_view(record).convert

    def __call__(self, obs: object) -> np.ndarray:
        return self.convert(obs)[None]

    def __reduce__(self) -> tuple[object, ...]:
        return StoredView, (self.record,)


def flat(record: SpecRecord) -> Convert:
    """From an observation of a recorded space to its numbers one after the other, not scaled."""
    match record:
        case {"box": shape} | {"multi_binary": shape}:
            shape, dtype = tuple(shape), number_type(record.get("dtype", "bool"))
            bounds, stored = recorded_bounds(record), np.dtype(np.float32)
            return lambda obs: cast_to(numbers(obs, shape, dtype, bounds), stored).reshape(-1)
        case {"discrete": n, "start": start}:
            return one_hot(np.array(n), np.array(start))
        case {"multi_discrete": nvec, "start": start}:
            return one_hot(np.array(nvec), np.array(start))
        case {"tuple": inner}:
            return joined([(i, flat(one)) for i, one in enumerate(inner)], (tuple, list))
        case {"dict": inner}:
            return joined([(name, flat(one)) for name, one in inner], Mapping)
    raise ValueError(f"expected the record of an observation space, got {record}.")


def one_hot(sizes: np.ndarray, starts: np.ndarray) -> Convert:
    """From whole numbers, ``sizes`` many from ``starts`` on each, to one-hot categories."""
    first = np.cumsum(sizes) - sizes.reshape(-1)  # column of each number's first category
    total, shape, dtype = int(sizes.sum()), sizes.shape, np.dtype(np.int64)

    def convert(obs: object) -> np.ndarray:
        place = numbers(obs, shape, dtype) - starts
        if ((place < 0) | (place >= sizes)).any():
            raise ValueError(f"expected whole numbers from {starts} to {starts + sizes - 1}")
        row = np.zeros(total, np.float32)
        row[first + place.reshape(-1)] = 1
        return row

    return convert


def joined(parts: Sequence[tuple[object, Convert]], kind: Any) -> Convert:
    """From a Tuple or a Dict to the numbers of all its entries."""

    def convert(obs: Any) -> np.ndarray:
        if not isinstance(obs, kind):
            raise ValueError(f"expected {len(parts)} entries, got {type(obs).__name__}")
        if kind is not Mapping and len(obs) != len(parts):
            raise ValueError(f"expected {len(parts)} entries, got {len(obs)}")
        rows = []
        for key, read in parts:
            try:
                rows.append(read(obs[key]))
            except KeyError:
                raise ValueError(f"expected the entry {key!r}, got {list(obs)}") from None
            except ValueError as error:
                raise ValueError(f"entry {key!r}: {error}") from error
        return np.concatenate(rows)

    return convert


def numbers(
    obs: object, shape: tuple[int, ...], dtype: np.dtype, bounds: Bounds | None = None
) -> np.ndarray:
    """An observation as numbers of a shape, whole ones within the range of ``dtype`` unless that is
    a real type, and within ``bounds``.

    Raises:
        ValueError: they are not.
    """
    if isinstance(obs, np.ma.MaskedArray) and np.ma.is_masked(obs):
        raise ValueError(f"expected numbers, got {np.ma.count_masked(obs)} masked ones: fill them")
    try:
        array = np.asarray(obs)
    except TypeError as error:
        raise ValueError(f"{error}: return it as obs.float().cpu().numpy()") from error
    if array.dtype != dtype or array.shape != shape:
        if array.dtype.kind not in "biuf" or array.shape != shape:
            raise ValueError(
                f"expected numbers of the shape {shape}, got {array.dtype} of the shape "
                f"{array.shape}"
            )
        if dtype.kind != "f":
            with np.errstate(invalid="ignore"):
                given, array = array, array.astype(dtype)
            if (given != array).any():
                least, most = (0, 1) if dtype.kind == "b" else type_bounds(dtype)
                raise ValueError(f"expected whole numbers from {least} to {most}, got others")
    if bounds is not None and ((array < bounds[0]) | (array > bounds[1])).any():
        low, high = (" ".join(str(each).split()) for each in bounds)
        raise ValueError(
            f"expected whole numbers from {low} to {high}, got {array.min()} to {array.max()}"
        )
    return array


def cast_to(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The array as ``dtype``; what that cannot hold becomes infinite, and is refused later. Whole
    numbers that it rounds are warned of.
    """
    if array.dtype == dtype:
        return array
    wide = array.dtype.kind in "iu" and array.dtype.itemsize > 2
    if wide and ((array > EXACT) | (array < -EXACT)).any():
        warn_of_rounding()
    with np.errstate(over="ignore"):
        return array.astype(dtype)


def type_bounds(dtype: np.dtype) -> tuple[int, int]:
    """The smallest and the largest number of a type of whole numbers."""
    known = np.iinfo(dtype)
    return int(known.min), int(known.max)


def recorded_bounds(record: SpecRecord) -> Bounds | None:
    """Bounds of a recorded Box; None: those of its type, or it has real numbers."""
    if "bounds" not in record:
        return None
    low, high = (np.array(each, record["dtype"]) for each in record["bounds"])
    return low, high


def recorded_scale(record: SpecRecord) -> float:
    """The factor that a recorded Box is multiplied by: images of bytes are scaled to 0 … 1."""
    is_image = record["dtype"] == "uint8" and "channels" in record
    return 1 / max(record["high"], 1) if is_image else 1.0


def byte_columns(record: SpecRecord) -> Iterator[tuple[int, int, float]]:
    """``EnvSpec.obs_bytes`` of a space."""
    start = 0
    for one in entries(record):
        stop = start + flat_size(one)
        if "box" in one and one["dtype"] == "uint8":
            yield start, stop, recorded_scale(one)
        start = stop


def unbounded(space: Any) -> Any:
    """A space without the bounds of real numbers, which many environments exceed a little."""
    if isinstance(space, spaces.Dict):
        return spaces.Dict({name: unbounded(one) for name, one in space.spaces.items()})
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([unbounded(one) for one in space.spaces])
    real = isinstance(space, spaces.Box) and space.dtype.kind == "f"
    return spaces.Box(-np.inf, np.inf, space.shape, space.dtype) if real else space


def to_record(space: spaces.Space[object], channels: Channels = "auto") -> SpecRecord:
    """A space that can be viewed as plain data; a Dict in the order of its keys' names.

    Raises:
        ValueError: it cannot be.
    """
    match space:
        case spaces.Box():
            return box_record(space, channels)
        case spaces.Discrete():
            return {"discrete": int(space.n), "start": int(space.start)}
        case spaces.MultiBinary():
            return {"multi_binary": list(space.shape)}
        case spaces.MultiDiscrete():
            dtype = {} if space.dtype == np.int64 else {"dtype": str(space.dtype)}
            return {"multi_discrete": space.nvec.tolist(), "start": space.start.tolist(), **dtype}
        case spaces.Tuple():
            return {"tuple": [to_record(one, channels) for one in space.spaces]}
        case spaces.Dict():
            named = sorted(space.spaces.items(), key=lambda entry: str(entry[0]))
            return {"dict": [[name, to_record(one, channels)] for name, one in named]}
    raise ValueError(f"{space} has no fixed shape.")


def box_record(space: spaces.Box, channels: Channels) -> SpecRecord:
    """A Box as plain data. Images, which have ``channels``, are those with three axes, and with two
    those of bytes or bits.
    """
    record: dict[str, Any] = {"box": list(space.shape), "dtype": str(space.dtype)}
    if space.dtype == np.uint8:
        record["high"] = int(space.high.max(initial=0))
    if space.dtype.kind in "iu":
        low, high = type_bounds(space.dtype)
        if (space.low > low).any() or (space.high < high).any():
            record["bounds"] = [
                int(each.flat[0]) if each.size and (each == each.flat[0]).all() else each.tolist()
                for each in (space.low, space.high)
            ]
    bits_or_bytes = space.dtype == np.bool_ or record.get("high") in (1, 255)
    if len(space.shape) == 3:
        own = channel_side(space.shape)[0]
        record["channels"] = own if channels == "auto" else channels
    elif len(space.shape) == 2 and bits_or_bytes:
        record["channels"] = "one"
    return record


def from_record(record: SpecRecord) -> spaces.Space[object]:
    """The space of a record; real numbers have no bounds.

    Raises:
        ValueError: no record of a space.
    """
    match record:
        case {"box": shape, "dtype": dtype}:
            kind: Any = number_type(dtype)
            whole = kind.kind in "iu" and "high" not in record
            usual = type_bounds(kind) if whole else (0, record.get("high", 1))
            low, high = (
                np.broadcast_to(each, tuple(shape)).astype(kind)
                for each in recorded_bounds(record) or usual
            )
            return spaces.Box(low, high, dtype=kind.type)
        case {"discrete": n, "start": start}:
            return spaces.Discrete(n, start=start)
        case {"multi_binary": shape}:
            return spaces.MultiBinary(shape)
        case {"multi_discrete": nvec, "start": start}:
            kind = number_type(record.get("dtype", "int64"))
            return spaces.MultiDiscrete(nvec, dtype=kind.type, start=start)
        case {"tuple": inner}:
            return spaces.Tuple([from_record(one) for one in inner])
        case {"dict": inner}:
            return spaces.Dict([(name, from_record(one)) for name, one in inner])
    raise ValueError(f"expected the record of an observation space, got {record}.")
