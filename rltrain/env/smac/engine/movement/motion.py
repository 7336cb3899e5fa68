"""One loop of motion: units go, overlaps are pushed apart, walls are left (compiled)."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from rltrain.env.smac.engine.kernel import F, njit
from rltrain.env.smac.engine.movement.avoidance import HALF, LOOP, ONE, ZERO, from_wall
from rltrain.env.smac.engine.simd import LANES, lowest, who_is_near
from rltrain.env.smac.engine.world import (
    GROUND,
    HEALTH,
    NX,
    NY,
    P_DISC,
    P_LAYER,
    P_SPEED,
    P_TOUCH,
    P_X_FROM,
    P_X_TO,
    P_Y_FROM,
    P_Y_TO,
    STANDS,
    VX,
    VY,
    X,
    Y,
)


@njit()
def move_units(unit, mark, param, walls, near_walls):
    """One loop of motion: go, push remaining overlaps apart once, stay inside the walls or, off the
    ground, in its place."""
    for i in range(unit.shape[1]):
        unit[VX, i], unit[VY, i] = unit[NX, i], unit[NY, i]
        unit[X, i] += unit[VX, i] * LOOP
        unit[Y, i] += unit[VY, i] * LOOP
    push_apart(unit, mark, param)
    for i in range(unit.shape[1]):
        if param[P_LAYER, i] != F(GROUND):
            unit[X, i] = min(max(unit[X, i], param[P_X_FROM, i]), param[P_X_TO, i])
            unit[Y, i] = min(max(unit[Y, i], param[P_Y_FROM, i]), param[P_Y_TO, i])
        elif unit[HEALTH, i] > ZERO:
            bits = near_walls[int(unit[X, i]), int(unit[Y, i])]
            if bits != 0:
                leave_walls(unit, i, param[P_DISC, i], walls, bits)


@njit()
def push_apart(unit, mark, param):
    """Moves every overlapping pair apart, half each; a unit that fights standing or cannot move
    leaves it to the other.
    """
    for i in range(1, unit.shape[1]):
        if unit[HEALTH, i] <= ZERO:
            continue
        reach2 = param[P_TOUCH, i] * param[P_TOUCH, i]
        for start in range(0, i, LANES):
            bits = who_is_near(unit, start, i, unit[X, i], unit[Y, i], reach2)
            while bits != 0:
                j = start + lowest(bits)
                bits &= bits - 1
                dx, dy = unit[X, i] - unit[X, j], unit[Y, i] - unit[Y, j]
                radius = param[P_DISC, i] + param[P_DISC, j]
                if dx * dx + dy * dy >= radius * radius or param[P_LAYER, i] != param[P_LAYER, j]:
                    continue
                fixed_i = mark[STANDS, i] != 0 or param[P_SPEED, i] == ZERO
                fixed_j = mark[STANDS, j] != 0 or param[P_SPEED, j] == ZERO
                if not (fixed_i and fixed_j):
                    share = ZERO if fixed_i else (ONE if fixed_j else HALF)
                    push_pair(unit, i, j, dx, dy, radius, share)
                    behind = -2 << (j - start)  # i has moved: look again at those after j
                    bits = behind & who_is_near(unit, start, i, unit[X, i], unit[Y, i], reach2)


@njit(forceinline=True)
def push_pair(unit, i, j, dx, dy, radius, share):
    """Moves i by ``share`` of the pair's overlap and j by the rest, along the line (dx, dy) from j
    to i."""
    d = np.sqrt(dx * dx + dy * dy)
    nx, ny = ONE, ZERO
    if d > ZERO:
        nx, ny = dx / d, dy / d
    gap = radius - d
    unit[X, i] += nx * gap * share
    unit[Y, i] += ny * gap * share
    unit[X, j] -= nx * gap * (ONE - share)
    unit[Y, j] -= ny * gap * (ONE - share)


@njit()
def leave_walls(unit, i, radius, walls, bits):
    """Safety net: puts the disc of unit i back outside of every wall in the set ``bits`` that it
    touches."""
    while bits != 0:
        w = lowest(bits)
        bits &= bits - 1
        hx, hy, d = from_wall(walls, w, unit[X, i], unit[Y, i])
        if ZERO < d < radius:
            unit[X, i] += hx / d * (radius - d)
            unit[Y, i] += hy / d * (radius - d)
