"""SMAC's observations, available actions and state of one battle (compiled)."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from rltrain.battles.engine.field_of_view import IN_RANGE, SEEN, write_targets, write_visibility
from rltrain.battles.engine.kernel import F, njit
from rltrain.battles.engine.world import P, U

ZERO, HALF, ONE, TWO = F(0), F(0.5), F(1), F(2)
SIZE, CENTER = F(32), F(16)
STOP, NORTH, SOUTH, EAST, WEST, FIRST_ATTACK = 1, 2, 3, 4, 5, 6


@njit(forceinline=True)
def write_frame(scene, view, world, frame, e):
    """Fills obs [A, O], avail [A, n_actions] and state [S] of battle e.

    Arrays that are rarely read are passed whole, with ``e``: making a view of one battle's part
    costs more than it saves.
    """
    own = e * scene.per_battle
    param, type_bit, unit = scene.param[own], scene.type_bit[own], world.unit[e]
    obs, avail, state = frame.obs[e], frame.avail[e], frame.state[e]
    visible, facing, last_action = frame.visible, world.facing, world.last_action
    enemies = world.enemies
    if view.limited:
        write_visibility(
            view, unit, param, facing[e], enemies[e], world.watches[e], world.blank[e], visible[e]
        )
    obs[:] = ZERO
    avail[:] = 0
    state[:] = ZERO
    timestep = F(world.clock[e]) / F(scene.limit)
    for i in range(view.n_agents):
        if unit[U.HEALTH, i] > ZERO:
            write_moves(view, scene.pathable, unit, i, obs, avail)
            if view.obs_pathing_grid:
                write_surroundings(view, scene.pathable, unit, i, 8, obs, 4)
            if view.obs_terrain_height:
                at = 4 + 8 * view.obs_pathing_grid
                write_surroundings(view, scene.height, unit, i, 9, obs, at)
            heals = scene.heals and param[P.ENERGY, i] > ZERO
            if view.limited:
                write_targets(view, unit, param, enemies[e], visible[e], i, avail)
            elif heals:
                write_patients(view, param, unit, i, avail)
            write_enemies(view, param, type_bit, unit, enemies, visible, e, i, heals, obs, avail)
            write_allies(view, param, type_bit, unit, visible, last_action, e, i, obs)
            write_own(view, param, type_bit, unit, facing, e, i, obs)
        else:
            avail[i, 0] = 1
        if view.obs_timestep_number:
            obs[i, obs.shape[1] - 1] = timestep
    if view.obs_instead_of_state:
        for i in range(view.n_agents):
            for k in range(obs.shape[1]):
                state[i * obs.shape[1] + k] = obs[i, k]
    else:
        write_state(view, param, type_bit, unit, enemies, facing, last_action, e, timestep, state)


@njit()
def write_moves(view, pathable, unit, i, obs, avail):
    """Stop and the four moves; a move is open if the one cell half a move order ahead is
    pathable."""
    x, y, ahead = unit[U.X, i], unit[U.Y, i], view.move_amount * HALF
    avail[i, STOP] = 1
    avail[i, NORTH] = value_at(pathable, x, y + ahead, 0)
    avail[i, SOUTH] = value_at(pathable, x, y - ahead, 0)
    avail[i, EAST] = value_at(pathable, x + ahead, y, 0)
    avail[i, WEST] = value_at(pathable, x - ahead, y, 0)
    for d in range(4):
        obs[i, d] = F(avail[i, NORTH + d])


@njit(inline="always")
def value_at(cells, x, y, outside):
    """Value of the cell of the point (x, y); outside of the map is tested before coordinates are
    truncated."""
    if x < ZERO or y < ZERO or x >= SIZE or y >= SIZE:
        return outside
    return cells[int(x), int(y)]


@njit()
def write_surroundings(view, cells, unit, i, count, obs, at):
    """Cell values at SMAC's points around the agent's cell: 4 far, 4 diagonal, its own; outside is
    1."""
    x, y, m = F(int(unit[U.X, i])), F(int(unit[U.Y, i])), view.move_amount
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
        obs[i, at + k] = F(value_at(cells, x + dx, y + dy, 1))


@njit()
def write_patients(view, param, unit, i, avail):
    """A healer's targets are the other agents, by index; neither their health nor its energy
    matters."""
    shoot = param[P.SHOOT, i]
    for k in range(view.n_agents):
        dx, dy = unit[U.X, k] - unit[U.X, i], unit[U.Y, k] - unit[U.Y, i]
        near = dx * dx + dy * dy <= shoot * shoot
        if near and unit[U.HEALTH, k] > ZERO and param[P.ENERGY, k] == ZERO:
            avail[i, view.first_attack + k] = 1


@njit(forceinline=True)
def write_enemies(view, param, type_bit, unit, enemies, visible, e, i, heals, obs, avail):
    """Enemy blocks of agent i, zeros unless alive and in sight: attackable, distance, dx, dy,
    health, shield, type.

    For a healer the first feature says, as in SMAC, whether the agent of the same index can be
    healed.
    """
    x, y, at, A = unit[U.X, i], unit[U.Y, i], view.move_size, view.n_agents
    sight, shoot = param[P.SIGHT, i], param[P.SHOOT, i]
    for m in range(view.n_enemies):
        k = np.int64(enemies[e, m])
        dx, dy = unit[U.X, k] - x, unit[U.Y, k] - y
        d2 = dx * dx + dy * dy
        seen = visible[e, i, k] & SEEN != 0 if view.limited else d2 < sight * sight
        if seen and unit[U.HEALTH, k] > ZERO:
            if view.limited:
                exists, j = not heals or m < A, m if heals else k
                obs[i, at] = ONE if exists and visible[e, i, j] & IN_RANGE else ZERO
            elif heals:
                obs[i, at] = F(avail[i, view.first_attack + m])
            elif d2 <= shoot * shoot:
                avail[i, view.first_attack + m] = 1
                obs[i, at] = ONE
            write_unit(view, param, type_bit, unit, i, k, view.shield_enemy, obs, at)
        at += view.enemy_size


@njit(forceinline=True)
def write_unit(view, param, type_bit, unit, i, k, shield, obs, at):
    """Distance, dx, dy, health, shield and type of unit k after feature ``at`` of agent i; returns
    where the type begins."""
    sight = param[P.SIGHT, i]
    dx, dy = unit[U.X, k] - unit[U.X, i], unit[U.Y, k] - unit[U.Y, i]
    obs[i, at + 1] = np.sqrt(dx * dx + dy * dy) / sight
    obs[i, at + 2] = dx / sight
    obs[i, at + 3] = dy / sight
    p = at + 4
    if view.obs_all_health:
        obs[i, p] = unit[U.HEALTH, k] / param[P.HEALTH, k]
        p += 1
        if shield:
            obs[i, p] = unit[U.SHIELD, k] / max(param[P.SHIELD, k], ONE)
            p += 1
    if view.type_bits > 0:
        obs[i, p + type_bit[k]] = ONE
    return p


@njit(forceinline=True)
def write_allies(view, param, type_bit, unit, visible, last_action, e, i, obs):
    """Blocks of the other allies, zeros unless alive and in sight: visible, distance, dx, dy,
    health, shield, type."""
    x, y, sight = unit[U.X, i], unit[U.Y, i], param[P.SIGHT, i]
    at = view.move_size + view.n_enemies * view.enemy_size
    for k in range(view.n_agents):
        if k == i:
            continue
        dx, dy = unit[U.X, k] - x, unit[U.Y, k] - y
        d2 = dx * dx + dy * dy
        seen = visible[e, i, k] & SEEN != 0 if view.limited else d2 < sight * sight
        if seen and unit[U.HEALTH, k] > ZERO:
            obs[i, at] = ONE
            p = write_unit(view, param, type_bit, unit, i, k, view.shield_ally, obs, at)
            if view.obs_last_action and last_action[e, k] >= 0:
                obs[i, p + view.type_bits + last_action[e, k]] = ONE
        at += view.ally_size


@njit(forceinline=True)
def write_own(view, param, type_bit, unit, facing, e, i, obs):
    """The own block of agent i: health, shield, in SMACv2 place and cone, type."""
    at = view.move_size + view.n_enemies * view.enemy_size + (view.n_agents - 1) * view.ally_size
    if view.own_health:
        obs[i, at] = unit[U.HEALTH, i] / param[P.HEALTH, i]
        at += 1
        if view.shield_ally:
            obs[i, at] = unit[U.SHIELD, i] / max(param[P.SHIELD, i], ONE)
            at += 1
    if view.obs_own_pos:
        obs[i, at], obs[i, at + 1] = unit[U.X, i] / SIZE, unit[U.Y, i] / SIZE
        at += 2
    if view.conic_fov:
        obs[i, at], obs[i, at + 1] = facing[e, i, 0], facing[e, i, 1]
        at += 2
    if view.type_bits > 0:
        obs[i, at + type_bit[i]] = ONE


@njit()
def write_state(view, param, type_bit, unit, enemies, facing, last_action, e, timestep, state):
    """Ally rows, enemy rows, last actions, timestep: the whole battle, without limits of sight."""
    A, at = view.n_agents, 0
    for row in range(A + view.n_enemies):
        k = row if row < A else enemies[e, row - A]
        shield = view.shield_ally if k < A else view.shield_enemy
        turns = view.conic_fov and k < A
        size = (4 if k < A else 3) + shield + 2 * turns + view.type_bits
        if unit[U.HEALTH, k] > ZERO:
            p = at + 1
            state[at] = unit[U.HEALTH, k] / param[P.HEALTH, k]
            if k < A:
                heals = param[P.ENERGY, k] > ZERO
                loads = unit[U.ENERGY, k] if heals else unit[U.COOLDOWN, k] + view.ready_in
                state[p] = max(loads, ZERO) / param[P.COOLDOWN_NORM, k]
                p += 1
            x, y = unit[U.X, k] - CENTER, unit[U.Y, k] - CENTER
            state[p], state[p + 1] = x / view.max_distance, y / view.max_distance
            if shield:
                state[p + 2] = unit[U.SHIELD, k] / max(param[P.SHIELD, k], ONE)
            if turns:
                state[p + 2 + shield], state[p + 3 + shield] = facing[e, k, 0], facing[e, k, 1]
            if view.type_bits > 0:
                state[at + size - view.type_bits + type_bit[k]] = ONE
        at += size
    if view.state_last_action:
        for i in range(A):
            if last_action[e, i] >= 0:
                state[at + last_action[e, i]] = ONE
            at += view.n_actions
    if view.state_timestep_number:
        state[at] = timestep
