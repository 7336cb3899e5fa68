"""Walls of ``rules=smaclite``: solid rectangles that units brake for one second ahead, and the
velocities that follow (compiled).

Walls are edges of rectangles, counter-clockwise; the obstacle lines are those of the RVO2 library
(van den Berg et al. 2011). An edge is a row (ax, ay, bx, by, direction before it, direction after
it).
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from rltrain.battles.data.map_data import SIZE
from rltrain.battles.engine.kernel import F, njit, squared
from rltrain.battles.engine.movement.motion import from_wall
from rltrain.battles.engine.world import GROUND, P, U
from rltrain.battles.smaclite.avoidance import avoid_units

ZERO, HALF, ONE = F(0), F(0.5), F(1)
COVERED = F(-1e-5)  # a wall counts as covered by an earlier line up to this


@njit()
def choose_velocities(unit, param, walls, lines, spare, near):
    """Wanted (UX, UY) to next velocity (NX, NY) of every living unit; units with zero desired
    velocity do not move.
    """
    for i in range(unit.shape[1]):
        ux, uy = unit[U.UX, i], unit[U.UY, i]
        unit[U.NX, i], unit[U.NY, i] = ux, uy
        if unit[U.HEALTH, i] <= ZERO or (ux == ZERO and uy == ZERO):
            continue
        n_walls = np.int64(0)  # no literal, for which its callees would be compiled again
        if param[P.LAYER, i] == F(GROUND):
            for k in range(find_walls(unit, param, i, walls, spare, near)):
                n_walls += wall_line(unit, param, i, walls, near[k], lines, n_walls)
        avoid_units(unit, param, i, n_walls, lines, spare, near)


@njit()
def find_walls(unit, param, i, walls, spare, near):
    """Edges that unit i faces and can reach within a second into ``near``, nearest first; how
    many."""
    x, y, count = unit[U.X, i], unit[U.Y, i], 0
    reach = param[P.SPEED, i] + param[P.DISC, i]
    for w in range(walls.shape[0]):
        ax, ay = walls[w, 0], walls[w, 1]
        if (walls[w, 2] - ax) * (y - ay) - (walls[w, 3] - ay) * (x - ax) >= ZERO:
            continue
        d = from_wall(walls, w, x, y)[2]
        if d >= reach:
            continue
        k = count
        while k > 0 and spare[k - 1, 4] > d:
            near[k], spare[k, 4] = near[k - 1], spare[k - 1, 4]
            k -= 1
        near[k], spare[k, 4] = w, d
        count += 1
    return count


@njit()
def wall_line(unit, param, i, walls, w, lines, n):
    """Line n for edge w, unless an earlier one covers it or a neighboring edge is in charge: 1 or
    0.

    a is the left end of the edge as unit i sees it, b the right one.
    """
    radius = param[P.DISC, i]
    ax, ay = walls[w, 0] - unit[U.X, i], walls[w, 1] - unit[U.Y, i]
    bx, by = walls[w, 2] - unit[U.X, i], walls[w, 3] - unit[U.Y, i]
    if is_covered(lines, n, ax, ay, bx, by, radius):
        return 0
    lx, ly = bx - ax, by - ay
    length = np.sqrt(lx * lx + ly * ly)
    ex, ey = lx / length, ly / length
    before_x, before_y, after_x, after_y = walls[w, 4], walls[w, 5], walls[w, 6], walls[w, 7]
    a2, b2, r2 = ax * ax + ay * ay, bx * bx + by * by, radius * radius
    share = -(ax * lx + ay * ly) / (lx * lx + ly * ly)
    mx, my = -ax - share * lx, -ay - share * ly
    level = mx * mx + my * my <= r2  # the disc reaches the straight line through the edge
    if share < ZERO and a2 <= r2:
        return touch(lines, n, -ay, ax)
    if share > ONE and b2 <= r2:
        return touch(lines, n, -by, bx) if bx * after_y - by * after_x >= ZERO else 0
    if ZERO <= share < ONE and level:
        return touch(lines, n, -ex, -ey)
    one_point = level and (share < ZERO or share > ONE)
    if one_point and share < ZERO:  # only the left end matters
        bx, by, b2 = ax, ay, a2
        after_x, after_y = ex, ey
    elif one_point:
        ax, ay, a2 = bx, by, b2
        before_x, before_y = ex, ey
    leg = np.sqrt(a2 - r2)
    left_x, left_y = (ax * leg - ay * radius) / a2, (ax * radius + ay * leg) / a2
    leg = np.sqrt(b2 - r2)
    right_x, right_y = (bx * leg + by * radius) / b2, (-bx * radius + by * leg) / b2
    left_foreign = left_y * before_x - left_x * before_y >= ZERO
    if left_foreign:
        left_x, left_y = -before_x, -before_y
    right_foreign = right_x * after_y - right_y * after_x <= ZERO
    if right_foreign:
        right_x, right_y = after_x, after_y
    avx, avy = unit[U.VX, i] - ax, unit[U.VY, i] - ay
    bvx, bvy = unit[U.VX, i] - bx, unit[U.VY, i] - by
    cx, cy = bx - ax, by - ay
    t = HALF if one_point else (avx * cx + avy * cy) / (cx * cx + cy * cy)
    on_left = avx * left_x + avy * left_y
    on_right = bvx * right_x + bvy * right_y
    if (t < ZERO and on_left < ZERO) or (one_point and on_left < ZERO and on_right < ZERO):
        return around_end(lines, n, ax, ay, avx, avy, radius)
    if t > ONE and on_right < ZERO:
        return around_end(lines, n, bx, by, bvx, bvy, radius)
    far = F(np.inf)
    across = left = right = far
    if not one_point and ZERO <= t <= ONE:
        across = squared(avx - t * cx, avy - t * cy)
    if on_left >= ZERO:
        left = squared(avx - on_left * left_x, avy - on_left * left_y)
    if on_right >= ZERO:
        right = squared(bvx - on_right * right_x, bvy - on_right * right_y)
    if across <= left and across <= right:
        return beside(lines, n, ax, ay, -ex, -ey, radius)
    if left <= right:
        return 0 if left_foreign else beside(lines, n, ax, ay, left_x, left_y, radius)
    return 0 if right_foreign else beside(lines, n, bx, by, -right_x, -right_y, radius)


@njit(forceinline=True)
def is_covered(lines, n, ax, ay, bx, by, radius):
    """Whether an earlier line already keeps the disc away from the whole edge."""
    for k in range(n):
        qx, qy, dx, dy = lines[k, 0], lines[k, 1], lines[k, 2], lines[k, 3]
        if (ax - qx) * dy - (ay - qy) * dx - radius < COVERED:
            continue
        if (bx - qx) * dy - (by - qy) * dx - radius >= COVERED:
            return True
    return False


@njit()
def touch(lines, n, dx, dy):
    """The disc touches the wall: velocities to the left of direction (dx, dy) through rest."""
    length = np.sqrt(dx * dx + dy * dy)
    lines[n, 0] = lines[n, 1] = ZERO
    lines[n, 2], lines[n, 3] = dx / length, dy / length
    return 1


@njit()
def around_end(lines, n, px, py, wx, wy, radius):
    """The disc of velocities that lead to an end point of the wall, the velocity outside of it by
    (wx, wy)."""
    length = np.sqrt(wx * wx + wy * wy)
    wx, wy = wx / length, wy / length
    lines[n, 0], lines[n, 1], lines[n, 2], lines[n, 3] = px + radius * wx, py + radius * wy, wy, -wx
    return 1


@njit()
def beside(lines, n, px, py, dx, dy, radius):
    """The line in direction (dx, dy), one radius to the left of (px, py)."""
    lines[n, 0], lines[n, 1], lines[n, 2], lines[n, 3] = px - radius * dy, py + radius * dx, dx, dy
    return 1


def wall_edges(cells: np.ndarray) -> np.ndarray:
    """float32 [W, 8]: the edges of the rectangles that blocked cells [x, y] form, see above."""
    corners = [
        np.array([(x0, y0), (x1, y0), (x1, y1), (x0, y1)], np.float32)
        for x0, y0, x1, y1 in _rectangles(cells)
    ]
    rows = []
    for corner in corners:
        ahead = np.roll(corner, -1, 0)
        along = (ahead - corner) / np.abs(ahead - corner).sum(1, keepdims=True)
        rows.append(np.hstack([corner, ahead, np.roll(along, 1, 0), np.roll(along, -1, 0)]))
    return np.concatenate(rows).astype(np.float32)


def _rectangles(cells: np.ndarray) -> list[tuple[int, int, int, int]]:
    """Blocked cells as rectangles (x0, y0, x1, y1), row by row from below: as far to the right as
    they go, then up."""
    blocked = cells == 0
    found = []
    for y0 in range(SIZE):
        for x0 in range(SIZE):
            if not blocked[x0, y0]:
                continue
            x1, y1 = x0, y0 + 1
            while x1 < SIZE and blocked[x1, y0]:
                x1 += 1
            while y1 < SIZE and blocked[x0:x1, y1].all():
                y1 += 1
            blocked[x0:x1, y0:y1] = False
            found.append((x0, y0, x1, y1))
    return found
