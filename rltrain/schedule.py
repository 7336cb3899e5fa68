"""Schedules: pure functions of how far a run is. A new one is one function of this file."""

from __future__ import annotations


def linear(start: float, end: float, duration: int, at: int) -> float:
    """From ``start`` at 0 straight to ``end`` at ``duration``, then flat; ``at`` has its unit."""
    if at >= duration:
        return end
    return start + (end - start) * (at / duration)
