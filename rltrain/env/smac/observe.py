"""What agents see and may do: SMAC's observations, availability and state of one battle (compiled)."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from rltrain.env.smac.compiled import F, njit
from rltrain.env.smac.world import COOLDOWN, HEALTH, P_COOLDOWN_NORM, P_HEALTH, P_SHIELD, SHIELD, X, Y

ZERO, HALF, ONE, TWO = F(0), F(0.5), F(1), F(2)
SIGHT, SHOOT = F(9), F(6)  # centre distances, whatever the unit type: sight exclusive, shooting inclusive
SIZE, CENTRE = F(32), F(16)
STOP, NORTH, SOUTH, EAST, WEST, FIRST_ATTACK = 1, 2, 3, 4, 5, 6


@njit()
def write_frame(scene, unit, last_action, steps, obs, avail, state):
    """Fills obs [A, O], avail [A, n_actions] and state [S] of one battle."""
    obs[:] = ZERO
    avail[:] = 0
    state[:] = ZERO
    timestep = F(steps) / F(scene.limit)
    for i in range(scene.n_agents):
        if unit[HEALTH, i] > ZERO:
            write_moves(scene, unit, i, obs, avail)
            write_obs(scene, unit, last_action, i, obs, avail)
        else:
            avail[i, 0] = 1
        if scene.obs_timestep:
            obs[i, obs.shape[1] - 1] = timestep
    if scene.obs_as_state:
        for i in range(scene.n_agents):
            for k in range(obs.shape[1]):
                state[i * obs.shape[1] + k] = obs[i, k]
    else:
        write_state(scene, unit, last_action, timestep, state)


@njit()
def write_moves(scene, unit, i, obs, avail):
    """Stop and the four moves; a move is open if the one cell half a move order ahead is pathable."""
    x, y, ahead = unit[X, i], unit[Y, i], scene.move_amount * HALF
    avail[i, STOP] = 1
    avail[i, NORTH] = value_at(scene.pathable, x, y + ahead, 0)
    avail[i, SOUTH] = value_at(scene.pathable, x, y - ahead, 0)
    avail[i, EAST] = value_at(scene.pathable, x + ahead, y, 0)
    avail[i, WEST] = value_at(scene.pathable, x - ahead, y, 0)
    for d in range(4):
        obs[i, d] = F(avail[i, NORTH + d])
    at = 4
    if scene.pathing_grid:
        write_surroundings(scene, scene.pathable, x, y, 8, obs[i], at)
        at += 8
    if scene.terrain_height:
        write_surroundings(scene, scene.height, x, y, 9, obs[i], at)


@njit(inline="always")
def value_at(cells, x, y, outside):
    """Value of the cell of the point (x, y)."""
    if x < ZERO or y < ZERO or x >= SIZE or y >= SIZE:
        return outside
    return cells[int(x), int(y)]


@njit()
def write_surroundings(scene, cells, x, y, count, row, at):
    """Cell values at SMAC's points around the agent's cell: 4 far ones, 4 diagonal ones, its own; outside is 1."""
    cx, cy, m = F(int(x)), F(int(y)), scene.move_amount
    far = TWO * m
    for k in range(count):
        dx, dy = ZERO, ZERO
        if k < 2:
            dy = far if k == 0 else -far
        elif k < 4:
            dx = far if k == 2 else -far
        elif k < 8:
            dx = m if k == 4 or k == 6 else -m
            dy = m if k == 4 or k == 7 else -m
        row[at + k] = F(value_at(cells, cx + dx, cy + dy, 1))


@njit()
def write_obs(scene, unit, last_action, i, obs, avail):
    """Enemy blocks, ally blocks (without i) and the own block of a living agent; attack availability on the way."""
    A, U = scene.n_agents, unit.shape[1]
    at = 4 + 8 * scene.pathing_grid + 9 * scene.terrain_height
    enemy = 4 + scene.all_health * (1 + scene.shield_enemy) + scene.type_bits
    ally = 4 + scene.all_health * (1 + scene.shield_ally) + scene.type_bits
    ally += scene.obs_last_action * scene.n_actions
    for k in range(A, U):
        write_other(scene, unit, last_action, i, k, obs, avail, at)
        at += enemy
    for k in range(A):
        if k != i:
            write_other(scene, unit, last_action, i, k, obs, avail, at)
            at += ally
    if scene.own_health:
        at = write_health(scene, unit, i, obs[i], at)
    if scene.type_bit[i] >= 0:
        obs[i, at + scene.type_bit[i]] = ONE


@njit()
def write_other(scene, unit, last_action, i, k, obs, avail, at):
    """The block of unit k in the observation of agent i, zeros unless k lives in sight."""
    if unit[HEALTH, k] <= ZERO:
        return
    dx, dy = unit[X, k] - unit[X, i], unit[Y, k] - unit[Y, i]
    d2 = dx * dx + dy * dy
    if d2 >= SIGHT * SIGHT:
        return
    A = scene.n_agents
    if k < A:
        obs[i, at] = ONE
    elif d2 <= SHOOT * SHOOT:
        obs[i, at] = ONE
        avail[i, FIRST_ATTACK + k - A] = 1
    obs[i, at + 1], obs[i, at + 2], obs[i, at + 3] = np.sqrt(d2) / SIGHT, dx / SIGHT, dy / SIGHT
    at += 4
    if scene.all_health:
        at = write_health(scene, unit, k, obs[i], at)
    if scene.type_bit[k] >= 0:
        obs[i, at + scene.type_bit[k]] = ONE
    if k < A and scene.obs_last_action and last_action[k] >= 0:
        obs[i, at + scene.type_bits + last_action[k]] = ONE


@njit(inline="always")
def write_health(scene, unit, k, row, at):
    """Health and, for Protoss, shield of unit k as fractions; returns where the next feature goes."""
    row[at] = unit[HEALTH, k] / scene.param[P_HEALTH, k]
    if scene.shield_ally if k < scene.n_agents else scene.shield_enemy:
        at += 1
        row[at] = unit[SHIELD, k] / scene.param[P_SHIELD, k]
    return at + 1


@njit()
def write_state(scene, unit, last_action, timestep, state):
    """Ally rows, enemy rows, last actions, timestep: the whole battle, without limits of sight."""
    A, at = scene.n_agents, 0
    for k in range(unit.shape[1]):
        shield = scene.shield_ally if k < A else scene.shield_enemy
        size = (4 if k < A else 3) + shield + scene.type_bits
        if unit[HEALTH, k] > ZERO:
            p = at + 1
            state[at] = unit[HEALTH, k] / scene.param[P_HEALTH, k]
            if k < A:
                state[p] = max(unit[COOLDOWN, k], ZERO) / scene.param[P_COOLDOWN_NORM, k]
                p += 1
            state[p], state[p + 1] = (unit[X, k] - CENTRE) / SIZE, (unit[Y, k] - CENTRE) / SIZE
            if shield:
                state[p + 2] = unit[SHIELD, k] / scene.param[P_SHIELD, k]
            if scene.type_bit[k] >= 0:
                state[at + size - scene.type_bits + scene.type_bit[k]] = ONE
        at += size
    if scene.state_last_action:
        for i in range(A):
            if last_action[i] >= 0:
                state[at + last_action[i]] = ONE
            at += scene.n_actions
    if scene.state_timestep:
        state[at] = timestep
