"""How melee units get round friends who already fight (compiled).

Avoidance alone leaves them queueing behind: whoever stands to fight does not yield, and the wanted
velocity points right through him. StarCraft II's crowds flow around; how is not published. Here a
blocked unit turns away from its target by as little as is needed to pass, always to the same side
until it is free again.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from rltrain.env.smac.combat import distance2
from rltrain.env.smac.compiled import F, njit
from rltrain.env.smac.world import (
    HEALTH,
    NO_ONE,
    P_DISC,
    P_LAYER,
    P_RANGE,
    SIDE,
    STANDS,
    TARGET,
    UX,
    UY,
    X,
    Y,
)

ZERO = F(0)
MELEE = F(1)  # weapon ranges below this have to touch
NEAR = F(0.25)  # a standing unit closer than this is in the way
FACING = F(0.3)  # cosine of the angle within which it is
TURNS = 7  # of 22.5 degrees each
COS, SIN = F(np.cos(np.pi / 8)), F(np.sin(np.pi / 8))


@njit()
def flow_around(unit, mark, param, near):
    """Turns the wanted velocities of blocked melee units; ``near`` is scratch space."""
    for i in range(unit.shape[1]):
        ux, uy = unit[UX, i], unit[UY, i]
        chases = mark[TARGET, i] != NO_ONE and (ux != ZERO or uy != ZERO)
        if unit[HEALTH, i] <= ZERO or not chases or param[P_RANGE, i] >= MELEE:
            mark[SIDE, i] = 0
            continue
        count = find_standing(unit, mark, param, i, near)
        blocker = who_blocks(unit, i, ux, uy, near, count)
        if blocker == NO_ONE:
            mark[SIDE, i] = 0
            continue
        if mark[SIDE, i] == 0:
            dx, dy = unit[X, blocker] - unit[X, i], unit[Y, blocker] - unit[Y, i]
            mark[SIDE, i] = 1 if dx * uy - dy * ux > ZERO else -1
        sine = SIN * F(mark[SIDE, i])
        for _ in range(TURNS):
            ux, uy = ux * COS - uy * sine, ux * sine + uy * COS
            if who_blocks(unit, i, ux, uy, near, count) == NO_ONE:
                unit[UX, i], unit[UY, i] = ux, uy
                break


@njit()
def find_standing(unit, mark, param, i, near):
    """Units of i's layer that stand to fight right beside it, its target excepted, into ``near``;
    how many."""
    count = 0
    for j in range(unit.shape[1]):
        reach = param[P_DISC, i] + param[P_DISC, j] + NEAR
        if mark[STANDS, j] == 0 or distance2(unit, i, j) > reach * reach or j == mark[TARGET, i]:
            continue
        if unit[HEALTH, j] > ZERO and param[P_LAYER, j] == param[P_LAYER, i]:
            near[count] = j
            count += 1
    return count


@njit()
def who_blocks(unit, i, ux, uy, near, count):
    """Which of ``near`` stands most in the way of the velocity (ux, uy); nobody if none does."""
    found, most = NO_ONE, FACING * np.sqrt(ux * ux + uy * uy)
    for k in range(count):
        dx, dy = unit[X, near[k]] - unit[X, i], unit[Y, near[k]] - unit[Y, i]
        d = np.sqrt(dx * dx + dy * dy)
        facing = (dx * ux + dy * uy) / d if d > ZERO else ZERO
        if facing > most:
            found, most = near[k], facing
    return found
