"""Units that cannot move: when they drop a target, and turrets that must point at a target before
the windup (compiled). The spine crawler is the only one.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numpy as np

from rltrain.battles.engine.kernel import F, njit
from rltrain.battles.engine.world import NO_ONE, M, P, U

ZERO, INSTANTLY = F(0), F(math.inf)
TURN, HALF_TURN = F(2 * math.pi), F(math.pi)
EXACTLY = F(1e-3)  # radians: rounding


@njit()
def lets_go(unit, mark, param, i, target):
    """Whether the target does not attack unit i while another unit in its reach does."""
    if mark[M.TARGET, target] == i:
        return False
    for j in range(unit.shape[1]):
        if mark[M.TARGET, j] == i and unit[U.HEALTH, j] > ZERO:
            dx, dy = unit[U.X, j] - unit[U.X, i], unit[U.Y, j] - unit[U.Y, i]
            reach = param[P.RANGE, i] + param[P.RADIUS, i] + param[P.RADIUS, j]
            if dx * dx + dy * dy <= reach * reach:
                return True
    return False


@njit(forceinline=True)
def off_target(unit, i, target):
    """Angle from where turret i points to its target, in -pi .. pi."""
    to = np.arctan2(unit[U.Y, target] - unit[U.Y, i], unit[U.X, target] - unit[U.X, i])
    gap = to - unit[U.FACING, i]
    if gap > HALF_TURN:
        gap -= TURN
    elif gap < -HALF_TURN:
        gap += TURN
    return gap


@njit()
def turn_turrets(unit, mark, param):
    """One loop: every turret turns the shorter way toward its target; without one it stays."""
    for i in range(unit.shape[1]):
        rate, target = param[P.TURN, i], mark[M.TARGET, i]
        if rate == INSTANTLY or target == NO_ONE or unit[U.HEALTH, i] <= ZERO:
            continue
        facing = unit[U.FACING, i] + min(max(off_target(unit, i, target), -rate), rate)
        if facing > HALF_TURN:
            facing -= TURN
        elif facing < -HALF_TURN:
            facing += TURN
        unit[U.FACING, i] = facing


@njit(forceinline=True)
def points_at(unit, param, i, target):
    """Whether unit i may begin a shot at the target; units without a turret always may."""
    return param[P.TURN, i] == INSTANTLY or abs(off_target(unit, i, target)) <= EXACTLY
