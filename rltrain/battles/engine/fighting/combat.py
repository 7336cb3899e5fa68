"""Targets and desired velocities of units; one call is one simulation loop (compiled).

Agents only follow their orders. Enemies carry out one attack-move: walk to a point, attack units in
scan range, pursue units that shoot them from outside it, and join allies that call for help. A
target is kept while it is in weapon range and a threat; otherwise the next scan takes the first
by ``rank``. On some maps they hunt the nearest agent instead, or chase one until it is dead.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from rltrain.battles.data.map_data import SIZE
from rltrain.battles.engine.kernel import F, njit
from rltrain.battles.engine.observe import EAST, NORTH, SOUTH, WEST
from rltrain.battles.engine.simd import WIDTH, lowest, units_near
from rltrain.battles.engine.world import GROUND, NO_ONE, Effect, M, Order, P, U

ZERO, HALF, INSTANTLY = F(0), F(0.5), F(np.inf)
LOOPS = F(16)  # per second
SCAN_EVERY = 4  # loops between two scans of a unit without a target in weapon range
IMMOBILE_SCAN_EVERY = 8  # of one that cannot move
LEASH = F(21)  # longest pursuit of an attacker, from where it began
TOUCH = F(1 / 16)  # a gap that counts as contact
FAR = F(256)  # more than the squared distance of any unit in scan range


@njit(inline="always")
def distance2(unit, i, j):
    """Squared center distance."""
    dx, dy = unit[U.X, j] - unit[U.X, i], unit[U.Y, j] - unit[U.Y, i]
    return dx * dx + dy * dy


@njit(inline="always")
def in_reach(unit, param, i, j, edge_range):
    """Whether the edges of units i and j are at most ``edge_range`` apart."""
    reach = edge_range + param[P.RADIUS, i] + param[P.RADIUS, j]
    return distance2(unit, i, j) <= reach * reach


@njit(forceinline=True)
def choose_targets(unit, mark, param, affects, n_agents, loop):
    """Drops targets that died or escaped; units on an attack-move without a target in weapon range
    scan for the nearest one on their own loops. The order changes from loop to loop: later units
    already know whom earlier ones attack."""
    for k in range(unit.shape[1]):
        i = unit.shape[1] - 1 - k if loop % 2 == 1 else k
        if unit[U.HEALTH, i] <= ZERO:
            continue
        target = mark[M.TARGET, i]
        order = mark[M.ORDER, i]
        if order in (Order.ATTACK, Order.HEAL) and unit[U.HEALTH, target] <= ZERO:
            mark[M.ORDER, i], target = Order.IDLE, NO_ONE
        elif order == Order.ATTACK_MOVE:
            if target != NO_ONE and not keeps(unit, mark, param, i, target):
                mark[M.PURSUES, i], target = 0, NO_ONE
            scans = (loop + mark[M.PHASE, i]) % int(param[P.SCAN_EVERY, i]) == 0
            if scans and may_change(unit, mark, param, i, target):
                target = scan(unit, mark, param, affects, n_agents, i, target)
        elif order == Order.HUNT:
            target = nearest(unit, affects, n_agents, i, False)
        elif order == Order.CHASE and target != NO_ONE and unit[U.HEALTH, target] <= ZERO:
            target = NO_ONE
        if target != mark[M.TARGET, i]:
            unit[U.WINDUP, i] = ZERO  # a shot belongs to its target: changing it costs no cooldown
            mark[M.TARGET, i] = target


@njit()
def renew_orders(unit, mark, affects, n_agents):
    """An env step begins: chasing enemies without a target are sent to attack the nearest agent,
    their healers set out for it. One that cannot hit it stays where it is, and chooses targets as
    at the end of an attack-move."""
    for i in range(n_agents, unit.shape[1]):
        if unit[U.HEALTH, i] <= ZERO:
            continue
        target = mark[M.TARGET, i]
        if mark[M.ORDER, i] == Order.HEAL_MOVE:
            goal = nearest(unit, affects, n_agents, i, True)
            if goal != NO_ONE:
                unit[U.GOAL_X, i], unit[U.GOAL_Y, i] = unit[U.X, goal], unit[U.Y, goal]
                mark[M.ARRIVED, i] = 0
        elif target == NO_ONE or unit[U.HEALTH, target] <= ZERO:
            unit[U.WINDUP, i] = ZERO
            target = nearest(unit, affects, n_agents, i, True)
            obeys = target == NO_ONE or affects[i, target] == Effect.HIT
            mark[M.ORDER, i] = Order.CHASE if obeys else Order.ATTACK_MOVE
            mark[M.TARGET, i] = target if obeys else NO_ONE


@njit(forceinline=True)
def keeps(unit, mark, param, i, target):
    """Whether the target of unit i is valid until the next scan: alive, and pursued on a leash not
    yet at its end; for a unit that cannot move also in reach or attacking it."""
    if unit[U.HEALTH, target] <= ZERO:
        return False
    if mark[M.PURSUES, i] != 0:
        dx, dy = unit[U.X, i] - unit[U.LEASH_X, i], unit[U.Y, i] - unit[U.LEASH_Y, i]
        if dx * dx + dy * dy <= LEASH * LEASH:
            return True
        mark[M.ATTACKER, i] = NO_ONE
        return False
    if param[P.SPEED, i] != ZERO:
        return True
    if lets_go(unit, mark, param, i, target):
        return False
    return mark[M.TARGET, target] == i or in_reach(unit, param, i, target, param[P.KEEP, i])


@njit()
def lets_go(unit, mark, param, i, target):
    """Whether the target does not attack unit i while another unit in its reach does."""
    if mark[M.TARGET, target] == i:
        return False
    for j in range(unit.shape[1]):
        attacks = mark[M.TARGET, j] == i and unit[U.HEALTH, j] > ZERO
        if attacks and in_reach(unit, param, i, j, param[P.RANGE, i]):
            return True
    return False


@njit(forceinline=True)
def may_change(unit, mark, param, i, target):
    """Whether a scan may give unit i another target: it has none or pursues one; or it can move, is
    not winding up, and its target is no threat or out of its reach."""
    if target == NO_ONE or mark[M.PURSUES, i] != 0:
        return True
    if param[P.SPEED, i] == ZERO or unit[U.WINDUP, i] > ZERO:
        return False
    threatens = threat(mark, param, i, target)
    return not threatens or not in_reach(unit, param, i, target, param[P.KEEP, i])


@njit(inline="always")
def threat(mark, param, i, j):
    """Whether foe j attacks unit i or is a healer: SMAC's maps set ``AlwaysThreatens`` for the
    agents' medivacs."""
    return mark[M.TARGET, j] == i or param[P.ENERGY, j] > ZERO


