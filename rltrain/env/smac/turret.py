"""Turrets: weapons that must point at their target before they wind up (compiled)."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numpy as np

from rltrain.env.smac.compiled import F, njit
from rltrain.env.smac.world import FACING, HEALTH, NO_ONE, P_TURN, TARGET, X, Y

ZERO, INSTANTLY = F(0), F(math.inf)
TURN, HALF_TURN = F(2 * math.pi), F(math.pi)
ARC = F(math.radians(11.25))  # a turret may point so far beside its target


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
    return param[P_TURN, i] == INSTANTLY or abs(off_target(unit, i, target)) <= ARC
