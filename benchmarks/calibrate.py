"""Win rates of scripted policies under variants of the battle rules and over a family of start
layouts, beside published win rates. docs/calibration.md states the procedure.

``python -m benchmarks.calibrate``
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

from benchmarks.anchors import heuristic_anchors

CHOOSING = ("2s3z", "10m_vs_11m", "corridor", "27m_vs_30m", "MMM2")
"""Maps on which a variant is chosen; it is reported on those below."""
REPORTING = ("3s5z", "1c3s5z", "bane_vs_bane", "3s5z_vs_3s6z", "6h_vs_8z")

BATTLES = 32  # per layout
TOLERANCE = 3.0  # percentage points of the mean error within which the earlier candidate is taken


class Layout(NamedTuple):
    """How units without a place of their own are placed around their point."""

    first: str  # direction of the first of several places at one distance: S, E, N or W
    turn: str  # and how the others follow: ccw or cw
    mirrored: bool  # the enemies' places are turned by half a circle


LAYOUTS = tuple(map(Layout._make, product("SENW", ("ccw", "cw"), (False, True))))
JITTER = 0.25  # cells, of the additional column of jittered starts


class Variant(NamedTuple):
    """One set of rules. The defaults are those with a source, or the values used so far."""

    name: str
    goals: str = "offsets"  # of an attack order to a group: offsets are kept, or one point
    keeps: str = "weapon"  # a target is kept within weapon range, or within scan range + 1 cell
    places: str = "own"  # a blocked melee unit looks for a place beside its own target, or any foe
    scan_every: int = 4  # loops
    contact: float = 1.0  # factor of the separation radii


CANDIDATES = (
    Variant("own place"),
    Variant("own place, scan 8", scan_every=8),
    Variant("own place, soft", contact=0.94),
    Variant("own place, scan 8, soft", scan_every=8, contact=0.94),
    Variant("any place", places="any"),
    Variant("any place, scan 8", places="any", scan_every=8),
    Variant("any place, soft", places="any", contact=0.94),
    Variant("any place, scan 8, soft", places="any", scan_every=8, contact=0.94),
)
"""Rules between which no source decides, in the order of preference where errors are equal."""

CONTRASTS = (
    Variant("one point", goals="point"),
    Variant("keep in scan range", keeps="scan"),
    Variant("previous rules", goals="point", keeps="scan", places="any"),
)
"""Played for comparison only: the evidence contradicts them."""


def mean_error(win: dict[str, float], maps: tuple[str, ...]) -> float:
    """Mean distance, in percentage points, of win rates in percent (means over layouts) from the
    published rates of SMAC's heuristic policy."""
    published = heuristic_anchors()
    return sum(abs(win[name] - published[name]) for name in maps) / len(maps)


def choose(errors: dict[str, float]) -> str:
    """The first candidate whose error on the choosing half is within the tolerance of the
    smallest."""
    best = min(errors[c.name] for c in CANDIDATES)
    return next(c.name for c in CANDIDATES if errors[c.name] <= best + TOLERANCE)
