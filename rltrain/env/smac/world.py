"""The tables of the engine: what is constant on a map (``Scene``), what a battle remembers
(``World``), what it shows (``Frame``), and how they are made from the data.

Tables are [rows, U]: one row per quantity, one column per unit, agents first, then enemies. The row
numbers below are the only names compiled code uses, so a new quantity is one more number.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rltrain.env.smac import terrain
from rltrain.env.smac.maps import Group, MapData
from rltrain.env.smac.sizes import Options, Sizes, max_reward_of, sizes_of
from rltrain.env.smac.units import LOOPS_PER_SECOND, UNITS, damage_per_hit

# Rows of World.unit (float32): position, velocity, wanted velocity, next velocity, goal of a move,
# where a pursuit began; cells and cells per second. Cooldown and windup in loops. BEFORE is health
# + shield when the env step began.
X, Y, VX, VY, UX, UY, NX, NY, GOAL_X, GOAL_Y, LEASH_X, LEASH_Y = range(12)
HEALTH, SHIELD, COOLDOWN, WINDUP, BEFORE = range(12, 17)
N_UNIT = 17

# Rows of World.mark (int32). STANDS: within reach of its target or winding up. PURSUES: after its
# last attacker, beyond scan range. HELP_AT: the loop from which a unit may call for help again.
ORDER, TARGET, ATTACKER, PURSUES, ARRIVED, PHASE, HELP_AT, STANDS = range(8)
N_MARK = 8

# Rows of Scene.param (float32), constant per unit. NEIGHBOUR is the centre distance at which others
# are avoided.
P_RADIUS, P_DISC, P_SPEED, P_RANGE, P_SCAN, P_SLOP, P_NEIGHBOUR = range(7)
P_PERIOD, P_DAMAGE_POINT, P_HEALTH, P_SHIELD, P_ARMOUR, P_COOLDOWN_NORM = range(7, 13)
N_PARAM = 13

IDLE, MOVE, ATTACK, ATTACK_MOVE = range(4)  # values of ORDER
NO_ONE = -1
RUNNING, WIN, DEFEAT, DRAW, TIMEOUT = range(5)  # values of World.outcome

MIN_SCAN_RANGE = 5.0
SPAWN_GAP = 0.05


class View(NamedTuple):
    """What is shown, and how long its blocks are. Scalars only: inner loops may take it by
    value."""

    n_agents: int
    n_enemies: int
    n_actions: int
    move_amount: np.float32
    move_size: int
    enemy_size: int
    ally_size: int
    type_bits: int
    shield_ally: bool
    shield_enemy: bool
    all_health: bool
    own_health: bool
    pathing_grid: bool
    terrain_height: bool
    obs_last_action: bool
    obs_timestep: bool
    obs_as_state: bool
    state_last_action: bool
    state_timestep: bool


class Reward(NamedTuple):
    """SMAC's reward options; ``factor`` is the final scaling."""

    sparse: bool
    only_positive: bool
    death_value: float
    win: float
    defeat: float
    negative_scale: float
    factor: float


class Scene(NamedTuple):
    """Constants of one map with its options, shared by all battles.

    Not nested with ``View`` and ``Reward``: Numba's threads take flat tuples only.
    """

    n_agents: int
    limit: int  # env steps
    loops: int  # per env step
    param: np.ndarray  # [N_PARAM, U] float32
    damage: np.ndarray  # [U, U] float32, of one hit of row on column, before armour
    type_bit: np.ndarray  # [U] int32, -1 = none
    spawn: np.ndarray  # [2, U] float32
    goal: np.ndarray  # [2] float32, end of the enemies' attack-move
    walls: np.ndarray  # [W, 4] float32
    pathable: np.ndarray  # [32, 32] uint8
    near_walls: np.ndarray  # [32, 32] uint8
    height: np.ndarray  # [32, 32] float32