@njit()
def nearest(unit, affects, n_agents, i, anyone):
    """The nearest agent, unless ``anyone`` one that enemy i can hit, ties by index; NO_ONE if there
    is none."""
    found, best = NO_ONE, F(np.inf)
    for j in range(n_agents):
        d2 = distance2(unit, i, j)
        if d2 < best and unit[U.HEALTH, j] > ZERO and (anyone or affects[i, j] == Effect.HIT):
            found, best = j, d2
    return found


@njit(inline="always")
def rank(unit, mark, param, i, j, target):
    """How unit i, which can move, sorts its foe j before distances: foes in weapon range first,
    threats before its present target before others; outside threats first."""
    threatens = threat(mark, param, i, j)
    if not in_reach(unit, param, i, j, param[P.RANGE, i]):
        return F(3) if threatens else F(4)
    if threatens:
        return ZERO
    return F(1) if j == target else F(2)


@njit()
def scan(unit, mark, param, affects, n_agents, i, target):
    """The first foe in scan range that i can hit, by rank, distance and index; else the last
    attacker, else the one that i pursues.

    Of a unit that cannot move the rank is only whether the foe attacks it.
    """
    found, best = NO_ONE, F(np.inf)
    first, end = (n_agents, unit.shape[1]) if i < n_agents else (0, n_agents)
    x, y, reach2 = unit[U.X, i], unit[U.Y, i], param[P.SEEK, i] * param[P.SEEK, i]
    for start in range(first, end, WIDTH):
        bits = units_near(unit, start, end, x, y, reach2)
        while bits != 0:
            j = start + lowest(bits)
            bits &= bits - 1
            d2 = distance2(unit, i, j)
            if param[P.SPEED, i] == ZERO:
                d2 += ZERO if mark[M.TARGET, j] == i else FAR
            else:
                d2 += FAR * rank(unit, mark, param, i, j, target)
            if d2 >= best or affects[i, j] != Effect.HIT:
                continue
            if in_reach(unit, param, i, j, param[P.SCAN, i]):
                found, best = j, d2
    if found != NO_ONE:
        mark[M.PURSUES, i] = 0
        return found
    attacker = mark[M.ATTACKER, i]
    if attacker != NO_ONE and unit[U.HEALTH, attacker] <= ZERO:
        attacker = mark[M.ATTACKER, i] = NO_ONE
    pursues = mark[M.PURSUES, i] != 0
    if attacker == NO_ONE or (pursues and attacker == target):
        return target if pursues else NO_ONE
    mark[M.PURSUES, i] = 1
    unit[U.LEASH_X, i], unit[U.LEASH_Y, i] = unit[U.X, i], unit[U.Y, i]
    return attacker


