"""Local avoidance: units keep their speed and slide past whatever is in their way (compiled).

Recorded units of StarCraft II pass each other head-on within eight loops, shift sideways just
enough to clear, and give way to the right where both sides are equal. So a unit whose next loop
would bring it nearer to another one than their discs allow turns by the least angle that does not,
right before left, and keeps to that side until its way is free. Where no turn up to a right angle
helps it goes on at half its speed, and ``motion.push_apart`` separates whatever overlaps. Walls are
left to ``motion.leave_walls``.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from rltrain.battles.engine.kernel import F, njit
from rltrain.battles.engine.simd import WIDTH, lowest, units_near
from rltrain.battles.engine.world import M, P, U

ZERO, ONE, LOOP = F(0), F(1), F(1 / 16)
TURNS = 6  # of 15, 30 … 90 degrees, to each side
SQUEEZE = F(0.9)  # share of the two radii that a unit keeps on its way past another one
YIELD = F(0.95)  # share of the squared distance that may be lost in a loop
STUCK = F(0.5)  # share of the speed where no turn helps
EARLIEST = F(1e-9)
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
