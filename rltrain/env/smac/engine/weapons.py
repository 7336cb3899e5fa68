"""What weapons do: wind up, fire, hit; missiles, second hits, beams, blasts; and how units recover
(compiled).

A plain weapon hits once, at once. Where a map has others (``Scene.special``), ``fire``
distinguishes them, and what is still on its way lands with ``land_hits`` at the beginning of a
later loop.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numpy as np

from rltrain.env.smac.engine.combat import distance2, in_reach
from rltrain.env.smac.engine.kernel import F, draw, njit
from rltrain.env.smac.engine.turret import points_at
from rltrain.env.smac.engine.world import (
    ATTACK_MOVE,
    ATTACKER,
    BEAM,
    BLAST,
    BURST,
    COOLDOWN,
    ENERGY,
    HEALTH,
    HELP_AT,
    HIT,
    MISSILE,
    NO_ONE,
    ORDER,
    P_ARMOR,
    P_DAMAGE_POINT,
    P_DELAY,
    P_ENERGY,
    P_HEALTH,
    P_PERIOD,
    P_RADIUS,
    P_RANGE,
    P_REGENERATION,
    P_SHIELD,
    P_SLOP,
    P_WEAPON,
    PENDING,
    PENDING_ON,
    SHIELD,
    SHIELD_WAIT,
    TARGET,
    TWICE,
    WINDUP,
    X,
    Y,
)

ZERO, ONE = F(0), F(1)
HELP_RADIUS = F(4)
HELP_EVERY = 32  # loops between two calls for help of one unit
MIN_DAMAGE = F(0.5)  # of a hit that reaches health
JITTER_LOW, JITTER_WIDTH = F(-1), F(3)  # loops added to every period, uniform
SHIELD_DELAY = F(160)  # loops without damage until shields recover
SHIELD_RECOVERY = F(2 / 16)  # per loop
ENERGY_RECOVERY = F(0.5625 / 16)  # per loop
BEAM_LENGTH, BEAM_WIDTH = F(1.4), F(0.15)  # half of each
BLAST_RADIUS = F(2.2)  # to the edge of the victim


@njit()
def use_weapons(unit, mark, param, damage, affects, n_agents, special, loop, rng, e, queue):
    """All units that can act do, in random order and with immediate effect; then cooldowns run down
    one loop."""
    n = 0
    for i in range(unit.shape[1]):
        target = mark[TARGET, i]
        if unit[HEALTH, i] <= ZERO or target == NO_ONE:
            continue
        ready = unit[COOLDOWN, i] <= ZERO and in_reach(unit, param, i, target, param[P_RANGE, i])
        ready = ready and (not special or points_at(unit, param, i, target))
        if unit[WINDUP, i] > ZERO or (ready and affects[i, target] == HIT):
            queue[n] = i
            n += 1
    for k in range(n - 1, 0, -1):
        m = int(draw(rng, e) * F(k + 1))
        queue[k], queue[m] = queue[m], queue[k]
    for k in range(n):
        if unit[HEALTH, queue[k]] > ZERO:
            attack(unit, mark, param, damage, affects, n_agents, special, loop, rng, e, queue[k])
    for i in range(unit.shape[1]):
        if (
            unit[WINDUP, i] <= ZERO
        ):  # during a windup it keeps what was left over when the cooldown ended
            unit[COOLDOWN, i] = max(unit[COOLDOWN, i] - ONE, -ONE)


@njit(forceinline=True)
def attack(unit, mark, param, damage, affects, n_agents, special, loop, rng, e, i):
    """Begins or continues the windup of unit i, or fires. Periods count from the beginning of the
    attack."""
    target = mark[TARGET, i]
    damage_point = param[P_DAMAGE_POINT, i]
    if unit[HEALTH, target] <= ZERO:
        unit[WINDUP, i] = ZERO
        return
    if unit[WINDUP, i] > ZERO:
        unit[WINDUP, i] -= ONE
        if unit[WINDUP, i] > ZERO:
            return
        unit[WINDUP, i] = ZERO
        if not in_reach(unit, param, i, target, param[P_RANGE, i] + param[P_SLOP, i]):
            return
    elif damage_point > ZERO:
        unit[WINDUP, i] = damage_point
        return
    if special:
        fire(unit, mark, param, damage, affects, n_agents, loop, i, target)
    else:
        hit(unit, mark, param, damage, n_agents, loop, i, target)
    # A cooldown that ended between two loops gives its remainder back; one that waited longer (-1)
    # gives nothing.
    left_over = unit[COOLDOWN, i] if unit[COOLDOWN, i] > -ONE else ZERO
    jitter = JITTER_LOW + JITTER_WIDTH * draw(rng, e)
    unit[COOLDOWN, i] = param[P_PERIOD, i] - F(math.ceil(damage_point)) + left_over + jitter


@njit(forceinline=True)
def hit(unit, mark, param, damage, n_agents, loop, i, target):
    """One hit of unit i: shields take it without armor, health the rest; the victim remembers and
    calls for help."""
    amount = damage[i, target]
    unit[SHIELD_WAIT, target] = SHIELD_DELAY
    absorbed = min(unit[SHIELD, target], amount)
    unit[SHIELD, target] -= absorbed
    if amount > absorbed:
        reaching = max(amount - absorbed - param[P_ARMOR, target], MIN_DAMAGE)
        unit[HEALTH, target] = max(unit[HEALTH, target] - reaching, ZERO)
    if mark[ORDER, target] < ATTACK_MOVE:
        return
    mark[ATTACKER, target] = i
    if loop < mark[HELP_AT, target]:
        return
    mark[HELP_AT, target] = loop + HELP_EVERY
    first, end = (0, n_agents) if target < n_agents else (n_agents, unit.shape[1])
    for j in range(first, end):
        if (
            j != target
            and unit[HEALTH, j] > ZERO
            and mark[TARGET, j] == NO_ONE
            and mark[ATTACKER, j] == NO_ONE
            and distance2(unit, target, j) <= HELP_RADIUS * HELP_RADIUS
        ):
            mark[ATTACKER, j] = i


@njit()
def strike(unit, mark, param, damage, n_agents, loop, i, target):
    """``hit`` for the weapons below, compiled once."""
    hit(unit, mark, param, damage, n_agents, loop, i, target)


@njit()
def fire(unit, mark, param, damage, affects, n_agents, loop, i, target):
    """The shot of unit i by the kind of its weapon."""
    weapon = int(param[P_WEAPON, i])
    if weapon == BLAST:
        explode(unit, mark, param, damage, affects, n_agents, loop, i)
    elif weapon == BEAM:
        sweep(unit, mark, param, damage, affects, n_agents, loop, i, target)
    elif weapon == MISSILE:
        distance = np.sqrt(distance2(unit, i, target))
        unit[PENDING, i], mark[PENDING_ON, i] = distance * param[P_DELAY, i], target
    else:
        strike(unit, mark, param, damage, n_agents, loop, i, target)
        if weapon == TWICE:
            unit[PENDING, i], mark[PENDING_ON, i] = param[P_DELAY, i], target


@njit()
def land_hits(unit, mark, param, damage, n_agents, loop):
    """Missiles arrive and second hits follow; both miss the dead. A missile outlives its shooter, a
    second hit does not.

    Each unit has one on its way at most: all periods are longer than all flights.
    """
    for i in range(unit.shape[1]):
        if unit[HEALTH, i] <= ZERO and int(param[P_WEAPON, i]) == TWICE:
            mark[PENDING_ON, i] = NO_ONE
    for i in range(unit.shape[1]):
        target = mark[PENDING_ON, i]
        if target == NO_ONE:
            continue
        unit[PENDING, i] -= ONE
        if unit[PENDING, i] <= ZERO:
            mark[PENDING_ON, i] = NO_ONE
            if unit[HEALTH, target] > ZERO:
                strike(unit, mark, param, damage, n_agents, loop, i, target)


@njit()
def sweep(unit, mark, param, damage, affects, n_agents, loop, i, target):
    """The colossus's two beams at once: two hits on every foe whose disc touches a bar through the
    target, across the line of fire."""
    dx, dy = unit[X, target] - unit[X, i], unit[Y, target] - unit[Y, i]
    d = np.sqrt(dx * dx + dy * dy)
    dx, dy = (dx / d, dy / d) if d > ZERO else (ONE, ZERO)
    x, y = unit[X, target], unit[Y, target]
    for j in range(unit.shape[1]):
        px, py = unit[X, j] - x, unit[Y, j] - y
        deep = max(abs(px * dx + py * dy) - BEAM_WIDTH, ZERO)
        wide = max(abs(px * dy - py * dx) - BEAM_LENGTH, ZERO)
        radius = param[P_RADIUS, j]
        if deep * deep + wide * wide <= radius * radius and affects[i, j] == HIT:
            for _ in range(2):
                if unit[HEALTH, j] > ZERO:
                    strike(unit, mark, param, damage, n_agents, loop, i, j)


@njit()
def explode(unit, mark, param, damage, affects, n_agents, loop, i):
    """Unit i dies and hits every foe on the ground around it, once."""
    unit[HEALTH, i], mark[BURST, i] = ZERO, 1
    for j in range(unit.shape[1]):
        near = BLAST_RADIUS + param[P_RADIUS, j]
        if unit[HEALTH, j] > ZERO and affects[i, j] == HIT and distance2(unit, i, j) <= near * near:
            strike(unit, mark, param, damage, n_agents, loop, i, j)


@njit()
def explode_killed(unit, mark, param, damage, affects, n_agents, loop):
    """Units that carry a blast explode when killed, too, until no other unit dies of it."""
    again = True
    while again:
        again = False
        for i in range(unit.shape[1]):
            killed = unit[HEALTH, i] <= ZERO and mark[BURST, i] == 0
            if killed and int(param[P_WEAPON, i]) == BLAST:
                explode(unit, mark, param, damage, affects, n_agents, loop, i)
                again = True


@njit()
def recover(unit, param):
    """One loop of recovery of the living: shields some time after the last hit, zerg health,
    healers' energy."""
    for i in range(unit.shape[1]):
        if unit[HEALTH, i] <= ZERO:
            continue
        if unit[SHIELD_WAIT, i] > ZERO:
            unit[SHIELD_WAIT, i] -= ONE
        elif unit[SHIELD, i] < param[P_SHIELD, i]:
            unit[SHIELD, i] = min(unit[SHIELD, i] + SHIELD_RECOVERY, param[P_SHIELD, i])
        if unit[HEALTH, i] < param[P_HEALTH, i]:
            unit[HEALTH, i] = min(unit[HEALTH, i] + param[P_REGENERATION, i], param[P_HEALTH, i])
        if unit[ENERGY, i] < param[P_ENERGY, i]:
            unit[ENERGY, i] = min(unit[ENERGY, i] + ENERGY_RECOVERY, param[P_ENERGY, i])
