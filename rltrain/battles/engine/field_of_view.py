"""SMACv2's field of view: cones that agents turn, enemies hidden from some agents, actions without
a mask (compiled).

Unused if only distance decides (``View.limited`` false). ``register`` records which agent saw which
enemy first; ``write_visibility`` derives the current visibility from that record.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from rltrain.battles.engine.kernel import F, draw, njit, shuffle
from rltrain.battles.engine.world import NO_ONE, P, U

ZERO, ONE = F(0), F(1)
NO_OP, FIRST_TURN = 0, 6  # actions
SEEN, IN_RANGE = 1, 2  # bits of Frame.visible


@njit(inline="always")
def in_view(view, unit, facing, i, j, reach, inclusive):
    """Whether j is within ``reach`` of i (centers) and in its cone, if it has one."""
    dx, dy = unit[U.X, j] - unit[U.X, i], unit[U.Y, j] - unit[U.Y, i]
    d2 = dx * dx + dy * dy
    if d2 > reach * reach or (d2 == reach * reach and not inclusive):
        return False
    ahead = dx * facing[i, 0] + dy * facing[i, 1]
    return not view.conic_fov or d2 == ZERO or ahead > np.sqrt(d2) * view.cone_cosine


@njit(inline="always")
def sees(view, unit, param, facing, i, j):
    """Whether i has j in sight, dead or alive; the end of a cone belongs to it, as in SMACv2."""
    return in_view(view, unit, facing, i, j, param[P.SIGHT, i], view.conic_fov)


@njit()
def forget_all(facing, watcher, watches):
    """Reset for a new battle: all units face east and no enemy has been seen."""
    facing[:, 0], facing[:, 1] = ONE, ZERO
    watcher[:] = NO_ONE
    watches[:] = 0


@njit()
def register(view, unit, param, facing, enemies, watcher, watches, blank, queue, rng, e):
    """Which enemies each agent may see: the first agent to see it, and every other with a
    probability drawn at that moment, until the first one or the enemy is dead.

    Agents are processed in random order. SMACv2 as published zeroes an agent's enemy blocks up to
    the last enemy that is hidden from it when it is processed, including those that no agent has
    seen: ``blank`` counts them.
    """
    A = view.n_agents
    for m in range(watcher.shape[0]):
        first = watcher[m]
        if first != NO_ONE and (unit[U.HEALTH, first] <= ZERO or unit[U.HEALTH, A + m] <= ZERO):
            watcher[m] = NO_ONE
            watches[:, m] = 0
    for k in range(A):
        queue[k] = k
    shuffle(queue, A, rng, e)
    for k in range(A):
        i = queue[k]
        blank[i] = 0
        if unit[U.HEALTH, i] <= ZERO:
            continue
        for number in range(watcher.shape[0]):
            m = enemies[number] - A
            counts = unit[U.HEALTH, A + m] > ZERO or view.zero_enemy_block
            if counts and watcher[m] == NO_ONE and sees(view, unit, param, facing, i, A + m):
                watcher[m] = i
                for other in range(A):
                    watches[other, m] = other == i or draw(rng, e) < view.prob_obs_enemy
            if watches[i, m] == 0:
                blank[i] = number + 1


@njit()
def write_visibility(view, unit, param, facing, enemies, watches, blank, visible):
    """Fills visible [A, U] for all pairs of living units: SEEN, and IN_RANGE of an attack or of
    healing."""
    A = view.n_agents
    shared = view.prob_obs_enemy < ONE or view.zero_enemy_block
    for i in range(A):
        heals = param[P.ENERGY, i] > ZERO
        for j in range(unit.shape[1]):
            visible[i, j] = 0
            if unit[U.HEALTH, i] <= ZERO or unit[U.HEALTH, j] <= ZERO:
                continue
            may = j < A or not shared or watches[i, j - A] != 0
            if view.fully_observable or (may and sees(view, unit, param, facing, i, j)):
                visible[i, j] |= SEEN
            target = (j < A and param[P.ENERGY, j] == ZERO) if heals else j >= A
            if target and in_view(view, unit, facing, i, j, param[P.SHOOT, i], True):
                visible[i, j] |= IN_RANGE
        if view.zero_enemy_block and not view.fully_observable:
            for number in range(blank[i]):
                visible[i, enemies[number]] &= IN_RANGE


@njit()
def write_targets(view, unit, param, enemies, visible, i, avail):
    """Turns of the cone, and attacks or healing; without a mask on every living target."""
    for a in range(FIRST_TURN, view.first_attack):
        avail[i, a] = 1
    heals = param[P.ENERGY, i] > ZERO
    for k in range(view.n_agents if heals else view.n_enemies):
        j = k if heals else enemies[k]
        hidden = view.action_mask and visible[i, j] & IN_RANGE == 0
        patient = not heals or param[P.ENERGY, j] == ZERO
        if unit[U.HEALTH, j] > ZERO and patient and not hidden:
            avail[i, view.first_attack + k] = 1


@njit()
def aim(view, param, enemies, visible, facing, i, a):
    """Action a of agent i in SMAC's numbers. Turning the cone, and an attack out of range where
    that is not masked, give no-op: the unit continues its last order.
    """
    if a < view.first_attack:
        angle = 2.0 * np.pi * (a - FIRST_TURN) / (view.first_attack - FIRST_TURN)
        facing[i, 0], facing[i, 1] = F(np.cos(angle)), F(np.sin(angle))
        return NO_OP
    target = a - view.first_attack
    j = target if param[P.ENERGY, i] > ZERO else enemies[target]
    if not view.action_mask and visible[i, j] & IN_RANGE == 0:
        return NO_OP
    return FIRST_TURN + target
