"""Avoidance of ``rules=smaclite`` where it must round as the RVO2 library does (compiled).

Equal discs in contact lie exactly on the limit of each other's reach, so the last bit decides
whether they avoid each other. RVO2 divides vectors by multiplying with a reciprocal; everything
else is shared with ``avoidance``.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from rltrain.env.smac.engine.kernel import F, njit
from rltrain.env.smac.engine.movement.avoidance import PARALLEL, meet_lines
from rltrain.env.smac.engine.world import P, U

ZERO, HALF, ONE = F(0), F(0.5), F(1)
TICKS = F(16)  # per second


@njit(forceinline=True)
def unit_line(unit, param, i, j, lines, n):
    """Line n: the half-plane that unit j leaves to unit i. A standing j leaves all of the work to
    i."""
    px, py = unit[U.X, j] - unit[U.X, i], unit[U.Y, j] - unit[U.Y, i]
    vx, vy = unit[U.VX, i] - unit[U.VX, j], unit[U.VY, i] - unit[U.VY, j]
    radius = param[P.DISC, i] + param[P.DISC, j]
    d2 = px * px + py * py
    apart = d2 > radius * radius
    horizon = ONE if apart else TICKS  # 1 / time, as in avoidance.unit_line
    wx, wy = vx - horizon * px, vy - horizon * py
    w2 = wx * wx + wy * wy
    dot = wx * px + wy * py
    if apart and (dot >= ZERO or dot * dot <= radius * radius * w2):
        leg, inverse = np.sqrt(d2 - radius * radius), ONE / d2
        if px * wy - py * wx > ZERO:
            dx, dy = (px * leg - py * radius) * inverse, (px * radius + py * leg) * inverse
        else:
            dx, dy = -(px * leg + py * radius) * inverse, -(-px * radius + py * leg) * inverse
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
def solve_on_lines(lines, n, ux, uy, speed):
    """Velocity nearest to (ux, uy) that all n lines allow, see ``avoidance.solve_on_lines``."""
    x, y = ux, uy
    n2 = ux * ux + uy * uy
    if n2 > speed * speed:
        inverse = ONE / np.sqrt(n2)
        x, y = ux * inverse * speed, uy * inverse * speed
    return meet_lines(lines, n, ux, uy, x, y, speed, False)


@njit()
def least_violation(lines, n, n_walls, failed, x, y, speed, spare):
    """No velocity suits everyone: break the unit lines as little as possible, the wall lines not at
    all."""
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
            inverse = ONE / np.sqrt(gx * gx + gy * gy)
            spare[m, 2], spare[m, 3] = gx * inverse, gy * inverse
            m += 1
        unmet, new_x, new_y = meet_lines(spare, m, -dy, dx, -dy * speed, dx * speed, speed, True)
        if unmet >= m:
            x, y = new_x, new_y
        depth = dx * (qy - y) - dy * (qx - x)
    return x, y
