"""Teams and start positions of SMACv2, drawn for every battle from its seed (compiled).

``recruit`` fills the tables of units of a battle, from which the reset that follows starts it.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rltrain.battles.engine.kernel import F, draw, njit, seed_stream, shuffle
from rltrain.battles.engine.world import P, U

HALF, ONE = F(0.5), F(1)
TURN = F(2 * np.pi)
STREAM = np.uint64(0x5EED7EA3)  # sets the stream of the draw apart from that of the battle
RING = F(0.25)  # cells between the rings around a point on which a free place is looked for
PLACES = 6  # on the first ring, as many more on every next one
MAX_RINGS = 180  # the whole map


class Roster(NamedTuple):
    """The types that teams are drawn from; one column per type of agents, then of enemies."""

    n_agents: int
    cumulative: np.ndarray  # [K] float32, probability of a unit type or one before it
    exception: np.ndarray  # [K] uint8, a team of nothing else is drawn again
    order: np.ndarray  # [K] int32, agents are numbered by it, types by their place in the tables
    reflects: np.float32  # probability of the one kind of start positions, else the other
    size: np.float32  # of the map, cells
    inner: np.float32  # near side of the square in the middle that surrounding groups keep out of
    max_groups: int
    param: np.ndarray  # [len(P), 2K] float32; these five as in Scene
    damage: np.ndarray  # [2K, 2K] float32
    affects: np.ndarray  # [2K, 2K] uint8
    type_bit: np.ndarray  # [2K] int32
    first_unit: np.ndarray  # [len(U), 2K] float32
    first_mark: np.ndarray  # [len(M), 2K] int32
    scales: bool  # rewards are divided by the most that the enemy team can give
    rate: float
    bonus: float  # part of that which does not depend on the team
    keeps_factor: bool  # the first team's scale stays


@njit()
def recruit(roster, scene, world, restart, seed):
    """New teams at their places for the battles of restart [E], from seed uint64 [E]."""
    for e in range(restart.shape[0]):
        if restart[e]:
            kind, unit, A = world.kind[e], world.unit[e], roster.n_agents
            world.rng[e] = seed_stream(seed[e] ^ STREAM)
            draw_teams(roster, kind, world.rng, e)
            if draw(world.rng, e) > roster.reflects:
                surround(roster, unit, A, world.rng, e)
            else:
                reflect(roster, unit, A, world.rng, e)
            find_places(roster, unit, kind, A)
            number_agents(roster, unit, kind, A)
            equip(roster, scene, unit, kind, e)
            if world.factor[e] == 0.0 or not roster.keeps_factor:
                world.factor[e] = reward_factor(roster, scene.param[e])


@njit()
def draw_teams(roster, kind, rng, e):
    """Unit types of the agents, the same for the enemies, and more or fewer if they are not as
    many."""
    A, units = roster.n_agents, kind.shape[0]
    draw_team(roster, kind, 0, A, rng, e)
    for i in range(A, min(2 * A, units)):
        kind[i] = kind[i - A]
    draw_team(roster, kind, 2 * A, units, rng, e)


@njit()
def draw_team(roster, kind, first, end, rng, e):
    """Independent draws, redrawn while only exceptions came out."""
    ordinary = first >= end
    while not ordinary:
        for i in range(first, end):
            at, k = draw(rng, e), 0
            while k < roster.cumulative.shape[0] - 1 and at >= roster.cumulative[k]:
                k += 1
            kind[i] = k
            ordinary |= roster.exception[k] == 0


@njit()
def reflect(roster, unit, n_agents, rng, e):
    """Agents anywhere in the west, enemies mirrored in the east, more enemies anywhere there."""
    half = roster.size * HALF
    for i in range(unit.shape[1]):
        if i < n_agents:
            unit[U.X, i] = draw(rng, e) * (half - ONE)
            unit[U.Y, i] = draw(rng, e) * roster.size
        elif i < 2 * n_agents:
            unit[U.X, i] = roster.size - unit[U.X, i - n_agents]
            unit[U.Y, i] = unit[U.Y, i - n_agents]
        else:
            unit[U.X, i] = half + draw(rng, e) * half
            unit[U.Y, i] = draw(rng, e) * roster.size


@njit(allocates=True)
def surround(roster, unit, n_agents, rng, e):
    """Agents in the center; enemies in one to four groups, each on a diagonal of its own."""
    for i in range(n_agents):
        unit[U.X, i] = unit[U.Y, i] = roster.size * HALF
    n_groups = 1 + int(draw(rng, e) * F(roster.max_groups))
    count, corner = np.zeros(4, np.int64), np.arange(4)
    for _ in range(n_agents, unit.shape[1]):
        count[int(draw(rng, e) * F(n_groups))] += 1
    shuffle(corner, 4, rng, e)
    i = n_agents
    for g in range(n_groups):
        t = draw(rng, e)
        x = y = t * roster.inner
        if corner[g] >= 2:
            x = roster.size - x
        if corner[g] % 2 == 1:
            y = roster.size - y
        for _ in range(count[g]):
            unit[U.X, i], unit[U.Y, i] = x, y
            i += 1


@njit()
def find_places(roster, unit, kind, n_agents):
    """Agents, then enemies: each into the map, and where it is not free there to the nearest free
    place, looked for on rings around it."""
    param = roster.param
    for i in range(unit.shape[1]):
        c = column(kind, n_agents, roster.order.shape[0], i)
        at_x = min(max(unit[U.X, i], param[P.X_FROM, c]), param[P.X_TO, c])
        at_y = min(max(unit[U.Y, i], param[P.Y_FROM, c]), param[P.Y_TO, c])
        unit[U.X, i], unit[U.Y, i] = at_x, at_y
        ring = 0
        found = is_free(roster, unit, kind, n_agents, i)
        while not found and ring < MAX_RINGS:
            ring += 1
            for k in range(PLACES * ring):
                angle = TURN * F(k) / F(PLACES * ring)
                unit[U.X, i] = at_x + F(ring) * RING * np.cos(angle)
                unit[U.Y, i] = at_y + F(ring) * RING * np.sin(angle)
                found = is_free(roster, unit, kind, n_agents, i)
                if found:
                    break
        if not found:
            unit[U.X, i], unit[U.Y, i] = at_x, at_y  # the first loop pushes them apart


@njit()
def column(kind, n_agents, n_kinds, i):
    """Of unit i in the roster's tables."""
    return kind[i] if i < n_agents else n_kinds + kind[i]


