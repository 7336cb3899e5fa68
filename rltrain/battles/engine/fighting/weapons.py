"""Weapons: windup, shots, hits, missiles, second hits, beams and blasts; turrets, which must
point at a target before the windup (compiled). The spine crawler has the only one.

A plain weapon hits once and immediately. On maps with other weapons (``Scene.special``), ``fire``
distinguishes them, and missiles and second hits land in ``land_hits`` at the start of a later loop.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numpy as np

from rltrain.battles.engine.fighting.combat import distance2, in_reach
from rltrain.battles.engine.fighting.healing import SHIELD_DELAY
from rltrain.battles.engine.kernel import F, draw, njit, shuffle
from rltrain.battles.engine.world import NO_ONE, Effect, M, Order, P, U, Weapon

ZERO, ONE, INSTANTLY = F(0), F(1), F(math.inf)
TURN, HALF_TURN = F(2 * math.pi), F(math.pi)
EXACTLY = F(1e-3)  # radians: rounding
HELP_RADIUS = F(4)
HELP_EVERY = 32  # loops between two calls for help of one unit
MIN_DAMAGE = F(0.5)  # of a hit that reaches health
JITTER_LOW, JITTER_WIDTH = F(-1), F(3)  # loops added to every period, uniform
BEAM_LENGTH, BEAM_WIDTH = F(1.4), F(0.15)  # half of each
BLAST_RADIUS = F(2.2)  # to the edge of the victim


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


@njit(forceinline=True)
def use_weapons(unit, mark, param, damage, affects, n_agents, special, loop, rng, e, queue):
    """All units that can attack do so in random order and with immediate effect; then cooldowns
    decrease by one loop."""
    n = 0
    for i in range(unit.shape[1]):
        target = mark[M.TARGET, i]
        if unit[U.HEALTH, i] <= ZERO or target == NO_ONE:
            continue
        ready = unit[U.COOLDOWN, i] <= ZERO and in_reach(unit, param, i, target, param[P.RANGE, i])
        ready = ready and (not special or points_at(unit, param, i, target))
        if unit[U.WINDUP, i] > ZERO or (ready and affects[i, target] == Effect.HIT):
            queue[n] = i
            n += 1
    shuffle(queue, n, rng, e)
    for k in range(n):
        shooter = np.int64(queue[k])
        if unit[U.HEALTH, shooter] > ZERO:
            attack(unit, mark, param, damage, affects, n_agents, special, loop, rng, e, shooter)
    for i in range(unit.shape[1]):
        if unit[U.WINDUP, i] <= ZERO:  # during a windup the rest of the last cooldown is kept
            unit[U.COOLDOWN, i] = max(unit[U.COOLDOWN, i] - ONE, -ONE)


@njit(forceinline=True)
def attack(unit, mark, param, damage, affects, n_agents, special, loop, rng, e, i):
    """Begins or continues the windup of unit i, or fires. Periods count from the beginning of the
    attack."""
    target = np.int64(mark[M.TARGET, i])
    damage_point = param[P.DAMAGE_POINT, i]
    if unit[U.HEALTH, target] <= ZERO:
        unit[U.WINDUP, i] = ZERO
        return
    if unit[U.WINDUP, i] > ZERO:
        unit[U.WINDUP, i] -= ONE
        if unit[U.WINDUP, i] > ZERO:
            return
        unit[U.WINDUP, i] = ZERO
        if not in_reach(unit, param, i, target, param[P.RANGE, i] + param[P.SLOP, i]):
            return
    elif damage_point > ZERO:
        unit[U.WINDUP, i] = damage_point
        return
    if special:
        fire(unit, mark, param, damage, affects, n_agents, loop, i, target)
    else:
        hit(unit, mark, param, damage, n_agents, loop, i, target)
    # The fraction of a loop by which the cooldown was over is carried to the next one; -1 means
    # that the unit waited longer, and nothing is carried over.
    left_over = unit[U.COOLDOWN, i] if unit[U.COOLDOWN, i] > -ONE else ZERO
    jitter = JITTER_LOW + JITTER_WIDTH * draw(rng, e)
    unit[U.COOLDOWN, i] = param[P.PERIOD, i] - F(math.ceil(damage_point)) + left_over + jitter


@njit(forceinline=True)
def hit(unit, mark, param, damage, n_agents, loop, i, target):
    """One hit of unit i: shields absorb damage without armor, health takes the rest. A target on an
    attack-move notes its attacker and calls its allies for help."""
    amount = damage[i, target]
    unit[U.SHIELD_WAIT, target] = SHIELD_DELAY
    absorbed = min(unit[U.SHIELD, target], amount)
    unit[U.SHIELD, target] -= absorbed
    if amount > absorbed:
        reaching = max(amount - absorbed - param[P.ARMOR, target], MIN_DAMAGE)
        unit[U.HEALTH, target] = max(unit[U.HEALTH, target] - reaching, ZERO)
    if mark[M.ORDER, target] < Order.ATTACK_MOVE:
        return
    mark[M.ATTACKER, target] = i
    if loop < mark[M.HELP_AT, target]:
        return
    mark[M.HELP_AT, target] = loop + HELP_EVERY
    first, end = (0, n_agents) if target < n_agents else (n_agents, unit.shape[1])
    for j in range(first, end):
        if (
            j != target
            and unit[U.HEALTH, j] > ZERO
            and mark[M.TARGET, j] == NO_ONE
            and mark[M.ATTACKER, j] == NO_ONE
            and distance2(unit, target, j) <= HELP_RADIUS * HELP_RADIUS
        ):
            mark[M.ATTACKER, j] = i


@njit()
def strike(unit, mark, param, damage, n_agents, loop, i, target):
    """``hit`` for the weapons below, compiled once."""
    hit(unit, mark, param, damage, n_agents, loop, i, target)


@njit()
def fire(unit, mark, param, damage, affects, n_agents, loop, i, target):
    """The shot of unit i by the kind of its weapon."""
    weapon = int(param[P.WEAPON, i])
    if weapon == Weapon.BLAST:
        explode(unit, mark, param, damage, affects, n_agents, loop, i)
    elif weapon == Weapon.BEAM:
        sweep(unit, mark, param, damage, affects, n_agents, loop, i, target)
    elif weapon == Weapon.MISSILE:
        distance = np.sqrt(distance2(unit, i, target))
        unit[U.PENDING, i], mark[M.PENDING_ON, i] = distance * param[P.DELAY, i], target
    else:
        strike(unit, mark, param, damage, n_agents, loop, i, target)
        if weapon == Weapon.TWICE:
            unit[U.PENDING, i], mark[M.PENDING_ON, i] = param[P.DELAY, i], target


@njit()
def land_hits(unit, mark, param, damage, n_agents, loop):
    """Missiles arrive and second hits follow; both miss the dead. A missile outlives its shooter, a
    second hit does not.

    Each unit has one on its way at most: all periods are longer than all flights.
    """
    for i in range(unit.shape[1]):
        if unit[U.HEALTH, i] <= ZERO and int(param[P.WEAPON, i]) == Weapon.TWICE:
            mark[M.PENDING_ON, i] = NO_ONE
    for i in range(unit.shape[1]):
        target = np.int64(mark[M.PENDING_ON, i])
        if target == NO_ONE:
            continue
        unit[U.PENDING, i] -= ONE
        if unit[U.PENDING, i] <= ZERO:
            mark[M.PENDING_ON, i] = NO_ONE
            if unit[U.HEALTH, target] > ZERO:
                strike(unit, mark, param, damage, n_agents, loop, i, target)


@njit()
def sweep(unit, mark, param, damage, affects, n_agents, loop, i, target):
    """The colossus's two beams at once: two hits on every foe whose disc touches a bar through the
    target, across the line of fire."""
    x, y = unit[U.X, target], unit[U.Y, target]
    dx, dy = direction(x - unit[U.X, i], y - unit[U.Y, i])
    for j in range(unit.shape[1]):
        if affects[i, j] == Effect.HIT and beam_touches(unit, param, j, x, y, dx, dy):
            for _ in range(2):
                if unit[U.HEALTH, j] > ZERO:
                    strike(unit, mark, param, damage, n_agents, loop, i, j)


@njit(forceinline=True)
def direction(dx, dy):
    """The vector (dx, dy) at length 1; (1, 0) if it has none."""
    d = np.sqrt(dx * dx + dy * dy)
    return (dx / d, dy / d) if d > ZERO else (ONE, ZERO)


@njit(forceinline=True)
def beam_touches(unit, param, j, x, y, dx, dy):
    """Whether the disc of unit j touches the bar across the direction (dx, dy) at (x, y)."""
    px, py = unit[U.X, j] - x, unit[U.Y, j] - y
    deep = max(abs(px * dx + py * dy) - BEAM_WIDTH, ZERO)
    wide = max(abs(px * dy - py * dx) - BEAM_LENGTH, ZERO)
    return deep * deep + wide * wide <= param[P.RADIUS, j] * param[P.RADIUS, j]


@njit()
def explode(unit, mark, param, damage, affects, n_agents, loop, i):
    """Unit i dies and hits every foe on the ground around it, once."""
    unit[U.HEALTH, i], mark[M.BURST, i] = ZERO, 1
    for j in range(unit.shape[1]):
        if unit[U.HEALTH, j] <= ZERO or affects[i, j] != Effect.HIT:
            continue
        near = BLAST_RADIUS + param[P.RADIUS, j]
        if distance2(unit, i, j) <= near * near:
            strike(unit, mark, param, damage, n_agents, loop, i, j)


@njit()
def explode_killed(unit, mark, param, damage, affects, n_agents, loop):
    """Units that carry a blast explode when killed, too, until no other unit dies of it."""
    again = True
    while again:
        again = False
        for i in range(unit.shape[1]):
            killed = unit[U.HEALTH, i] <= ZERO and mark[M.BURST, i] == 0
            if killed and int(param[P.WEAPON, i]) == Weapon.BLAST:
                explode(unit, mark, param, damage, affects, n_agents, loop, i)
                again = True
