"""Whom units attack, where they want to go, and what their weapons do; one call is one simulation
loop (compiled).

Agents do what they are told and nothing else. Enemies carry out one attack-move: walk to a point,
attack what comes into scan range, go after whoever shoots them from outside it, join friends who
call for help.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numpy as np

from rltrain.env.smac.compiled import F, draw, njit
from rltrain.env.smac.world import (
    ARRIVED,
    ATTACK,
    ATTACK_MOVE,
    ATTACKER,
    COOLDOWN,
    GOAL_X,
    GOAL_Y,
    HEALTH,
    HELP_AT,
    IDLE,
    LEASH_X,
    LEASH_Y,
    MOVE,
    NO_ONE,
    ORDER,
    P_ARMOUR,
    P_DAMAGE_POINT,
    P_DISC,
    P_PERIOD,
    P_RADIUS,
    P_RANGE,
    P_SCAN,
    P_SLOP,
    P_SPEED,
    PHASE,
    PURSUES,
    SHIELD,
    STANDS,
    TARGET,
    UX,
    UY,
    WINDUP,
    X,
    Y,
)

ZERO, ONE = F(0), F(1)
LOOPS = F(16)  # per second
SCAN_EVERY = 4  # loops between two scans of a unit without a target
KEEP_SLOP = F(1)  # a target is kept this far beyond scan range
LEASH = F(21)  # longest pursuit of an attacker, from where it began
HELP_RADIUS = F(4)
HELP_EVERY = 32  # loops between two calls for help of one unit
TOUCH = F(1 / 16)  # a gap that counts as contact
MIN_DAMAGE = F(0.5)  # of a hit that reaches health
JITTER_LOW, JITTER_WIDTH = F(-1), F(3)  # loops added to every period, uniform


@njit(inline="always")
def distance2(unit, i, j):
    """Squared centre distance."""
    dx, dy = unit[X, j] - unit[X, i], unit[Y, j] - unit[Y, i]
    return dx * dx + dy * dy


@njit(inline="always")
def in_reach(unit, param, i, j, edge_range):
    """Whether the edges of units i and j are at most ``edge_range`` apart."""
    reach = edge_range + param[P_RADIUS, i] + param[P_RADIUS, j]
    return distance2(unit, i, j) <= reach * reach


@njit()
def choose_targets(unit, mark, param, n_agents, loop):
    """Drops targets that died or escaped; units on an attack-move scan for new ones on their own
    loops."""
    for i in range(unit.shape[1]):
        if unit[HEALTH, i] <= ZERO:
            continue
        target = mark[TARGET, i]
        if mark[ORDER, i] == ATTACK and unit[HEALTH, target] <= ZERO:
            mark[ORDER, i], target = IDLE, NO_ONE
        elif mark[ORDER, i] == ATTACK_MOVE:
            if target != NO_ONE and not keeps(unit, mark, param, i, target):
                mark[PURSUES, i], target = 0, NO_ONE
            free = target == NO_ONE or mark[PURSUES, i] != 0
            if free and (loop + mark[PHASE, i]) % SCAN_EVERY == 0:
                target = scan(unit, mark, param, n_agents, i, target)
        if target != mark[TARGET, i]:
            unit[WINDUP, i] = ZERO  # a shot belongs to its target: changing it costs no cooldown
            mark[TARGET, i] = target


@njit(forceinline=True)
def keeps(unit, mark, param, i, target):
    """Whether unit i stays with its target: alive, and near or attacking i or on a leash not yet at
    its end."""
    if unit[HEALTH, target] <= ZERO:
        return False
    if mark[PURSUES, i] != 0:
        dx, dy = unit[X, i] - unit[LEASH_X, i], unit[Y, i] - unit[LEASH_Y, i]
        if dx * dx + dy * dy <= LEASH * LEASH:
            return True
        mark[ATTACKER, i] = NO_ONE
        return False
    return mark[TARGET, target] == i or in_reach(
        unit, param, i, target, param[P_SCAN, i] + KEEP_SLOP
    )


@njit()
def scan(unit, mark, param, n_agents, i, target):
    """The nearest foe in scan range (ties by index), else the last attacker, else the target as it
    was."""
    found, best = NO_ONE, F(np.inf)
    first, end = (n_agents, unit.shape[1]) if i < n_agents else (0, n_agents)
    for j in range(first, end):
        d2 = distance2(unit, i, j)
        if d2 < best and unit[HEALTH, j] > ZERO and in_reach(unit, param, i, j, param[P_SCAN, i]):
            found, best = j, d2
    if found != NO_ONE:
        mark[PURSUES, i] = 0
        return found
    attacker = mark[ATTACKER, i]
    if attacker != NO_ONE and unit[HEALTH, attacker] <= ZERO:
        attacker = mark[ATTACKER, i] = NO_ONE
    if attacker in (NO_ONE, target):
        return target
    mark[PURSUES, i] = 1
    unit[LEASH_X, i], unit[LEASH_Y, i] = unit[X, i], unit[Y, i]
    return attacker


@njit()
def choose_desires(unit, mark, param, n_agents):
    """Order and target to the wanted velocity (UX, UY); marks who stands to fight."""
    for i in range(unit.shape[1]):
        unit[UX, i] = unit[UY, i] = ZERO
        mark[STANDS, i] = 0
        if unit[HEALTH, i] <= ZERO:
            continue
        target = mark[TARGET, i]
        if target != NO_ONE:
            if unit[WINDUP, i] > ZERO or in_reach(unit, param, i, target, param[P_RANGE, i]):
                mark[STANDS, i] = 1
            else:
                head_for(unit, param, i, unit[X, target], unit[Y, target])
        elif mark[ORDER, i] == MOVE:
            head_for(unit, param, i, unit[GOAL_X, i], unit[GOAL_Y, i])
        elif mark[ORDER, i] == ATTACK_MOVE and mark[ARRIVED, i] == 0:
            if has_arrived(unit, mark, param, n_agents, i):
                mark[ARRIVED, i] = 1
            else:
                head_for(unit, param, i, unit[GOAL_X, i], unit[GOAL_Y, i])


@njit(inline="always")
def head_for(unit, param, i, x, y):
    """Wanted velocity: straight to (x, y) at full speed, slower only to stop exactly there."""
    dx, dy = x - unit[X, i], y - unit[Y, i]
    d = np.sqrt(dx * dx + dy * dy)
    if d > ZERO:
        speed = min(param[P_SPEED, i], d * LOOPS)
        unit[UX, i], unit[UY, i] = dx / d * speed, dy / d * speed


@njit(forceinline=True)
def has_arrived(unit, mark, param, n_agents, i):
    """At the end of its attack-move, or in contact with a friend who has arrived and stands
    there."""
    if unit[X, i] == unit[GOAL_X, i] and unit[Y, i] == unit[GOAL_Y, i]:
        return True
    first, end = (0, n_agents) if i < n_agents else (n_agents, unit.shape[1])
    for j in range(first, end):
        if mark[ARRIVED, j] != 0 and mark[TARGET, j] == NO_ONE and unit[HEALTH, j] > ZERO:
            touch = param[P_DISC, i] + param[P_DISC, j] + TOUCH
            if distance2(unit, i, j) <= touch * touch:
                return True
    return False


@njit()
def use_weapons(unit, mark, param, damage, n_agents, loop, rng, e, queue):
    """Everyone who can act does, in random order and with immediate effect; then cooldowns run down
    one loop."""
    n = 0
    for i in range(unit.shape[1]):
        target = mark[TARGET, i]
        if unit[HEALTH, i] <= ZERO or target == NO_ONE:
            continue
        ready = unit[COOLDOWN, i] <= ZERO and in_reach(unit, param, i, target, param[P_RANGE, i])
        if unit[WINDUP, i] > ZERO or ready:
            queue[n] = i
            n += 1
    for k in range(n - 1, 0, -1):
        m = int(draw(rng, e) * F(k + 1))
        queue[k], queue[m] = queue[m], queue[k]
    for k in range(n):
        if unit[HEALTH, queue[k]] > ZERO:
            attack(unit, mark, param, damage, n_agents, loop, rng, e, queue[k])
    for i in range(unit.shape[1]):
        if (
            unit[WINDUP, i] <= ZERO
        ):  # during a windup it keeps what was left over when the cooldown ended
            unit[COOLDOWN, i] = max(unit[COOLDOWN, i] - ONE, -ONE)


@njit(forceinline=True)
def attack(unit, mark, param, damage, n_agents, loop, rng, e, i):
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
    hit(unit, mark, param, damage, n_agents, loop, i, target)
    # A cooldown that ended between two loops gives its remainder back; one that waited longer (-1)
    # gives nothing.
    left_over = unit[COOLDOWN, i] if unit[COOLDOWN, i] > -ONE else ZERO
    jitter = JITTER_LOW + JITTER_WIDTH * draw(rng, e)
    unit[COOLDOWN, i] = param[P_PERIOD, i] - F(math.ceil(damage_point)) + left_over + jitter


@njit(forceinline=True)
def hit(unit, mark, param, damage, n_agents, loop, i, target):
    """One hit of unit i: shields take it without armour, health the rest; the victim remembers and
    calls for help."""
    amount = damage[i, target]
    absorbed = min(unit[SHIELD, target], amount)
    unit[SHIELD, target] -= absorbed
    if amount > absorbed:
        reaching = max(amount - absorbed - param[P_ARMOUR, target], MIN_DAMAGE)
        unit[HEALTH, target] = max(unit[HEALTH, target] - reaching, ZERO)
    if mark[ORDER, target] != ATTACK_MOVE:
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
