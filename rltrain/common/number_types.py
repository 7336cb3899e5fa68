"""Numbers and the ranges they may be in, as constructors annotate their arguments. Settings are
checked against these annotations before anything is constructed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field

if TYPE_CHECKING:
    import numpy as np


MOST_COUNTED = 10**15
"""Env steps, episodes and gradient steps that a run may have."""


def _number(value: object) -> Any:
    """Booleans and text are not numbers, which a validator would take them for."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("a number is expected")
    return value


Whole = Annotated[int, BeforeValidator(_number), Field(ge=0, lt=2**63)]
"""0, 1, 2, …"""
Count = Annotated[int, BeforeValidator(_number), Field(ge=1, lt=2**63)]
"""1, 2, 3, …"""
Envs = Annotated[int, BeforeValidator(_number), Field(ge=1, le=100_000)]
"""Environments: 1, 2, 3, …, not more than a machine can hold."""
Cells = Annotated[int, BeforeValidator(_number), Field(ge=1, le=1_000)]
"""1, 2, 3, …, rows and columns of a grid that memory has room for."""
Threads = Annotated[int, BeforeValidator(_number), Field(ge=1, le=4_096)]
"""1, 2, 3, …, not more than a machine starts."""
Resamples = Annotated[int, BeforeValidator(_number), Field(ge=1, le=1_000_000)]
"""1, 2, 3, …, not more than memory and time allow."""
Real = Annotated[float, BeforeValidator(_number), Field(ge=-3e38, le=3e38)]
"""Any finite number that single precision has."""
Positive = Annotated[Real, Field(gt=0)]
"""A finite number above 0."""
NonNegative = Annotated[Real, Field(ge=0)]
"""A finite number, 0 or more."""
Probability = Annotated[Real, Field(ge=0, le=1)]
"""0 … 1, both included."""
Fraction = Annotated[Real, Field(gt=0, le=1)]
"""Above 0, up to 1."""
Decay = Annotated[Real, Field(ge=0, lt=1)]
"""From 0, below 1."""
Flag = Annotated[bool, Field(strict=True)]
"""true or false."""


def is_finite(x: np.ndarray) -> bool:
    """Whether every element is; a finite sum of squares says so at once."""
    import numpy as np  # commands are checked without it

    return math.isfinite(np.vdot(x, x)) or bool(np.isfinite(x).all())


def require_range(
    name: str, values: np.ndarray, low: float = -math.inf, high: float = math.inf
) -> None:
    """Refuse numbers of a saved state that no run has.

    Raises:
        ValueError: one that is not finite, or not from ``low`` to ``high``.
    """
    for value in (values.min().item(), values.max().item()) if values.size else ():
        if not (low <= value <= high and math.isfinite(value)):
            limits = "" if (low, high) == (-math.inf, math.inf) else f" from {low} to {high}"
            raise ValueError(f"{name} has {value}: expected finite numbers{limits}")


def saved_array(
    name: str, saved: object, like: np.ndarray, low: float = -math.inf, high: float = math.inf
) -> np.ndarray:
    """An array of a saved state: ``saved_form``, with numbers that ``require_range`` lets pass."""
    given = saved_form(name, saved, like)
    require_range(name, given, low, high)
    return given


def saved_number(name: str, saved: object, low: float = 0, high: float = MOST_COUNTED) -> Any:
    """A whole number of a saved state, or, with a limit that is none, a number with a fraction.

    Raises:
        ValueError: it is not one, or out of range.
    """
    import numpy as np  # commands are checked without it

    return saved_array(name, saved, np.array(low), low, high).item()


def saved_form(name: str, saved: object, like: np.ndarray) -> np.ndarray:
    """An array of a saved state, with any numbers.

    Raises:
        ValueError: it has not the shape and type of ``like``.
    """
    import numpy as np  # commands are checked without it

    given = np.asarray(saved)
    if (given.shape, given.dtype) != (like.shape, like.dtype):
        raise ValueError(
            f"{name} should be {like.dtype} of shape {like.shape}, got {given.dtype} of shape "
            f"{given.shape}"
        )
    return given