@njit(forceinline=True)
def choose_desires(unit, mark, param, hops, n_agents):
    """Order and target to the wanted velocity (UX, UY); marks units that stand to fight or to heal.

    Move orders go straight: they are shorter than any way around a wall.
    """
    for i in range(unit.shape[1]):
        unit[U.UX, i] = unit[U.UY, i] = ZERO
        mark[M.STANDS, i] = 0
        if unit[U.HEALTH, i] <= ZERO:
            continue
        target, x, y = mark[M.TARGET, i], unit[U.GOAL_X, i], unit[U.GOAL_Y, i]
        goes = around = False
        if target != NO_ONE:
            if unit[U.WINDUP, i] > ZERO or in_reach(unit, param, i, target, param[P.RANGE, i]):
                mark[M.STANDS, i] = 1
            else:
                x, y = unit[U.X, target], unit[U.Y, target]
                goes = around = True
        elif mark[M.ORDER, i] == Order.MOVE:
            goes = True
        elif mark[M.ORDER, i] >= Order.ATTACK_MOVE and mark[M.ARRIVED, i] == 0:
            goes = around = not has_arrived(unit, mark, param, n_agents, i)
            mark[M.ARRIVED, i] = 0 if goes else 1
        if around and hops.shape[0] != 0 and param[P.LAYER, i] == F(GROUND):
            x, y = next_point(unit, hops, i, x, y)
        if goes:
            head_for(unit, param, i, x, y)


@njit(forceinline=True)
def set_move_goal(view, unit, i, action):
    """The point to which a move action of agent i leads."""
    amount = view.move_amount
    dx = amount if action == EAST else (-amount if action == WEST else ZERO)
    dy = amount if action == NORTH else (-amount if action == SOUTH else ZERO)
    unit[U.GOAL_X, i], unit[U.GOAL_Y, i] = unit[U.X, i] + dx, unit[U.Y, i] + dy


@njit(forceinline=True)
def set_off(unit, param, i):
    """A unit with a new goal has its velocity at once: others do not take it for standing."""
    if param[P.ACCELERATION, i] != INSTANTLY:
        return
    head_for(unit, param, i, unit[U.GOAL_X, i], unit[U.GOAL_Y, i])
    unit[U.VX, i], unit[U.VY, i] = unit[U.UX, i], unit[U.UY, i]


@njit()
def next_point(unit, hops, i, x, y):
    """Where to head for in a straight line on the way to (x, y) around the walls."""
    to = int(x) * SIZE + int(y)
    hop = hops[int(unit[U.X, i]) * SIZE + int(unit[U.Y, i]), to]
    if hop == to:
        return x, y
    return F(hop // SIZE) + HALF, F(hop % SIZE) + HALF


@njit(inline="always")
def head_for(unit, param, i, x, y):
    """Wanted velocity: straight to (x, y) at full speed, slower only to stop exactly there."""
    dx, dy = x - unit[U.X, i], y - unit[U.Y, i]
    d = np.sqrt(dx * dx + dy * dy)
    if d > ZERO:
        speed = min(param[P.SPEED, i], d * LOOPS)
        unit[U.UX, i], unit[U.UY, i] = dx / d * speed, dy / d * speed


@njit(forceinline=True)
def has_arrived(unit, mark, param, n_agents, i):
    """At the end of its attack-move, or in contact with a friend that has arrived and stands
    there."""
    if unit[U.X, i] == unit[U.GOAL_X, i] and unit[U.Y, i] == unit[U.GOAL_Y, i]:
        return True
    first, end = (0, n_agents) if i < n_agents else (n_agents, unit.shape[1])
    for j in range(first, end):
        if mark[M.ARRIVED, j] != 0 and mark[M.TARGET, j] == NO_ONE and unit[U.HEALTH, j] > ZERO:
            touch = param[P.DISC, i] + param[P.DISC, j] + TOUCH
            if distance2(unit, i, j) <= touch * touch:
                return True
    return False
