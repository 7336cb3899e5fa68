"""Collision avoidance of SMAClite: velocities that keep units from running into each other
(compiled).

Optimal reciprocal collision avoidance (van den Berg et al. 2011, "Reciprocal n-body collision
avoidance"): every neighbor and wall allows a half-plane of velocities, a small linear program
picks the allowed one nearest to the wanted one. A half-plane is a line (point qx, qy, unit
direction dx, dy); velocities to its left are allowed. Units look one second ahead for others and
one loop ahead for walls.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from rltrain.battles.engine.kernel import F, njit
from rltrain.battles.engine.simd import WIDTH, lowest, units_near
from rltrain.battles.engine.world import P, U

ZERO, HALF, ONE = F(0), F(0.5), F(1)
LOOPS = F(16)  # per second
PARALLEL = F(1e-5)  # sine of the angle below which two lines count as parallel


@njit(forceinline=True)
def avoid_units(unit, param, i, n_walls, lines, spare, near):
    """Next velocity of unit i, whose walls are the first ``n_walls`` lines.

    Vectors are divided by multiplying with a reciprocal, as the RVO2 library does. Equal discs in
    contact lie exactly on the limit of each other's reach, so the last bit decides whether they
    avoid each other.
    """
    ux, uy, speed = unit[U.UX, i], unit[U.UY, i], param[P.SPEED, i]
    n = n_walls
    for k in range(find_neighbors(unit, param, i, spare, near)):
        unit_line(unit, param, i, near[k], lines, n)
        n += 1
    if n == 0:
        return
    x, y, n2 = ux, uy, ux * ux + uy * uy
    if n2 > speed * speed:
        length = np.sqrt(n2)
        x, y = ux * (ONE / length) * speed, uy * (ONE / length) * speed
    failed, x, y = meet_lines(lines, n, ux, uy, x, y, speed, False)
    if failed < n:
        x, y = least_violation(lines, n, n_walls, failed, x, y, speed, spare)
    unit[U.NX, i], unit[U.NY, i] = x, y


@njit(forceinline=True)
def find_neighbors(unit, param, i, spare, near):
    """Fill ``near`` with living units in i's layer and reach, nearest first, ties by index. Returns
    their number."""
    x, y, count, reach = unit[U.X, i], unit[U.Y, i], 0, param[P.NEIGHBOR, i]
    units = unit.shape[1]
    for start in range(0, units, WIDTH):
        bits = units_near(unit, start, units, x, y, reach * reach)
        while bits != 0:
            j = start + lowest(bits)
            bits &= bits - 1
            dx, dy = unit[U.X, j] - x, unit[U.Y, j] - y
            d2 = dx * dx + dy * dy
            if d2 >= reach * reach or j == i or param[P.LAYER, j] != param[P.LAYER, i]:
                continue
            k = count
            while k > 0 and spare[k - 1, 4] > d2:
                near[k], spare[k, 4] = near[k - 1], spare[k - 1, 4]
                k -= 1
            near[k], spare[k, 4] = j, d2
            count += 1
    return count


@njit(forceinline=True)
def unit_line(unit, param, i, j, lines, n):
    """Line n: the half-plane that unit j leaves to unit i. A standing j does not make way."""
    px, py = unit[U.X, j] - unit[U.X, i], unit[U.Y, j] - unit[U.Y, i]
    vx, vy = unit[U.VX, i] - unit[U.VX, j], unit[U.VY, i] - unit[U.VY, j]
    radius = param[P.DISC, i] + param[P.DISC, j]
    d2 = px * px + py * py
    apart = d2 > radius * radius
    horizon = ONE if apart else LOOPS  # 1 / time: one second, or one loop to end an overlap
    wx, wy = vx - horizon * px, vy - horizon * py
    w2 = wx * wx + wy * wy
    dot = wx * px + wy * py
    if apart and (dot >= ZERO or dot * dot <= radius * radius * w2):
        leg = np.sqrt(d2 - radius * radius)
        side = ONE if px * wy - py * wx > ZERO else -ONE
        dx, dy = px * leg - py * (side * radius), px * (side * radius) + py * leg
        dx, dy = side * dx * (ONE / d2), side * dy * (ONE / d2)
        dot = vx * dx + vy * dy
        cx, cy = dot * dx - vx, dot * dy - vy
    else:
        w = np.sqrt(w2)
        nx, ny = ONE, ZERO  # same place, same velocity: any fixed direction will do
        if w > ZERO:
            nx, ny = wx * (ONE / w), wy * (ONE / w)
        dx, dy = ny, -nx
        cx, cy = (radius * horizon - w) * nx, (radius * horizon - w) * ny
    share = ONE if unit[U.UX, j] == ZERO and unit[U.UY, j] == ZERO else HALF
    lines[n, 0], lines[n, 1] = unit[U.VX, i] + share * cx, unit[U.VY, i] + share * cy
    lines[n, 2], lines[n, 3] = dx, dy


@njit(forceinline=True)
def meet_lines(lines, n, ux, uy, x, y, speed, along):
    """Move (x, y) to the velocity nearest to (ux, uy), or with ``along`` farthest in that unit
    direction, that all n lines allow.

    Returns (n, x, y), or (first line that cannot be met, the point found before it).
    """
    for i in range(n):
        qx, qy, dx, dy = lines[i, 0], lines[i, 1], lines[i, 2], lines[i, 3]
        if dx * (qy - y) - dy * (qx - x) <= ZERO:
            continue
        b = qx * dx + qy * dy
        inside = b * b + speed * speed - (qx * qx + qy * qy)
        if inside < ZERO:
            return i, x, y
        root = np.sqrt(inside)
        low, high = -b - root, -b + root
        for j in range(i):
            ex, ey = lines[j, 2], lines[j, 3]
            den = dx * ey - dy * ex
            num = ex * (qy - lines[j, 1]) - ey * (qx - lines[j, 0])
            if abs(den) <= PARALLEL:
                if num < ZERO:
                    return i, x, y
                continue
            if den > ZERO:
                high = min(high, num / den)
            else:
                low = max(low, num / den)
            if low > high:
                return i, x, y
        if along:
            t = high if ux * dx + uy * dy > ZERO else low
        else:
            t = min(max(dx * (ux - qx) + dy * (uy - qy), low), high)
        x, y = qx + t * dx, qy + t * dy
    return n, x, y


@njit()
def least_violation(lines, n, n_walls, failed, x, y, speed, spare):
    """The velocity that violates the unit lines least and the wall lines not at all, where no
    velocity meets all lines."""
    depth = ZERO
    for i in range(failed, n):
        qx, qy, dx, dy = lines[i, 0], lines[i, 1], lines[i, 2], lines[i, 3]
        if dx * (qy - y) - dy * (qx - x) <= depth:
            continue
        m = n_walls
        for j in range(n_walls):
            spare[j, 0], spare[j, 1] = lines[j, 0], lines[j, 1]
            spare[j, 2], spare[j, 3] = lines[j, 2], lines[j, 3]
        for j in range(n_walls, i):
            ex, ey = lines[j, 2], lines[j, 3]
            den = dx * ey - dy * ex
            if abs(den) <= PARALLEL:
                if dx * ex + dy * ey > ZERO:
                    continue
                spare[m, 0], spare[m, 1] = HALF * (qx + lines[j, 0]), HALF * (qy + lines[j, 1])
            else:
                t = (ex * (qy - lines[j, 1]) - ey * (qx - lines[j, 0])) / den
                spare[m, 0], spare[m, 1] = qx + t * dx, qy + t * dy
            gx, gy = ex - dx, ey - dy
            g = np.sqrt(gx * gx + gy * gy)
            spare[m, 2], spare[m, 3] = gx * (ONE / g), gy * (ONE / g)
            m += 1
        unmet, new_x, new_y = meet_lines(spare, m, -dy, dx, -dy * speed, dx * speed, speed, True)
        if unmet >= m:
            x, y = new_x, new_y
        depth = dx * (qy - y) - dy * (qx - x)
    return x, y
