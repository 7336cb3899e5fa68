"""Targets and desired velocities of units under ``rules=smaclite``; one call is one tick
(compiled).

Agents follow their orders. Enemies walk to a point; one without a target takes the nearest agent in
scan range or one that aims at it, healers first, and keeps it while in weapon range or aimed at.
While agents have a healer, targets are chosen again on every tick. Walls do not block sight.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from rltrain.battles.engine.fighting.combat import distance2, in_reach, set_move_goal
from rltrain.battles.engine.kernel import F, njit
from rltrain.battles.engine.observe import FIRST_ATTACK, NORTH
from rltrain.battles.engine.world import NO_ONE, Effect, M, Order, P, U

ZERO = F(0)
LOOK = P.KEEP  # row of param: center distance up to which others come into question at all
FAR = F(2e9)  # the distance of an attacker that is not in reach of LOOK


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