class World(NamedTuple):
    """Everything a battle remembers, [E, …]; all of it goes into a checkpoint."""

    unit: np.ndarray  # [E, N_UNIT, U] float32
    mark: np.ndarray  # [E, N_MARK, U] int32
    rng: np.ndarray  # [E] uint64
    clock: np.ndarray  # [E] int32, env steps done
    outcome: np.ndarray  # [E] int32
    last_action: np.ndarray  # [E, A] int32, -1 = none yet


class Frame(NamedTuple):
    """What the battles show after a step, and scratch space so that a step allocates nothing."""

    obs: np.ndarray  # [E, A, O] float32
    avail: np.ndarray  # [E, A, n_actions] uint8
    state: np.ndarray  # [E, S] float32
    reward: np.ndarray  # [E] float64
    lines: np.ndarray  # [E, rows, 4] float32, velocity constraints
    spare: np.ndarray  # [E, rows, 5] float32
    queue: np.ndarray  # [E, rows] int32


def build_scene(map_data: MapData, options: Options) -> Scene:
    """The constants of a map with these options."""
    cells = terrain.pathable_cells(map_data.terrain)
    units = map_data.unit_types
    return Scene(
        n_agents=map_data.n_agents,
        limit=map_data.limit,
        loops=options.step_mul,
        param=_parameters(map_data),
        damage=np.array([[damage_per_hit(a, b) for b in units] for a in units], np.float32),
        type_bit=np.array(map_data.type_bits, np.int32),
        spawn=np.array(spawn_points(map_data), np.float32).T.copy(),
        goal=np.array(map_data.attack_point, np.float32),
        walls=terrain.wall_segments(cells),
        pathable=cells,
        near_walls=terrain.cells_near_walls(cells),
        height=terrain.height_of(cells),
    )


def build_view(map_data: MapData, options: Options) -> View:
    """What this map shows with these options."""
    sizes = sizes_of(map_data, options)
    return View(
        n_agents=map_data.n_agents,
        n_enemies=map_data.n_enemies,
        n_actions=sizes.n_actions,
        move_amount=np.float32(options.move_amount),
        move_size=sizes.move,
        enemy_size=sizes.enemy,
        ally_size=sizes.ally,
        type_bits=map_data.unit_type_bits,
        shield_ally=bool(map_data.shield_bits[0]),
        shield_enemy=bool(map_data.shield_bits[1]),
        all_health=options.obs_all_health,
        own_health=options.own_health,
        pathing_grid=options.obs_pathing_grid,
        terrain_height=options.obs_terrain_height,
        obs_last_action=options.obs_last_action,
        obs_timestep=options.obs_timestep_number,
        obs_as_state=options.obs_instead_of_state,
        state_last_action=options.state_last_action,
        state_timestep=options.state_timestep_number,
    )


def build_reward(map_data: MapData, options: Options) -> Reward:
    """The reward of this map with these options."""
    scale = max_reward_of(map_data, options) / options.reward_scale_rate
    return Reward(
        sparse=options.reward_sparse,
        only_positive=options.reward_only_positive,
        death_value=float(options.reward_death_value),
        win=float(options.reward_win),
        defeat=float(options.reward_defeat),
        negative_scale=float(options.reward_negative_scale),
        factor=1.0 / scale if options.reward_scale else 1.0,
    )


def _parameters(map_data: MapData) -> np.ndarray:
    units = map_data.unit_types
    widest = max(unit.separation_radius for unit in units)
    fastest = max(unit.speed for unit in units)
    table = np.zeros((N_PARAM, len(units)), np.float32)
    for i, unit in enumerate(units):
        closing = (unit.speed + fastest) / LOOPS_PER_SECOND
        table[P_RADIUS, i] = unit.radius
        table[P_DISC, i] = unit.separation_radius
        table[P_SPEED, i] = unit.speed
        table[P_RANGE, i] = unit.weapon_range
        table[P_SCAN, i] = max(unit.weapon_range, MIN_SCAN_RANGE)
        table[P_SLOP, i] = unit.range_slop
        table[P_NEIGHBOUR, i] = unit.separation_radius + widest + closing
        table[P_PERIOD, i] = unit.period * LOOPS_PER_SECOND
        table[P_DAMAGE_POINT, i] = unit.damage_point * LOOPS_PER_SECOND
        table[P_HEALTH, i] = unit.health
        table[P_SHIELD, i] = unit.shield
        table[P_ARMOUR, i] = unit.armour
        table[P_COOLDOWN_NORM, i] = unit.cooldown_norm
    return table


