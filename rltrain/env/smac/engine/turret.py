"""Units that cannot move: when they drop a target, and turrets that must point at it before
they wind up (compiled). The spine crawler is the only one.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numpy as np

from rltrain.env.smac.engine.kernel import F, njit
from rltrain.env.smac.engine.world import (
    FACING,
    HEALTH,
    NO_ONE,
    P_RADIUS,
    P_RANGE,
    P_TURN,
    TARGET,
    X,
    Y,
)

ZERO, INSTANTLY = F(0), F(math.inf)
TURN, HALF_TURN = F(2 * math.pi), F(math.pi)
EXACTLY = F(1e-3)  # radians: rounding


@njit()
def lets_go(unit, mark, param, i, target):
    """Whether the target does not attack unit i while another unit in its reach does."""
    if mark[TARGET, target] == i:
        return False
    for j in range(unit.shape[1]):
        if mark[TARGET, j] == i and unit[HEALTH, j] > ZERO:
            dx, dy = unit[X, j] - unit[X, i], unit[Y, j] - unit[Y, i]
            reach = param[P_RANGE, i] + param[P_RADIUS, i] + param[P_RADIUS, j]
            if dx * dx + dy * dy <= reach * reach:
                return True
    return False


@njit(forceinline=True)
def off_target(unit, i, target):
    """Angle from where turret i points to its target, in -pi .. pi."""
    to = np.arctan2(unit[Y, target] - unit[Y, i], unit[X, target] - unit[X, i])
    gap = to - unit[FACING, i]
    if gap > HALF_TURN:
        gap -= TURN
    elif gap < -HALF_TURN:
        gap += TURN
    return gap


@njit()
def turn_turrets(unit, mark, param):
    """One loop: every turret turns the shorter way toward its target; without one it stays."""
    for i in range(unit.shape[1]):
        rate, target = param[P_TURN, i], mark[TARGET, i]
        if rate == INSTANTLY or target == NO_ONE or unit[HEALTH, i] <= ZERO:
            continue
        facing = unit[FACING, i] + min(max(off_target(unit, i, target), -rate), rate)
        if facing > HALF_TURN:
            facing -= TURN
        elif facing < -HALF_TURN:
            facing += TURN
        unit[FACING, i] = facing


@njit(forceinline=True)
def points_at(unit, param, i, target):
    """Whether unit i may begin a shot at the target; units without a turret always may."""
    return param[P_TURN, i] == INSTANTLY or abs(off_target(unit, i, target)) <= EXACTLY
