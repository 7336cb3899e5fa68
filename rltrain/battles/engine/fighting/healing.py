"""Healers: choice of patients, flight and healing; and what recovers by itself: shields, zerg
health, energy. One call is one simulation loop (compiled).

Agents' healers follow their orders. Enemies' healers follow their team and choose their patients.
StarCraft II's scan-move is not documented; this is an approximation.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from rltrain.battles.engine.fighting.combat import distance2, in_reach
from rltrain.battles.engine.kernel import F, njit
from rltrain.battles.engine.world import NO_ONE, Effect, M, Order, P, U

ZERO, ONE = F(0), F(1)
LOOP = F(1 / 16)  # seconds
MEND_PER_LOOP = F(9 / 16)  # health
ENERGY_PER_HEALTH = F(0.33)
ENERGY_TO_START = F(5)  # that enemies' healers need to choose a patient
ACQUIRE = F(6)  # edge distance within which enemies' healers choose patients
SHIELD_DELAY = F(160)  # loops without damage until shields recover
SHIELD_RECOVERY = F(2 / 16)  # per loop
ENERGY_RECOVERY = F(0.5625 / 16)  # per loop


@njit()
def choose_patients(unit, mark, param, affects):
    """Enemies' healers keep a patient until it is healed, dead or out of range."""
    for i in range(unit.shape[1]):
        if mark[M.ORDER, i] != Order.HEAL_MOVE or unit[U.HEALTH, i] <= ZERO:
            continue
        patient = np.int64(mark[M.TARGET, i])
        if patient == NO_ONE or not needs(unit, param, affects, i, patient):
            mark[M.TARGET, i] = neediest(unit, param, affects, i)
        elif unit[U.ENERGY, i] <= ZERO:
            mark[M.TARGET, i] = NO_ONE


@njit()
def needs(unit, param, affects, i, j):
    """Whether j is hurt, near, and can be healed by i."""
    hurt = ZERO < unit[U.HEALTH, j] < param[P.HEALTH, j]
    return hurt and affects[i, j] == Effect.MEND and in_reach(unit, param, i, j, ACQUIRE)


@njit()
def neediest(unit, param, affects, i):
    """The patient with the smallest share of its health, then the nearest."""
    found, best, gap = NO_ONE, F(np.inf), F(np.inf)
    if unit[U.ENERGY, i] < ENERGY_TO_START:
        return found
    for j in range(unit.shape[1]):
        if not needs(unit, param, affects, i, j):
            continue
        share, d2 = unit[U.HEALTH, j] / param[P.HEALTH, j], distance2(unit, i, j)
        if share < best or (share == best and d2 < gap):
            found, best, gap = j, share, d2
    return found


@njit()
def limit_flight(unit, mark, param, affects):
    """Limit the speed of healers: they accelerate gradually, and without a patient are no faster
    than the slowest ally they can heal.
    """
    for i in range(unit.shape[1]):
        wanted = np.sqrt(unit[U.UX, i] * unit[U.UX, i] + unit[U.UY, i] * unit[U.UY, i])
        if param[P.ENERGY, i] == ZERO or wanted == ZERO:
            continue
        now = np.sqrt(unit[U.VX, i] * unit[U.VX, i] + unit[U.VY, i] * unit[U.VY, i])
        limit = now + param[P.ACCELERATION, i] * LOOP
        if mark[M.ORDER, i] == Order.HEAL_MOVE and mark[M.TARGET, i] == NO_ONE:
            for j in range(unit.shape[1]):
                if affects[i, j] == Effect.MEND and unit[U.HEALTH, j] > ZERO:
                    limit = min(limit, param[P.SPEED, j])
        if wanted > limit:
            unit[U.UX, i] *= limit / wanted
            unit[U.UY, i] *= limit / wanted


@njit()
def mend(unit, mark, param, affects):
    """Health for energy, at most what the patient lacks."""
    for i in range(unit.shape[1]):
        j = mark[M.TARGET, i]
        if param[P.ENERGY, i] == ZERO or unit[U.HEALTH, i] <= ZERO or j == NO_ONE:
            continue
        if unit[U.HEALTH, j] <= ZERO or affects[i, j] != Effect.MEND:
            continue
        if in_reach(unit, param, i, j, param[P.RANGE, i]):
            lacks = param[P.HEALTH, j] - unit[U.HEALTH, j]
            amount = min(lacks, MEND_PER_LOOP, unit[U.ENERGY, i] / ENERGY_PER_HEALTH)
            unit[U.HEALTH, j] += amount
            unit[U.ENERGY, i] = max(unit[U.ENERGY, i] - amount * ENERGY_PER_HEALTH, ZERO)


@njit()
def recover(unit, param):
    """One loop of recovery of the living: shields some time after the last hit, zerg health,
    healers' energy."""
    for i in range(unit.shape[1]):
        if unit[U.HEALTH, i] <= ZERO:
            continue
        if unit[U.SHIELD_WAIT, i] > ZERO:
            unit[U.SHIELD_WAIT, i] -= ONE
        elif unit[U.SHIELD, i] < param[P.SHIELD, i]:
            unit[U.SHIELD, i] = min(unit[U.SHIELD, i] + SHIELD_RECOVERY, param[P.SHIELD, i])
        if unit[U.HEALTH, i] < param[P.HEALTH, i]:
            healed = unit[U.HEALTH, i] + param[P.REGENERATION, i]
            unit[U.HEALTH, i] = min(healed, param[P.HEALTH, i])
        if unit[U.ENERGY, i] < param[P.ENERGY, i]:
            unit[U.ENERGY, i] = min(unit[U.ENERGY, i] + ENERGY_RECOVERY, param[P.ENERGY, i])