def spawn_points(map_data: MapData) -> list[tuple[float, float]]:
    """Start positions, agents sorted by (type, x, y) as SMAC numbers them, enemies in creation
    order."""
    allies = [
        (unit, *point)
        for group in map_data.allies
        for unit, point in _spread(map_data.allies, group, 1)
    ]
    order = list(dict.fromkeys(map_data.ally_types))
    allies.sort(key=lambda row: (order.index(row[0]), row[1], row[2]))
    enemies = [
        point for group in map_data.enemies for _, point in _spread(map_data.enemies, group, -1)
    ]
    return [(x, y) for _, x, y in allies] + enemies


def _spread(
    team: tuple[Group, ...], group: Group, sign: int
) -> list[tuple[str, tuple[float, float]]]:
    """The units of one group out of the grid of all groups of the team that share its point."""
    together = [other for other in team if (other.x, other.y) == (group.x, group.y)]
    types = [other.unit for other in together for _ in range(other.count)]
    owner = [other for other in together for _ in range(other.count)]
    points = spawn_grid([UNITS[name].radius for name in types], group.x, group.y, sign)
    return [(t, p) for t, o, p in zip(types, owner, points, strict=True) if o is group]


def spawn_grid(radii: list[float], x: float, y: float, sign: int) -> list[tuple[float, float]]:
    """A square grid of discs around (x, y), filled row by row; ``sign`` -1 mirrors it through the
    point.

    StarCraft II's own placement is unknown; this grid stands in for it.
    """
    side = math.ceil(math.sqrt(len(radii)))
    rows = [radii[k : k + side] for k in range(0, len(radii), side)]
    height = 2 * sum(max(row) for row in rows) + (side - 1) * SPAWN_GAP
    width = max(2 * sum(row) for row in rows)
    points = []
    at_y, above = y - sign * height / 2, 0.0
    for row in rows:
        at_y += sign * (above + max(row))
        at_x, before = x - sign * width / 2, 0.0
        for radius in row:
            at_x += sign * (before + radius)
            points.append((at_x, at_y))
            at_x, before = at_x + sign * SPAWN_GAP, radius
        at_y, above = at_y + sign * SPAWN_GAP, max(row)
    return points


def build_world(scene: Scene, n_envs: int) -> World:
    """Empty battles; they begin with a reset."""
    units = scene.param.shape[1]
    return World(
        unit=np.zeros((n_envs, N_UNIT, units), np.float32),
        mark=np.zeros((n_envs, N_MARK, units), np.int32),
        rng=np.ones(n_envs, np.uint64),
        clock=np.zeros(n_envs, np.int32),
        outcome=np.zeros(n_envs, np.int32),
        last_action=np.full((n_envs, scene.n_agents), -1, np.int32),
    )


def build_frame(scene: Scene, sizes: Sizes, n_envs: int) -> Frame:
    """Output arrays and scratch space."""
    rows = scene.param.shape[1] + len(scene.walls)
    return Frame(
        obs=np.zeros((n_envs, scene.n_agents, sizes.obs), np.float32),
        avail=np.zeros((n_envs, scene.n_agents, sizes.n_actions), np.uint8),
        state=np.zeros((n_envs, sizes.state), np.float32),
        reward=np.zeros(n_envs, np.float64),
        lines=np.zeros((n_envs, rows, 4), np.float32),
        spare=np.zeros((n_envs, rows, 5), np.float32),
        queue=np.zeros((n_envs, rows), np.int32),
    )