@njit()
def is_free(roster, unit, kind, n_agents, i):
    """Whether unit i is inside its place on the map and clear of all units before it."""
    param, K = roster.param, roster.order.shape[0]
    c = column(kind, n_agents, K, i)
    x, y = unit[U.X, i], unit[U.Y, i]
    if x < param[P.X_FROM, c] or x > param[P.X_TO, c]:
        return False
    if y < param[P.Y_FROM, c] or y > param[P.Y_TO, c]:
        return False
    for j in range(i):
        d = column(kind, n_agents, K, j)
        gap = param[P.DISC, c] + param[P.DISC, d]
        dx, dy = unit[U.X, j] - x, unit[U.Y, j] - y
        if dx * dx + dy * dy < gap * gap and param[P.LAYER, c] == param[P.LAYER, d]:
            return False
    return True


@njit()
def number_agents(roster, unit, kind, n_agents):
    """Agents sorted by (type, x, y)."""
    for i in range(1, n_agents):
        k = i
        while k > 0 and comes_before(roster, unit, kind, k, k - 1):
            kind[k], kind[k - 1] = kind[k - 1], kind[k]
            unit[U.X, k], unit[U.X, k - 1] = unit[U.X, k - 1], unit[U.X, k]
            unit[U.Y, k], unit[U.Y, k - 1] = unit[U.Y, k - 1], unit[U.Y, k]
            k -= 1


@njit()
def comes_before(roster, unit, kind, i, j):
    """Whether agent i gets a smaller number than j."""
    one, other = roster.order[kind[i]], roster.order[kind[j]]
    if one != other:
        return one < other
    if unit[U.X, i] != unit[U.X, j]:
        return unit[U.X, i] < unit[U.X, j]
    return unit[U.Y, i] < unit[U.Y, j]


@njit(allocates=True)
def equip(roster, scene, unit, kind, e):
    """The tables of battle e for its teams, which begin where ``unit`` says."""
    fit(roster, scene, kind, e)
    K, A = roster.order.shape[0], roster.n_agents
    first_unit, first_mark = scene.first_unit[e], scene.first_mark[e]
    for i in range(kind.shape[0]):
        c = column(kind, A, K, i)
        copy_column(roster.first_unit, c, first_unit, i)
        copy_column(roster.first_mark, c, first_mark, i)
        first_unit[U.X, i] = first_unit[U.GOAL_X, i] = unit[U.X, i]
        first_unit[U.Y, i] = first_unit[U.GOAL_Y, i] = unit[U.Y, i]


@njit()
def copy_column(table, c, to, i):
    """Column c of ``table`` becomes column i of ``to``."""
    for k in range(table.shape[0]):  # Numba compiles a slice's message of wrong shapes for seconds
        to[k, i] = table[k, c]


@njit(allocates=True)
def fit(roster, scene, kind, e):
    """Write the types of the units of battle e into the scene, and the damage between them."""
    K, A = roster.order.shape[0], roster.n_agents
    param, damage, affects = scene.param[e], scene.damage[e], scene.affects[e]
    for i in range(kind.shape[0]):
        c = column(kind, A, K, i)
        copy_column(roster.param, c, param, i)
        scene.type_bit[e, i] = roster.type_bit[c]
        for j in range(kind.shape[0]):
            d = column(kind, A, K, j)
            damage[i, j], affects[i, j] = roster.damage[c, d], roster.affects[c, d]


@njit()
def fit_all(roster, scene, world):
    """``fit`` for all battles, after their worlds were loaded."""
    for e in range(world.kind.shape[0]):
        fit(roster, scene, world.kind[e], e)


@njit()
def reward_factor(roster, param):
    """The factor of the rewards of a battle, with which a flawless win returns the rate."""
    if not roster.scales:
        return 1.0
    most = roster.bonus
    for i in range(roster.n_agents, param.shape[1]):
        most += np.float64(param[P.HEALTH, i]) + np.float64(param[P.SHIELD, i])
    return roster.rate / most
