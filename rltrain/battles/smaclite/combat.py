"""Targets, desired velocities and turns of units under ``rules=smaclite``; one call is one tick
(compiled).

Agents follow their orders. Enemies walk to a point; one without a target takes the nearest agent in
scan range or one that aims at it, healers first, and keeps it while in weapon range or aimed at.
While agents have a healer, targets are chosen again on every tick. Walls do not block sight.

In the second half of a tick one unit after the other in random order moves, recovers and strikes.
Actions take effect immediately: a unit that dies before its turn does nothing, and a shot at a unit
that just died is lost. Recovery is added to ``U.BEFORE``, so that rewards count all damage,
including damage healed in the same step.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from rltrain.battles.engine.fighting.combat import distance2, in_reach, set_move_goal
from rltrain.battles.engine.fighting.healing import ENERGY_RECOVERY, SHIELD_DELAY, SHIELD_RECOVERY
from rltrain.battles.engine.fighting.weapons import BLAST_RADIUS, beam_touches, direction
from rltrain.battles.engine.kernel import F, njit, shuffle
from rltrain.battles.engine.observe import FIRST_ATTACK, NORTH
from rltrain.battles.engine.world import NO_ONE, Effect, M, Order, P, U, Weapon

ZERO, ONE = F(0), F(1)
LOOK = P.KEEP  # row of param: center distance up to which others come into question at all
FAR = F(2e9)  # the distance of an attacker that is not in reach of LOOK
TICK = F(1 / 16)  # seconds
MEND_PER_TICK = F(9 / 16)  # health
ENERGY_TO_START = F(5)  # on a patient
HEALTH_PER_ENERGY = F(3)
BEAM_REACH = F(np.hypot(1.4, 0.15))  # to the center of the unit that is hit
PAID = U.PENDING  # of a healer: health paid for with energy and not given yet
PATIENT = M.PENDING_ON  # of a healer
GONE = M.SIDE  # 1: dead since an earlier tick


@njit()
def give_commands(view, unit, mark, param, action):
    """Actions [A] to orders. An attack that the weapon cannot make is carried out as a pursuit."""
    for i in range(view.n_agents):
        a = action[i]
        mark[M.ORDER, i], mark[M.TARGET, i] = Order.IDLE, NO_ONE
        if a >= FIRST_ATTACK:
            first = 0 if param[P.ENERGY, i] > ZERO else view.n_agents
            mark[M.ORDER, i], mark[M.TARGET, i] = Order.ATTACK, first + a - FIRST_ATTACK
        elif a >= NORTH:
            mark[M.ORDER, i] = Order.MOVE
            set_move_goal(view, unit, i, a)


@njit()
def drop_targets(unit, mark, param, n_agents):
    """Enemies drop dead targets, targets out of weapon range that do not aim at them, and, if
    healers, unhurt ones. Agents keep the target of the env step, also when it dies: their shots are
    lost.
    """
    for i in range(n_agents, unit.shape[1]):
        target = mark[M.TARGET, i]
        if target == NO_ONE or unit[U.HEALTH, i] <= ZERO:
            continue
        if unit[U.HEALTH, target] > ZERO:
            if mark[M.TARGET, target] == i:
                continue
            well = param[P.ENERGY, i] > ZERO and unit[U.HEALTH, target] >= param[P.HEALTH, target]
            if not well and in_reach(unit, param, i, target, param[P.RANGE, i]):
                continue
        mark[M.TARGET, i] = NO_ONE


@njit()
def choose_desires(unit, mark, param, affects, n_agents):
    """Targets of enemies, then the desired velocity (UX, UY) of all units, full speed or none;
    marks units that stand to attack or to heal."""
    care = any_healer(unit, param, n_agents)
    for i in range(unit.shape[1]):
        unit[U.UX, i] = unit[U.UY, i] = ZERO
        mark[M.STANDS, i] = 0
        if unit[U.HEALTH, i] <= ZERO:
            continue
        if i >= n_agents:
            mark[M.TARGET, i] = take_target(unit, mark, param, affects, n_agents, care, i)
        target, speed = mark[M.TARGET, i], param[P.SPEED, i]
        x, y = unit[U.GOAL_X, i], unit[U.GOAL_Y, i]
        if target != NO_ONE:
            can = affects[i, target] != Effect.NOTHING
            if can and in_reach(unit, param, i, target, param[P.RANGE, i]):
                mark[M.STANDS, i] = 1
                continue
            x, y = unit[U.X, target], unit[U.Y, target]
        elif i < n_agents and mark[M.ORDER, i] != Order.MOVE:
            continue
        elif i >= n_agents and param[P.ENERGY, i] > ZERO:
            speed = escort_speed(unit, param, n_agents, i)
        dx, dy = x - unit[U.X, i], y - unit[U.Y, i]
        d = np.sqrt(dx * dx + dy * dy)
        if d > ZERO:
            unit[U.UX, i], unit[U.UY, i] = dx * speed / d, dy * speed / d


@njit()
def any_healer(unit, param, n_agents):
    """Whether an agent that heals lives."""
    count = 0
    for i in range(n_agents):
        count += param[P.ENERGY, i] > ZERO and unit[U.HEALTH, i] > ZERO
    return count > 0


@njit()
def take_target(unit, mark, param, affects, n_agents, care, i):
    """The target of enemy i from now on: the present one or a better one."""
    target = mark[M.TARGET, i]
    if param[P.ENERGY, i] > ZERO:
        return neediest(unit, mark, param, affects, n_agents, i) if target == NO_ONE else target
    if target == NO_ONE:
        return preferred(unit, mark, param, affects, n_agents, i, False)
    if care and param[P.ENERGY, target] == ZERO:
        other = preferred(unit, mark, param, affects, n_agents, i, True)
        return target if other == NO_ONE else other
    return target


@njit()
def preferred(unit, mark, param, affects, n_agents, i, near_only):
    """The agent that enemy i attacks: healers first, then the nearest, ties by index. In scan range
    or aiming at i, with ``near_only`` not from beyond LOOK."""
    found, best, best_heals = NO_ONE, F(np.inf), False
    for j in range(n_agents):
        if unit[U.HEALTH, j] <= ZERO or affects[i, j] != Effect.HIT:
            continue
        d = np.sqrt(distance2(unit, i, j))
        aims = mark[M.TARGET, j] == i
        if d > param[LOOK, i]:
            if near_only or not aims:
                continue
            d = FAR
        if not aims and d >= param[P.SCAN, i] + param[P.RADIUS, j]:
            continue
        heals = param[P.ENERGY, j] > ZERO
        if (heals and not best_heals) or (heals == best_heals and d < best):
            found, best, best_heals = j, d, heals
    return found


@njit()
def neediest(unit, mark, param, affects, n_agents, i):
    """The friend that enemy healer i cares for: hurt or fighting, in scan range, least health."""
    found, best = NO_ONE, F(np.inf)
    for j in range(n_agents, unit.shape[1]):
        if unit[U.HEALTH, j] <= ZERO or unit[U.HEALTH, j] >= best or affects[i, j] != Effect.MEND:
            continue
        if unit[U.HEALTH, j] >= param[P.HEALTH, j] and mark[M.TARGET, j] == NO_ONE:
            continue
        reach = param[P.SCAN, i] + param[P.RADIUS, j]
        if distance2(unit, i, j) < reach * reach:
            found, best = j, unit[U.HEALTH, j]
    return found


@njit()
def escort_speed(unit, param, n_agents, i):
    """An enemy healer without a patient is no faster than the slowest friend around it."""
    speed = param[P.SPEED, i]
    for j in range(n_agents, unit.shape[1]):
        near = distance2(unit, i, j) <= param[LOOK, i] * param[LOOK, i]
        if j != i and near and unit[U.HEALTH, j] > ZERO:
            speed = min(speed, param[P.SPEED, j])
    return speed


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
