"""The second half of a tick of ``rules=smaclite``: one unit after the other in random order moves,
recovers and strikes (compiled).

Actions take effect immediately: a unit that dies before its turn does nothing, and a shot at a unit
that just died is lost. Recovery is added to ``U.BEFORE``, so that rewards count all damage,
including damage healed in the same step.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from rltrain.battles.engine.fighting.combat import distance2
from rltrain.battles.engine.fighting.healing import ENERGY_RECOVERY, SHIELD_DELAY, SHIELD_RECOVERY
from rltrain.battles.engine.fighting.weapons import BLAST_RADIUS, beam_touches, direction
from rltrain.battles.engine.kernel import F, njit, shuffle
from rltrain.battles.engine.world import Effect, M, P, U, Weapon

ZERO, ONE = F(0), F(1)
TICK = F(1 / 16)  # seconds
MEND_PER_TICK = F(9 / 16)  # health
ENERGY_TO_START = F(5)  # on a patient
HEALTH_PER_ENERGY = F(3)
BEAM_REACH = F(np.hypot(1.4, 0.15))  # to the center of the unit that is hit
PAID = U.PENDING  # of a healer: health paid for with energy and not given yet
PATIENT = M.PENDING_ON  # of a healer
GONE = M.SIDE  # 1: dead since an earlier tick


@njit()
def act_in_turn(unit, mark, param, damage, affects, rng, e, queue):
    """The turns of all living units, shuffled."""
    n = 0
    for i in range(unit.shape[1]):
        if unit[U.HEALTH, i] > ZERO:
            queue[n] = i
            n += 1
    shuffle(queue, n, rng, e)
    for k in range(n):
        i = queue[k]
        if unit[U.HEALTH, i] <= ZERO:
            continue
        unit[U.VX, i], unit[U.VY, i] = unit[U.NX, i], unit[U.NY, i]
        unit[U.X, i] += unit[U.VX, i] * TICK
        unit[U.Y, i] += unit[U.VY, i] * TICK
        unit[U.COOLDOWN, i] = max(unit[U.COOLDOWN, i] - ONE, ZERO)
        recover(unit, param, i)
        if mark[M.STANDS, i] != 0 and unit[U.COOLDOWN, i] == ZERO:
            unit[U.COOLDOWN, i] = param[P.PERIOD, i]
            act(unit, mark, param, damage, affects, i)
    for i in range(unit.shape[1]):
        if unit[U.HEALTH, i] <= ZERO:
            mark[GONE, i] = 1


@njit(forceinline=True)
def recover(unit, param, i):
    """One tick of recovery of unit i: shields some time after the last hit, zerg health, energy."""
    unit[U.SHIELD_WAIT, i] = max(unit[U.SHIELD_WAIT, i] - ONE, ZERO)
    if unit[U.SHIELD_WAIT, i] == ZERO and unit[U.SHIELD, i] < param[P.SHIELD, i]:
        gain = min(SHIELD_RECOVERY, param[P.SHIELD, i] - unit[U.SHIELD, i])
        unit[U.SHIELD, i] += gain
        unit[U.BEFORE, i] += gain
    unit[U.ENERGY, i] = min(unit[U.ENERGY, i] + ENERGY_RECOVERY, param[P.ENERGY, i])
    give_health(unit, param, i, param[P.REGENERATION, i])


@njit(inline="always")
def give_health(unit, param, i, amount):
    """Restore health of unit i, up to its maximum."""
    gain = min(amount, param[P.HEALTH, i] - unit[U.HEALTH, i])
    unit[U.HEALTH, i] += gain
    unit[U.BEFORE, i] += gain


@njit()
def act(unit, mark, param, damage, affects, i):
    """The action of unit i on its target, by the kind of its weapon."""
    target, weapon = np.int64(mark[M.TARGET, i]), int(param[P.WEAPON, i])
    if param[P.ENERGY, i] > ZERO:
        mend(unit, mark, param, i, target)
    elif unit[U.HEALTH, target] <= ZERO:
        return
    elif weapon == Weapon.BEAM:
        sweep(unit, param, damage, affects, i, target)
    elif weapon == Weapon.BLAST:
        explode(unit, mark, param, damage, affects, i)
    else:
        for _ in range(2 if weapon == Weapon.TWICE else 1):
            hit(unit, param, damage[i, target], target)


@njit()
def hit(unit, param, amount, target):
    """One hit: shields take it without armor, health what armor leaves of the rest."""
    unit[U.SHIELD_WAIT, target] = SHIELD_DELAY
    absorbed = min(unit[U.SHIELD, target], amount)
    unit[U.SHIELD, target] -= absorbed
    reaching = max(amount - absorbed - param[P.ARMOR, target], ZERO)
    unit[U.HEALTH, target] = max(unit[U.HEALTH, target] - reaching, ZERO)


@njit()
def mend(unit, mark, param, i, target):
    """Restore health for energy, one unit of energy at a time; a new patient needs a minimum of
    energy. Units that died earlier in the same tick are revived, others are not."""
    if mark[GONE, target] != 0:
        return
    if mark[PATIENT, i] != target:
        if unit[U.ENERGY, i] < ENERGY_TO_START:
            return
        mark[PATIENT, i] = target
    amount = min(MEND_PER_TICK, param[P.HEALTH, target] - unit[U.HEALTH, target])
    if unit[PAID, i] < amount and unit[U.ENERGY, i] >= ONE:
        unit[U.ENERGY, i] -= ONE
        unit[PAID, i] += HEALTH_PER_ENERGY
    amount = min(amount, unit[PAID, i])
    unit[PAID, i] -= amount
    give_health(unit, param, target, amount)


@njit()
def sweep(unit, param, damage, affects, i, target):
    """Two hits at once on every foe whose disc touches a bar through the target, across the
    shot."""
    x, y = unit[U.X, target], unit[U.Y, target]
    dx, dy = direction(x - unit[U.X, i], y - unit[U.Y, i])
    for j in range(unit.shape[1]):
        px, py = unit[U.X, j] - x, unit[U.Y, j] - y
        if unit[U.HEALTH, j] <= ZERO or affects[i, j] != Effect.HIT:
            continue
        if px * px + py * py > BEAM_REACH * BEAM_REACH:
            continue
        if beam_touches(unit, param, j, x, y, dx, dy):
            for _ in range(2):
                hit(unit, param, damage[i, j], j)


@njit()
def explode(unit, mark, param, damage, affects, i):
    """Unit i dies and hits every foe around it once."""
    unit[U.HEALTH, i], mark[M.BURST, i] = ZERO, 1
    for j in range(unit.shape[1]):
        if unit[U.HEALTH, j] <= ZERO or affects[i, j] != Effect.HIT:
            continue
        near = BLAST_RADIUS + param[P.RADIUS, j]
        if distance2(unit, i, j) <= near * near:
            hit(unit, param, damage[i, j], j)
