"""One loop of motion: units move, overlapping pairs separate, walls push units out (compiled)."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from rltrain.battles.engine.kernel import F, njit
from rltrain.battles.engine.simd import WIDTH, lowest, units_near
from rltrain.battles.engine.world import GROUND, M, P, U

ZERO, HALF, ONE = F(0), F(0.5), F(1)
LOOP = F(1 / 16)  # seconds
DEEPEST = F(0.5)  # cells behind a wall: half of the thinnest one
MERGED = F(0.15)  # cells by which a pair overlaps before those that stand to fight separate, too
DEEP = F(0.3)  # cells of overlap after which all pairs are separated once more
PASSES = 3  # over all pairs in a loop, at most


@njit(forceinline=True)
def move_units(unit, mark, param, walls, near_walls, loop):
    """Move all units for one loop, push overlapping pairs apart and keep units inside their limits;
    the latter two again while a pair overlaps deeply: in crowds and at walls one push undoes
    another."""
    for i in range(unit.shape[1]):
        unit[U.VX, i], unit[U.VY, i] = unit[U.NX, i], unit[U.NY, i]
        unit[U.X, i] += unit[U.VX, i] * LOOP
        unit[U.Y, i] += unit[U.VY, i] * LOOP
    for k in range(PASSES):
        deep = push_apart(unit, mark, param, (loop + k) % 2 == 1)
        keep_inside(unit, param, walls, near_walls)
        if not deep:
            break


@njit(forceinline=True)
def keep_inside(unit, param, walls, near_walls):
    """Keep ground units out of walls and others inside their limits."""
    for i in range(unit.shape[1]):
        if param[P.LAYER, i] != F(GROUND):
            unit[U.X, i] = min(max(unit[U.X, i], param[P.X_FROM, i]), param[P.X_TO, i])
            unit[U.Y, i] = min(max(unit[U.Y, i], param[P.Y_FROM, i]), param[P.Y_TO, i])
        elif unit[U.HEALTH, i] > ZERO:
            bits = near_walls[int(unit[U.X, i]), int(unit[U.Y, i])]
            if bits != 0:
                leave_walls(unit, i, param[P.DISC, i], walls, bits)


@njit(forceinline=True)
def push_apart(unit, mark, param, backward):
    """Moves every overlapping pair apart, half each; a unit that cannot move leaves it to the
    other, and so does one that fights standing unless the pair is merged. Returns whether a pair
    was deep.

    The last pair is the one that ends up apart, so every other loop begins with the last unit: in
    one order only, the team with the smaller ids wins 46% of bane_vs_bane from mirrored starts.
    """
    units, deep = unit.shape[1], False
    for k in range(1, units):
        i = units - 1 - k if backward else k
        if unit[U.HEALTH, i] <= ZERO:
            continue
        reach2 = param[P.TOUCH, i] * param[P.TOUCH, i]
        first, end = (i + 1, units) if backward else (0, i)
        for start in range(first, end, WIDTH):
            bits = units_near(unit, start, end, unit[U.X, i], unit[U.Y, i], reach2)
            while bits != 0:
                j = start + lowest(bits)
                bits &= bits - 1
                dx, dy = unit[U.X, i] - unit[U.X, j], unit[U.Y, i] - unit[U.Y, j]
                radius = param[P.DISC, i] + param[P.DISC, j]
                if dx * dx + dy * dy >= radius * radius or param[P.LAYER, i] != param[P.LAYER, j]:
                    continue
                overlap = radius - np.sqrt(dx * dx + dy * dy)
                holds, deep = overlap < MERGED, deep or overlap > DEEP
                fixed_i = param[P.SPEED, i] == ZERO or (holds and mark[M.STANDS, i] != 0)
                fixed_j = param[P.SPEED, j] == ZERO or (holds and mark[M.STANDS, j] != 0)
                if not (fixed_i and fixed_j):
                    share = ZERO if fixed_i else (ONE if fixed_j else HALF)
                    push_pair(unit, i, j, dx, dy, radius, share)
                    behind = -2 << (j - start)  # i has moved: look again at those after j
                    bits = behind & units_near(unit, start, end, unit[U.X, i], unit[U.Y, i], reach2)
    return deep


@njit(forceinline=True)
def push_pair(unit, i, j, dx, dy, radius, share):
    """Moves i by ``share`` of the pair's overlap and j by the rest, along the line (dx, dy) from j
    to i."""
    d = np.sqrt(dx * dx + dy * dy)
    nx, ny = ONE, ZERO
    if d > ZERO:
        nx, ny = dx / d, dy / d
    gap = radius - d
    unit[U.X, i] += nx * gap * share
    unit[U.Y, i] += ny * gap * share
    unit[U.X, j] -= nx * gap * (ONE - share)
    unit[U.Y, j] -= ny * gap * (ONE - share)


@njit()
def leave_walls(unit, i, radius, walls, bits):
    """Puts the disc of unit i back on the free side of every wall in the set ``bits`` that it
    touches, so that it slides along them; also if others pushed its center through."""
    while bits != 0:
        w = lowest(bits)
        bits &= bits - 1
        ax, ay = walls[w, 0], walls[w, 1]
        lx, ly = walls[w, 2] - ax, walls[w, 3] - ay
        hx, hy = unit[U.X, i] - ax, unit[U.Y, i] - ay
        along = (hx * lx + hy * ly) / (lx * lx + ly * ly)
        if ZERO <= along <= ONE:
            length = np.sqrt(lx * lx + ly * ly)
            depth = radius - (lx * hy - ly * hx) / length
            if ZERO < depth < radius + DEEPEST:
                unit[U.X, i] -= ly / length * depth
                unit[U.Y, i] += lx / length * depth
        else:
            hx, hy, d = from_wall(walls, w, unit[U.X, i], unit[U.Y, i])
            if ZERO < d < radius:
                unit[U.X, i] += hx / d * (radius - d)
                unit[U.Y, i] += hy / d * (radius - d)


@njit(inline="always")
def from_wall(walls, w, x, y):
    """Vector from the nearest point of wall w to (x, y), and its length."""
    ax, ay = walls[w, 0], walls[w, 1]
    lx, ly = walls[w, 2] - ax, walls[w, 3] - ay
    hx, hy = x - ax, y - ay
    s = min(max((hx * lx + hy * ly) / (lx * lx + ly * ly), ZERO), ONE)
    hx, hy = hx - s * lx, hy - s * ly
    return hx, hy, np.sqrt(hx * hx + hy * hy)
