"""Crowd steering: melee units walk around allies that already fight (compiled).

With collision avoidance alone they would queue behind them, because units that stand to fight do
not make way. StarCraft II's units flow around each other; its algorithm is not published. Here a
blocked unit searches, as often as it scans, for the nearest free place beside an enemy, walks
there, and turns away from units in its way by the smallest angle that lets it pass.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from rltrain.battles.data.map_data import SIZE
from rltrain.battles.engine.fighting.combat import distance2, head_for, in_reach
from rltrain.battles.engine.kernel import F, njit, squared
from rltrain.battles.engine.simd import WIDTH, lowest, units_near
from rltrain.battles.engine.world import NO_ONE, Effect, M, Order, P, U

ZERO, HALF = F(0), F(0.5)
MELEE = F(1)  # weapon ranges below this have to touch
NEAR = F(0.25)  # a standing unit closer than this is in the way
STUCK = F(0.25)  # squared speed below which a unit counts as blocked
FACING = F(0.3)  # cosine of the angle within which a unit is in the way
TURNS = 7  # of 22.5 degrees each
COS, SIN = F(np.cos(np.pi / 8)), F(np.sin(np.pi / 8))
SQUEEZE = F(0.9)  # share of the squared distance of two discs in contact that a place needs
PLACES = 16  # places around a foe, evenly
SAFE = F(0.01)  # cells, more than rounding can make of a distance
OCCUPIED = F(-1)  # in place of a squared distance: smaller than any
AROUND = np.linspace(0, 2 * np.pi, PLACES, endpoint=False)
PLACE_X, PLACE_Y = np.cos(AROUND).astype(np.float32), np.sin(AROUND).astype(np.float32)


@njit()
def flow_around(unit, mark, param, affects, pathable, any_place, n_agents, loop, near, taken):
    """Turns the wanted velocities of blocked melee units; ``near`` and ``taken`` are scratch
    space."""
    for i in range(unit.shape[1]):
        chases = mark[M.TARGET, i] != NO_ONE and (unit[U.UX, i] != ZERO or unit[U.UY, i] != ZERO)
        if unit[U.HEALTH, i] <= ZERO or not chases or param[P.RANGE, i] >= MELEE:
            mark[M.SIDE, i], mark[M.PLACE, i] = 0, NO_ONE
            continue
        count = find_standing(unit, mark, param, i, near)
        blocker = find_blocker(unit, i, unit[U.UX, i], unit[U.UY, i], near, count)
        if blocker == NO_ONE:
            mark[M.SIDE, i], mark[M.PLACE, i] = 0, NO_ONE
            continue
        if (loop + mark[M.PHASE, i]) % int(param[P.SCAN_EVERY, i]) == 0:
            find_place(unit, mark, param, affects, pathable, any_place, n_agents, i, taken)
        if mark[M.PLACE, i] != NO_ONE:
            x, y = place_beside(unit, param, i, mark[M.TARGET, i], mark[M.PLACE, i])
            head_for(unit, param, i, x, y)
            blocker = find_blocker(unit, i, unit[U.UX, i], unit[U.UY, i], near, count)
        if blocker != NO_ONE:
            turn_away(unit, mark, i, blocker, near, count)


@njit()
def turn_away(unit, mark, i, blocker, near, count):
    """The least turn that clears all units in ``near``, to the side first taken."""
    ux, uy = unit[U.UX, i], unit[U.UY, i]
    if mark[M.SIDE, i] == 0:
        dx, dy = unit[U.X, blocker] - unit[U.X, i], unit[U.Y, blocker] - unit[U.Y, i]
        mark[M.SIDE, i] = 1 if dx * uy - dy * ux > ZERO else -1
    sine = SIN * F(mark[M.SIDE, i])
    for _ in range(TURNS):
        ux, uy = ux * COS - uy * sine, ux * sine + uy * COS
        if find_blocker(unit, i, ux, uy, near, count) == NO_ONE:
            unit[U.UX, i], unit[U.UY, i] = ux, uy
            return


@njit(inline="always")
def place_beside(unit, param, i, target, place):
    """The point where i can strike the target from this side."""
    reach = param[P.RANGE, i] * HALF + param[P.RADIUS, i] + param[P.RADIUS, target]
    return unit[U.X, target] + reach * PLACE_X[place], unit[U.Y, target] + reach * PLACE_Y[place]


@njit()
def find_place(unit, mark, param, affects, pathable, any_place, n_agents, i, taken):
    """The nearest free place beside the target of unit i; with ``any_place``, if the unit is on an
    attack-move, beside any enemy in its scan range."""
    best, found, here, there = F(np.inf), NO_ONE, unit[U.X, i], unit[U.Y, i]
    friends = find_promised(unit, mark, param, n_agents, i, taken)
    first, end = (n_agents, unit.shape[1]) if i < n_agents else (0, n_agents)
    target = mark[M.TARGET, i]
    for j in range(first, end):
        if j != target:
            strange = mark[M.ORDER, i] != Order.ATTACK_MOVE or affects[i, j] != Effect.HIT
            if strange or not any_place or unit[U.HEALTH, j] <= ZERO:
                continue
            if not in_reach(unit, param, i, j, param[P.SCAN, i]):
                continue
        at_x, at_y = unit[U.X, j], unit[U.Y, j]
        reach = param[P.RANGE, i] * HALF + param[P.RADIUS, i] + param[P.RADIUS, j]
        gap = np.sqrt(distance2(unit, i, j)) - reach - SAFE
        if gap > ZERO and gap * gap > best:
            continue  # all of its places are farther
        count = find_held(unit, mark, param, n_agents, i, j, reach + SAFE, taken, friends)
        for place in range(PLACES):
            x, y = at_x + reach * PLACE_X[place], at_y + reach * PLACE_Y[place]
            d2 = squared(x - here, y - there)
            if d2 < best and is_free(pathable, x, y, d2, taken, count):
                best, found = d2, place
                mark[M.TARGET, i] = j
    if found != mark[M.PLACE, i]:
        mark[M.SIDE, i] = 0
    mark[M.PLACE, i] = found


@njit()
def find_promised(unit, mark, param, n_agents, i, taken):
    """Fill ``taken`` with the places that allies in i's layer are moving to: x, y, the ally's
    squared distance from it, and the squared distance to keep. Returns their number."""
    count = 0
    first, end = (0, n_agents) if i < n_agents else (n_agents, unit.shape[1])
    for j in range(first, end):
        if j == i or mark[M.PLACE, j] == NO_ONE or mark[M.STANDS, j] != 0:
            continue
        if unit[U.HEALTH, j] <= ZERO or param[P.LAYER, j] != param[P.LAYER, i]:
            continue
        near = param[P.DISC, i] + param[P.DISC, j]
        px, py = place_beside(unit, param, j, mark[M.TARGET, j], mark[M.PLACE, j])
        taken[count, 0], taken[count, 1] = px, py
        taken[count, 2] = squared(px - unit[U.X, j], py - unit[U.Y, j])
        taken[count, 3] = near * near * SQUEEZE
        count += 1
    return count


@njit()
def find_held(unit, mark, param, n_agents, i, foe, reach, taken, count):
    """Append to ``taken``, from row ``count`` on, enemies and standing allies in i's layer within
    ``reach`` of a foe. Returns the number of rows."""
    units, farthest = unit.shape[1], reach + param[P.TOUCH, i]
    for start in range(0, units, WIDTH):
        bits = units_near(unit, start, units, unit[U.X, foe], unit[U.Y, foe], farthest * farthest)
        while bits != 0:
            j = start + lowest(bits)
            bits &= bits - 1
            holds = mark[M.STANDS, j] != 0 or (j < n_agents) != (i < n_agents)
            if holds and j != i and param[P.LAYER, j] == param[P.LAYER, i]:
                near = param[P.DISC, i] + param[P.DISC, j]
                taken[count, 0], taken[count, 1] = unit[U.X, j], unit[U.Y, j]
                taken[count, 2], taken[count, 3] = OCCUPIED, near * near * SQUEEZE
                count += 1
    return count


@njit(forceinline=True)
def is_free(pathable, x, y, d2, taken, count):
    """Whether a unit at squared distance ``d2`` may take (x, y): no wall, and no unit in ``taken``
    that is there earlier is too near."""
    column, row = int(np.floor(x)), int(np.floor(y))
    if column < 0 or column >= SIZE or row < 0 or row >= SIZE or pathable[column, row] == 0:
        return False
    for k in range(count - 1, -1, -1):  # occupied places, the likeliest obstacles, are last
        if squared(taken[k, 0] - x, taken[k, 1] - y) < taken[k, 3] and taken[k, 2] < d2:
            return False
    return True


@njit()
def find_standing(unit, mark, param, i, near):
    """Fill ``near`` with units in i's layer right beside it that stand to fight or are blocked,
    except its target. Returns their number."""
    count, units, farthest = 0, unit.shape[1], param[P.TOUCH, i] + NEAR
    for start in range(0, units, WIDTH):
        bits = units_near(unit, start, units, unit[U.X, i], unit[U.Y, i], farthest * farthest)
        while bits != 0:
            j = start + lowest(bits)
            bits &= bits - 1
            reach = param[P.DISC, i] + param[P.DISC, j] + NEAR
            if distance2(unit, i, j) > reach * reach or j == mark[M.TARGET, i] or j == i:
                continue
            if param[P.LAYER, j] != param[P.LAYER, i]:
                continue
            if mark[M.STANDS, j] != 0 or squared(unit[U.VX, j], unit[U.VY, j]) < STUCK:
                near[count] = j
                count += 1
    return count


@njit()
def find_blocker(unit, i, ux, uy, near, count):
    """The unit of ``near`` most in the way of the velocity (ux, uy); NO_ONE if none is."""
    found, most = NO_ONE, FACING * np.sqrt(ux * ux + uy * uy)
    for k in range(count):
        dx, dy = unit[U.X, near[k]] - unit[U.X, i], unit[U.Y, near[k]] - unit[U.Y, i]
        d = np.sqrt(dx * dx + dy * dy)
        facing = (dx * ux + dy * uy) / d if d > ZERO else ZERO
        if facing > most:
            found, most = near[k], facing
    return found
