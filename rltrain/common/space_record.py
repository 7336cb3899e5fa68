"""Spaces of Gymnasium as plain data, as they stand in an ``EnvSpec``: sizes and words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def size_of(record: Mapping[str, Any]) -> int:
    """Numbers in a flattened observation of a recorded space."""
    match record:
        case {"box": shape} | {"multi_binary": shape}:
            return math.prod(shape)
        case {"discrete": n}:
            return int(n)
        case {"multi_discrete": nvec}:
            return int(np.sum(nvec))
        case {"tuple": inner}:
            return sum(map(size_of, inner))
        case {"dict": inner}:
            return sum(size_of(one) for _, one in inner)
    raise ValueError(f"expected the record of an observation space, got {record}.")


def space_words(record: Mapping[str, Any]) -> str:
    """A recorded space in a few words; the keys of a Dict in the order of their names."""
    match record:
        case {"box": shape, "dtype": dtype}:
            facts = ("channels", "high") if dtype == "uint8" else ("channels",)
            rest = [f"{name} {record[name]}" for name in facts if name in record]
            return " ".join([f"Box{tuple(shape)} {dtype}", *rest])
        case {"discrete": n, "start": start}:
            return f"Discrete({n}, start={start})" if start else f"Discrete({n})"
        case {"multi_binary": shape}:
            return f"MultiBinary({shape})"
        case {"multi_discrete": nvec, "start": start}:
            first = f", start={start}" if start != [0] * len(nvec) and start != 0 else ""
            return f"MultiDiscrete({nvec}{first})"
        case {"tuple": inner}:
            return f"Tuple({', '.join(map(space_words, inner))})"
        case {"dict": inner}:
            keys = sorted(inner, key=lambda each: str(each[0]))
            return f"Dict({', '.join(f'{name}: {space_words(one)}' for name, one in keys)})"
    return str(record)
