"""Schedules: pure functions of how far a run is. A new one is one function of this file."""

from __future__ import annotations

from collections.abc import Sequence


def linear(start: float, end: float, duration: float, at: float) -> float:
    """From ``start`` at 0 straight to ``end`` at ``duration``, then flat; ``at`` has its unit."""
    if at >= duration:
        return end
    return start + (end - start) * (at / duration)


def exponential(start: float, end: float, half_life: int, at: int) -> float:
    """From ``start`` at 0 towards ``end``, half of the way every ``half_life``."""
    return end + (start - end) * 0.5 ** (at / half_life)


def piecewise(points: Sequence[Sequence[float]], at: int) -> float:
    """Straight lines through ``points``, pairs of (when, value) in order; flat before and after."""
    before = points[0]
    if at <= before[0]:
        return before[1]
    for after in points[1:]:
        if at < after[0]:
            return linear(before[1], after[1], after[0] - before[0], at - before[0])
        before = after
    return before[1]
