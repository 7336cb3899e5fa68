"""One loop of motion: units keep their speed and slide past whatever is in their way, overlapping
pairs separate, walls push units out (compiled).

Recorded units of StarCraft II pass each other head-on within eight loops, shift sideways just
enough to clear, and give way to the right where both sides are equal. So a unit whose next loop
would bring it nearer to another one than their discs allow turns by the least angle that does not,
right before left, and keeps to that side until its way is free. Where no turn up to a right angle
helps it goes on at half its speed, and ``push_apart`` separates whatever overlaps. Walls are left
to ``leave_walls``.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from rltrain.battles.engine.kernel import F, njit
from rltrain.battles.engine.simd import WIDTH, lowest, units_near
from rltrain.battles.engine.world import GROUND, M, P, U

ZERO, HALF, ONE = F(0), F(0.5), F(1)
LOOP = F(1 / 16)  # seconds
TURNS = 6  # of 15, 30 … 90 degrees, to each side
SQUEEZE = F(0.9)  # share of the two radii that a unit keeps on its way past another one
YIELD = F(0.95)  # share of the squared distance that may be lost in a loop
STUCK = F(0.5)  # share of the speed where no turn helps
EARLIEST = F(1e-9)
DEEPEST = F(0.5)  # cells behind a wall: half of the thinnest one
MERGED = F(0.15)  # cells by which a pair overlaps before those that stand to fight separate, too
DEEP = F(0.3)  # cells of overlap after which all pairs are separated once more
PASSES = 3  # over all pairs in a loop, at most
ANGLES = np.arange(1, TURNS + 1) * np.pi / 12
COS, SIN = np.cos(ANGLES).astype(np.float32), np.sin(ANGLES).astype(np.float32)


@njit(forceinline=True)
def choose_velocities(unit, mark, param, near):
    """Wanted (UX, UY) to next velocity (NX, NY) of every living unit; units with zero desired
    velocity do not move. All decide by the velocities of the last loop, so their order does not
    matter."""
    for i in range(unit.shape[1]):
        ux, uy = unit[U.UX, i], unit[U.UY, i]
        unit[U.NX, i], unit[U.NY, i] = ux, uy
        if unit[U.HEALTH, i] <= ZERO or (ux == ZERO and uy == ZERO):
            continue
        count = find_near(unit, param, i, near)
        if count > 0 and blocked(unit, param, i, ux, uy, near, count):
            turn(unit, mark, param, i, ux, uy, near, count)
        else:
            mark[M.PASSES, i] = 0


@njit(forceinline=True)
def find_near(unit, param, i, near):
    """Fill ``near`` with the living units in i's layer that one loop could bring into contact.
    Returns their number."""
    x, y, count, reach = unit[U.X, i], unit[U.Y, i], 0, param[P.NEIGHBOR, i]
    units = unit.shape[1]
    for start in range(0, units, WIDTH):
        bits = units_near(unit, start, units, x, y, reach * reach)
        while bits != 0:
            j = start + lowest(bits)
            bits &= bits - 1
            if j != i and param[P.LAYER, j] == param[P.LAYER, i]:
                near[count] = j
                count += 1
    return count


@njit()
def turn(unit, mark, param, i, ux, uy, near, count):
    """The least turn of the velocity (ux, uy) that nothing in ``near`` blocks, to the side of the
    last loop if there is one."""
    kept = mark[M.PASSES, i]
    for k in range(2 * TURNS):
        side = (1 if k % 2 else -1) if kept == 0 else (kept if k < TURNS else -kept)
        angle = k // 2 if kept == 0 else k % TURNS
        sine = SIN[angle] * F(side)
        vx, vy = ux * COS[angle] - uy * sine, ux * sine + uy * COS[angle]
        if not blocked(unit, param, i, vx, vy, near, count):
            unit[U.NX, i], unit[U.NY, i] = vx, vy
            mark[M.PASSES, i] = side
            return
    mark[M.PASSES, i] = 0
    unit[U.NX, i], unit[U.NY, i] = STUCK * ux, STUCK * uy


@njit(forceinline=True)
def blocked(unit, param, i, vx, vy, near, count):
    """Whether the velocity (vx, vy) brings unit i too near to one of the units in ``near`` within a
    loop, if they go on as in the last one."""
    for k in range(count):
        j = near[k]
        px, py = unit[U.X, j] - unit[U.X, i], unit[U.Y, j] - unit[U.Y, i]
        wx, wy = (vx - unit[U.VX, j]) * LOOP, (vy - unit[U.VY, j]) * LOOP
        closing = wx * px + wy * py
        if closing <= EARLIEST:
            continue
        share = min(closing / (wx * wx + wy * wy), ONE)
        dx, dy = px - share * wx, py - share * wy
        gap = (param[P.DISC, i] + param[P.DISC, j]) * SQUEEZE
        allowed = min(gap * gap, px * px + py * py)
        if dx * dx + dy * dy < allowed * YIELD:
            return True
    return False


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
