"""Healers: choice of patients, flight and healing; one call is one simulation loop
(compiled).

Agents' healers follow their orders. Enemies' healers go along with their team and heal on
their own. StarCraft II's scan-move is not documented; what stands here is our reading of it.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from rltrain.env.smac.engine.combat import distance2, in_reach
from rltrain.env.smac.engine.kernel import F, njit
from rltrain.env.smac.engine.world import (
    ENERGY,
    HEAL_MOVE,
    HEALTH,
    MEND,
    NO_ONE,
    ORDER,
    P_ACCELERATION,
    P_ENERGY,
    P_HEALTH,
    P_RANGE,
    P_SPEED,
    TARGET,
    UX,
    UY,
    VX,
    VY,
)

ZERO = F(0)
LOOP = F(1 / 16)  # seconds
MEND_PER_LOOP = F(9 / 16)  # health
ENERGY_PER_HEALTH = F(0.33)
ENERGY_TO_START = F(5)  # to begin on one's own
ACQUIRE = F(6)  # edge distance at which healers look for patients on their own


@njit()
def choose_patients(unit, mark, param, affects):
    """Enemy healers stay with their patient until it is well, dead or gone, then take another."""
    for i in range(unit.shape[1]):
        if mark[ORDER, i] != HEAL_MOVE or unit[HEALTH, i] <= ZERO:
            continue
        patient = mark[TARGET, i]
        if patient == NO_ONE or not needs(unit, param, affects, i, patient):
            mark[TARGET, i] = neediest(unit, param, affects, i)
        elif unit[ENERGY, i] <= ZERO:
            mark[TARGET, i] = NO_ONE


@njit()
def needs(unit, param, affects, i, j):
    """Whether j is hurt, near, and can be healed by i."""
    hurt = ZERO < unit[HEALTH, j] < param[P_HEALTH, j]
    return hurt and affects[i, j] == MEND and in_reach(unit, param, i, j, ACQUIRE)


@njit()
def neediest(unit, param, affects, i):
    """The patient with the smallest share of its health, then the nearest."""
    found, best, gap = NO_ONE, F(np.inf), F(np.inf)
    if unit[ENERGY, i] < ENERGY_TO_START:
        return found
    for j in range(unit.shape[1]):
        if not needs(unit, param, affects, i, j):
            continue
        share, d2 = unit[HEALTH, j] / param[P_HEALTH, j], distance2(unit, i, j)
        if share < best or (share == best and d2 < gap):
            found, best, gap = j, share, d2
    return found


@njit()
def limit_flight(unit, mark, param, affects):
    """Healers speed up gradually, and without a patient go no faster than those they care for."""
    for i in range(unit.shape[1]):
        wanted = np.sqrt(unit[UX, i] * unit[UX, i] + unit[UY, i] * unit[UY, i])
        if param[P_ENERGY, i] == ZERO or wanted == ZERO:
            continue
        now = np.sqrt(unit[VX, i] * unit[VX, i] + unit[VY, i] * unit[VY, i])
        limit = now + param[P_ACCELERATION, i] * LOOP
        if mark[ORDER, i] == HEAL_MOVE and mark[TARGET, i] == NO_ONE:
            for j in range(unit.shape[1]):
                if affects[i, j] == MEND and unit[HEALTH, j] > ZERO:
                    limit = min(limit, param[P_SPEED, j])
        if wanted > limit:
            unit[UX, i] *= limit / wanted
            unit[UY, i] *= limit / wanted


@njit()
def mend(unit, mark, param, affects):
    """Health for energy, at most what the patient lacks."""
    for i in range(unit.shape[1]):
        j = mark[TARGET, i]
        if param[P_ENERGY, i] == ZERO or unit[HEALTH, i] <= ZERO or j == NO_ONE:
            continue
        if unit[HEALTH, j] <= ZERO or affects[i, j] != MEND:
            continue
        if in_reach(unit, param, i, j, param[P_RANGE, i]):
            lacks = param[P_HEALTH, j] - unit[HEALTH, j]
            amount = min(lacks, MEND_PER_LOOP, unit[ENERGY, i] / ENERGY_PER_HEALTH)
            unit[HEALTH, j] += amount
            unit[ENERGY, i] = max(unit[ENERGY, i] - amount * ENERGY_PER_HEALTH, ZERO)
