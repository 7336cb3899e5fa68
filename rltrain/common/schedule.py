"""Schedules: pure functions of how far a run is. A new one is one function of this file."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def linear(start: float, end: float, duration: float, at: float) -> float:
    """From ``start`` at 0 straight to ``end`` at ``duration``, then flat; ``at`` has its unit."""
    if at >= duration:
        return end
    return start + (end - start) * (at / duration)


def exponential(start: float, end: float, half_life: int, at: int) -> float:
    """From ``start`` at 0 toward ``end``, half of the way every ``half_life``."""
    return end + (start - end) * 0.5 ** (at / half_life)


def piecewise(points: Sequence[Sequence[float]], at: int) -> float:
    """Straight lines through ``points``, pairs of (when, value) in order; flat before and after."""
    when, value = zip(*points, strict=True)
    return float(np.interp(at, when, value))
