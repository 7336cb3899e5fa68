"""The tables of the engine: what is constant on a map (``Scene``), what a battle remembers
(``World``), what it shows (``Frame``), and how they are made from the data.

Tables are [rows, U]: one row per quantity, one column per unit, agents first, then enemies. The row
numbers below are the only names compiled code uses, so a new quantity is one more number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rltrain.env.smac import terrain
from rltrain.env.smac.maps import MapData
from rltrain.env.smac.paths import next_cells
from rltrain.env.smac.sizes import Options, Sizes, max_reward_of, sizes_of
from rltrain.env.smac.spawn import spawn_points
from rltrain.env.smac.units import (
    LAYERS,
    LOOPS_PER_SECOND,
    WEAPONS,
    UnitType,
    can_heal,
    can_hit,
    damage_per_hit,
)

# Rows of World.unit (float32): position, velocity, wanted velocity, next velocity, goal of a move,
# where a pursuit began; cells and cells per second. Cooldown and windup in loops. BEFORE is health
# + shield when the env step began. SHIELD_WAIT: loops until shields recover. PENDING: loops until
# the missile or the second hit lands.
X, Y, VX, VY, UX, UY, NX, NY, GOAL_X, GOAL_Y, LEASH_X, LEASH_Y = range(12)
HEALTH, SHIELD, COOLDOWN, WINDUP, BEFORE, ENERGY, SHIELD_WAIT, PENDING = range(12, 20)
N_UNIT = 20

# Rows of World.mark (int32). STANDS: within reach of its target or winding up. PURSUES: after its
# last attacker, beyond scan range. HELP_AT: the loop from which a unit may call for help again.
# PENDING_ON: whom the missile or the second hit is for. BURST: has exploded. SIDE: to which a unit
# turns when friends are in its way, 1 left, -1 right, 0 none are.
ORDER, TARGET, ATTACKER, PURSUES, ARRIVED, PHASE, HELP_AT, STANDS, PENDING_ON, BURST = range(10)
SIDE, N_MARK = 10, 11

# Rows of Scene.param (float32), constant per unit. NEIGHBOUR is the centre distance at which others
# are avoided. DELAY: loops to the second hit, or loops a missile needs per cell. KEEP: edge
# distance up to which a target is kept. REGENERATION: health per loop. X_FROM … Y_TO: where
# the centre may be if no walls keep the unit.
P_RADIUS, P_DISC, P_SPEED, P_RANGE, P_SCAN, P_SLOP, P_NEIGHBOUR = range(7)
P_PERIOD, P_DAMAGE_POINT, P_HEALTH, P_SHIELD, P_ARMOUR, P_COOLDOWN_NORM = range(7, 13)
P_LAYER, P_WEAPON, P_DELAY, P_KEEP, P_REGENERATION, P_ENERGY, P_ACCELERATION = range(13, 20)
P_X_FROM, P_X_TO, P_Y_FROM, P_Y_TO = range(20, 24)
N_PARAM = 24

# Values of ORDER; agents get the first four, enemies the others. HUNT: the nearest agent, always.
IDLE, MOVE, ATTACK, HEAL, ATTACK_MOVE, HEAL_MOVE, HUNT = range(7)
NOTHING, HIT, MEND = range(3)  # values of Scene.affects
GROUND, AIR, COLOSSUS = range(3)  # values of P_LAYER, as in units.LAYERS
INSTANT, MISSILE, TWICE, BEAM, BLAST = range(5)  # values of P_WEAPON, as in units.WEAPONS
NO_ONE = -1
RUNNING, WIN, DEFEAT, DRAW, TIMEOUT = range(5)  # values of World.outcome

MIN_SCAN_RANGE = 5.0
START_ENERGY = 50.0
NO_HOPS = np.zeros((0, 0), np.int16)  # everybody walks straight
KEEP_SLOP = 1.0  # a target is kept this far beyond scan range, unless one cannot move


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
    heals: bool
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
    heals: bool  # there are healers
    special: bool  # there are shields, regeneration, healers, or weapons beyond an instant hit
    param: np.ndarray  # [N_PARAM, U] float32
    damage: np.ndarray  # [U, U] float32, of one hit of row on column, before armour
    affects: np.ndarray  # [U, U] uint8, what row may do to column: NOTHING, HIT, MEND
    type_bit: np.ndarray  # [U] int32, -1 = none
    first_unit: np.ndarray  # [N_UNIT, U] float32, how a battle begins
    first_mark: np.ndarray  # [N_MARK, U] int32
    span_x: np.float32  # goals are drawn from the segment first goal + span
    span_y: np.float32
    hops: np.ndarray  # [1024, 1024] int16, see paths.next_cells; [0, 0] = every way is straight
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
        heals=any(unit.energy > 0 for unit in units),
        special=any(map(_is_special, units)),
        param=_parameters(map_data),
        damage=np.array([[damage_per_hit(a, b) for b in units] for a in units], np.float32),
        affects=_effects(map_data),
        type_bit=np.array(map_data.type_bits, np.int32),
        first_unit=_first_units(map_data),
        first_mark=_first_marks(map_data),
        span_x=np.float32(map_data.attack_span[0]),
        span_y=np.float32(map_data.attack_span[1]),
        hops=next_cells(map_data.terrain) if map_data.knows_walls else NO_HOPS,
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
        heals=any(unit.energy > 0 for unit in map_data.unit_types),
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
    table = np.zeros((N_PARAM, len(units)), np.float32)
    boxes = terrain.layer_boxes(terrain.pathable_cells(map_data.terrain))
    for i, unit in enumerate(units):
        same_layer = [other for other in units if other.layer == unit.layer]
        widest = max(other.separation_radius for other in same_layer)
        fastest = max(other.speed for other in same_layer)
        scan, radius = max(unit.weapon_range, MIN_SCAN_RANGE), unit.separation_radius
        closing = (unit.speed + fastest) / LOOPS_PER_SECOND
        table[P_RADIUS, i] = unit.radius
        table[P_DISC, i] = radius
        table[P_SPEED, i] = unit.speed
        table[P_RANGE, i] = unit.weapon_range
        table[P_SCAN, i] = scan
        table[P_SLOP, i] = unit.range_slop
        table[P_NEIGHBOUR, i] = radius + widest + closing
        table[P_PERIOD, i] = unit.period * LOOPS_PER_SECOND
        table[P_DAMAGE_POINT, i] = unit.damage_point * LOOPS_PER_SECOND
        table[P_HEALTH, i] = unit.health
        table[P_SHIELD, i] = unit.shield
        table[P_ARMOUR, i] = unit.armour
        table[P_COOLDOWN_NORM, i] = unit.cooldown_norm
        table[P_LAYER, i] = LAYERS.index(unit.layer)
        table[P_WEAPON, i] = WEAPONS.index(unit.weapon)
        table[P_DELAY, i] = (unit.second_hit or 1 / unit.missile_speed) * LOOPS_PER_SECOND
        table[P_KEEP, i] = scan + (KEEP_SLOP if unit.speed else 0.0)
        table[P_REGENERATION, i] = unit.health_regeneration / LOOPS_PER_SECOND
        table[P_ENERGY, i] = unit.energy
        table[P_ACCELERATION, i] = unit.acceleration
        x_from, y_from, x_to, y_to = boxes[unit.layer]
        table[P_X_FROM, i], table[P_X_TO, i] = x_from + radius, x_to - radius
        table[P_Y_FROM, i], table[P_Y_TO, i] = y_from + radius, y_to - radius
    return table


def _is_special(unit: UnitType) -> bool:
    return unit.weapon != "instant" or unit.shield > 0 or unit.health_regeneration > 0


def _effects(map_data: MapData) -> np.ndarray:
    units, agents = map_data.unit_types, map_data.n_agents
    table = np.full((len(units), len(units)), NOTHING, np.uint8)
    for i, one in enumerate(units):
        for j, other in enumerate(units):
            if (i < agents) != (j < agents) and can_hit(one, other):
                table[i, j] = HIT
            elif (i < agents) == (j < agents) and can_heal(one, other):
                table[i, j] = MEND
    return table


def _first_units(map_data: MapData) -> np.ndarray:
    """Unhurt units at their start positions. Who has no point to walk to stays at his own."""
    table = np.zeros((N_UNIT, len(map_data.unit_types)), np.float32)
    table[[X, Y]] = np.array(spawn_points(map_data), np.float32).T
    table[[GOAL_X, GOAL_Y]] = table[[X, Y]]
    if map_data.attack_point is not None:
        table[GOAL_X], table[GOAL_Y] = map_data.attack_point
    table[HEALTH] = [unit.health for unit in map_data.unit_types]
    table[SHIELD] = [unit.shield for unit in map_data.unit_types]
    table[ENERGY] = [min(unit.energy, START_ENERGY) for unit in map_data.unit_types]
    return table


def _first_marks(map_data: MapData) -> np.ndarray:
    """Nobody has a target yet; agents wait for orders, enemies have theirs."""
    table = np.zeros((N_MARK, len(map_data.unit_types)), np.int32)
    table[[TARGET, ATTACKER, PENDING_ON]] = NO_ONE
    for i, unit in enumerate(map_data.unit_types[map_data.n_agents :], map_data.n_agents):
        table[ORDER, i] = HUNT if map_data.hunts else HEAL_MOVE if unit.energy else ATTACK_MOVE
    return table


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
