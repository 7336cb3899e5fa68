"""The tables of the engine: what is constant on a map (``Scene``), what a battle remembers
(``World``), what it shows (``Frame``), and how they are made from the data.

Tables are [rows, U]: one row per quantity, one column per unit, agents first, then enemies. The row
numbers below are the only names compiled code uses, so a new quantity is one more number.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rltrain.env.smac.data import terrain
from rltrain.env.smac.data.maps import MapData
from rltrain.env.smac.data.scenarios import SHOOT_RANGES
from rltrain.env.smac.data.spawn import spawn_points
from rltrain.env.smac.data.units import (
    LAYERS,
    LOOPS_PER_SECOND,
    WEAPONS,
    UnitType,
    can_heal,
    can_hit,
    damage_per_hit,
)
from rltrain.env.smac.engine.paths import next_cells
from rltrain.env.smac.options import (
    Options,
    Sizes,
    max_reward_of,
    sizes_of,
)

# Rows of World.unit (float32): position, velocity, wanted velocity, next velocity, goal of a move,
# where a pursuit began; cells and cells per second. Cooldown and windup in loops. BEFORE is health
# + shield when the env step began. SHIELD_WAIT: loops until shields recover. PENDING: loops until
# the missile or the second hit lands. FACING: where a turret points, radians from the x axis.
X, Y, VX, VY, UX, UY, NX, NY, GOAL_X, GOAL_Y, LEASH_X, LEASH_Y = range(12)
HEALTH, SHIELD, COOLDOWN, WINDUP, BEFORE, ENERGY, SHIELD_WAIT, PENDING, FACING = range(12, 21)
N_UNIT = 21

# Rows of World.mark (int32). STANDS: within reach of its target or winding up. PURSUES: after its
# last attacker, beyond scan range. HELP_AT: the loop from which a unit may call for help again.
# PENDING_ON: the target of the missile or the second hit. BURST: has exploded. SIDE: to which a
# unit turns when friends are in its way, 1 left, -1 right, 0 none are. PLACE: the side of its
# target to which it goes instead of straight at it.
ORDER, TARGET, ATTACKER, PURSUES, ARRIVED, PHASE, HELP_AT, STANDS, PENDING_ON, BURST = range(10)
SIDE, PLACE, N_MARK = 10, 11, 12

# Rows of Scene.param (float32), constant per unit. NEIGHBOUR is the centre distance at which others
# are avoided. DELAY: loops to the second hit, or loops a missile needs per cell. KEEP: edge
# distance up to which a target is kept. REGENERATION: health per loop. X_FROM … Y_TO: where
# the centre may be if no walls keep the unit. SIGHT, SHOOT: centre distances at which an agent sees
# others and at which its attacks are available. TOUCH, SEEK: center distances beyond which no
# disc can touch that of the unit, and beyond which no unit is in its scan range. TURN: radians a
# turret turns per loop.
P_RADIUS, P_DISC, P_SPEED, P_RANGE, P_SCAN, P_SLOP, P_NEIGHBOUR = range(7)
P_PERIOD, P_DAMAGE_POINT, P_HEALTH, P_SHIELD, P_ARMOUR, P_COOLDOWN_NORM = range(7, 13)
P_LAYER, P_WEAPON, P_DELAY, P_KEEP, P_REGENERATION, P_ENERGY, P_ACCELERATION = range(13, 20)
P_X_FROM, P_X_TO, P_Y_FROM, P_Y_TO, P_SIGHT, P_SHOOT = range(20, 26)
P_TOUCH, P_SEEK, P_TURN, N_PARAM = 26, 27, 28, 29

# Values of ORDER; agents get the first four, enemies the others. HUNT: the nearest agent, always.
# CHASE: the agent that was nearest when the env step began, until it is dead.
IDLE, MOVE, ATTACK, HEAL, ATTACK_MOVE, HEAL_MOVE, HUNT, CHASE = range(8)
NOTHING, HIT, MEND = range(3)  # values of Scene.affects
GROUND, AIR, COLOSSUS = range(3)  # values of P_LAYER, as in units.LAYERS
INSTANT, MISSILE, TWICE, BEAM, BLAST = range(5)  # values of P_WEAPON, as in units.WEAPONS
NO_ONE = -1
RUNNING, WIN, DEFEAT, DRAW, TIMEOUT = range(5)  # values of World.outcome

MIN_SCAN_RANGE = 5.0
START_ENERGY = 50.0
SIGHT_RANGE, SHOOT_RANGE = 9.0, 6.0  # of every unit type, unless they have ranges of their own
NO_HOPS = np.zeros((0, 0), np.int16)  # all units walk straight
KEEP_SLOP = 1.0  # a target is kept this far beyond scan range by units that can follow it
MARGIN = 0.01  # cells by which TOUCH and SEEK are safe from rounding
FIRST_FACING = -math.pi / 2  # units are created facing down the map


class View(NamedTuple):
    """What is shown, and how long its blocks are. Scalars only: inner loops may take it by
    value."""

    n_agents: int
    n_enemies: int
    n_actions: int
    first_attack: int  # action
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
    own_position: bool
    limited: bool  # SMACv2: sight or actions follow other rules than distance, see field_of_view.py
    conic: bool
    cone_cosine: np.float32  # of half the angle of the cone
    share_sight: np.float32  # probability of seeing an enemy that another agent saw first
    masked: bool  # enemies out of range are not available
    see_all: bool
    blanks: bool  # SMACv2's slip with enemies that an agent may not see


class Reward(NamedTuple):
    """SMAC's reward options; ``factor`` is the final scaling."""

    sparse: bool
    only_positive: bool
    clamps: bool  # gains below zero count nothing, instead of their absolute value
    death_value: float
    win: float
    defeat: float
    negative_scale: float
    factor: float


class Scene(NamedTuple):
    """Constants of one map with its options. The tables of units stand once for all battles
    (``per_battle`` 0) or, where teams are drawn, once for each (1): battle e reads e * per_battle.

    Not nested with ``View`` and ``Reward``: Numba's threads take flat tuples only.
    """

    n_agents: int
    limit: int  # env steps
    loops: int  # per env step
    heals: bool  # there are healers
    special: bool  # there are shields, regeneration, healers, or weapons beyond an instant hit
    bursts: bool  # there are units that explode
    chases: bool  # enemies without a target get one when an env step begins
    per_battle: int
    param: np.ndarray  # [1 or E, N_PARAM, U] float32
    damage: np.ndarray  # [1 or E, U, U] float32, of one hit of row on column, before armour
    affects: np.ndarray  # [1 or E, U, U] uint8, what row may do to column: NOTHING, HIT, MEND
    type_bit: np.ndarray  # [1 or E, U] int32, -1 = none
    first_unit: np.ndarray  # [1 or E, N_UNIT, U] float32, how a battle begins
    first_mark: np.ndarray  # [1 or E, N_MARK, U] int32
    span_x: np.float32  # goals are drawn from the segment first goal + span
    span_y: np.float32
    hops: np.ndarray  # [1024, 1024] int16, see paths.next_cells; [0, 0] = every way is straight
    walls: np.ndarray  # [W, 4] float32
    pathable: np.ndarray  # [32, 32] uint8
    near_walls: np.ndarray  # [32, 32] int64, sets of walls, see terrain.walls_near
    height: np.ndarray  # [32, 32] float32


class World(NamedTuple):
    """Everything a battle remembers, [E, …]; all of it goes into a checkpoint."""

    unit: np.ndarray  # [E, N_UNIT, U] float32
    mark: np.ndarray  # [E, N_MARK, U] int32
    rng: np.ndarray  # [E] uint64
    clock: np.ndarray  # [E] int32, env steps done
    outcome: np.ndarray  # [E] int32
    last_action: np.ndarray  # [E, A] int32, -1 = none yet
    kind: np.ndarray  # [E, U] int32, unit types of drawn teams by their index in the race
    factor: np.ndarray  # [E] float64, of rewards, on top of Reward.factor; 0 = not known yet
    facing: np.ndarray  # [E, A, 2] float32, unit vector of the middle of an agent's cone
    watcher: np.ndarray  # [E, enemies] int32, the agent that saw an enemy first
    watches: np.ndarray  # [E, A, enemies] uint8, 1 = may see it
    blank: np.ndarray  # [E, A] int32, how many enemies the slip hides from an agent


class Frame(NamedTuple):
    """What the battles show after a step, and scratch space so that a step allocates nothing."""

    obs: np.ndarray  # [E, A, O] float32
    avail: np.ndarray  # [E, A, n_actions] uint8
    state: np.ndarray  # [E, S] float32
    reward: np.ndarray  # [E] float64
    visible: (
        np.ndarray
    )  # [E, A, U] uint8, see field_of_view.write_visibility; unused unless View.limited
    lines: np.ndarray  # [E, rows, 4] float32, velocity constraints
    spare: np.ndarray  # [E, rows, 5] float32
    queue: np.ndarray  # [E, rows] int32


def build_scene(map_data: MapData, options: Options) -> Scene:
    """The constants of a map with these options."""
    cells = terrain.pathable_cells(map_data.terrain)
    walls = terrain.wall_segments(cells)
    units = map_data.unit_types
    return Scene(
        n_agents=map_data.n_agents,
        limit=map_data.limit,
        loops=options.step_mul,
        heals=map_data.heals,
        special=any(map(_is_special, units)),
        bursts=any(unit.weapon == "blast" for unit in units),
        chases=map_data.chases,
        per_battle=0,
        param=_parameters(map_data, options)[None],
        damage=np.array([[[damage_per_hit(a, b) for b in units] for a in units]], np.float32),
        affects=_effects(map_data)[None],
        type_bit=np.array([map_data.type_bits], np.int32),
        first_unit=_first_units(map_data)[None],
        first_mark=_first_marks(map_data)[None],
        span_x=np.float32(map_data.attack_span[0]),
        span_y=np.float32(map_data.attack_span[1]),
        hops=next_cells(map_data.terrain) if map_data.knows_walls else NO_HOPS,
        walls=walls,
        pathable=cells,
        near_walls=terrain.walls_near(cells, walls),
        height=terrain.height_of(map_data.terrain),
    )


def build_view(map_data: MapData, options: Options) -> View:
    """What this map shows with these options."""
    sizes = sizes_of(map_data, options)
    return View(
        n_agents=map_data.n_agents,
        n_enemies=map_data.n_enemies,
        n_actions=sizes.n_actions,
        first_attack=options.n_actions_no_attack,
        move_amount=np.float32(options.move_amount),
        move_size=sizes.move,
        enemy_size=sizes.enemy,
        ally_size=sizes.ally,
        type_bits=map_data.unit_type_bits,
        heals=map_data.heals,
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
        own_position=options.obs_own_pos,
        limited=_is_limited(options),
        conic=options.conic_fov,
        cone_cosine=np.float32(math.cos(math.pi / options.num_fov_actions)),
        share_sight=np.float32(options.prob_obs_enemy),
        masked=options.action_mask,
        see_all=options.fully_observable,
        blanks=options.zero_enemy_block,
    )


def _is_limited(options: Options) -> bool:
    everything = options.action_mask and options.prob_obs_enemy == 1
    return (
        not everything or options.conic_fov or options.fully_observable or options.zero_enemy_block
    )


def build_reward(map_data: MapData, options: Options) -> Reward:
    """The reward of this map with these options."""
    scale = max_reward_of(map_data, options) / options.reward_scale_rate
    constant = options.reward_scale and not map_data.drawn_from
    return Reward(
        sparse=options.reward_sparse,
        only_positive=options.reward_only_positive,
        clamps=bool(map_data.drawn_from),
        death_value=float(options.reward_death_value),
        win=float(options.reward_win),
        defeat=float(options.reward_defeat),
        negative_scale=float(options.reward_negative_scale),
        factor=1.0 / scale if constant else 1.0,
    )


def _parameters(map_data: MapData, options: Options) -> np.ndarray:
    units, names = map_data.unit_types, map_data.ally_types + map_data.enemy_types
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
        table[P_KEEP, i] = scan + KEEP_SLOP if unit.speed > 0 else unit.weapon_range
        table[P_REGENERATION, i] = unit.health_regeneration / LOOPS_PER_SECOND
        table[P_ENERGY, i] = unit.energy
        table[P_ACCELERATION, i] = unit.acceleration
        x_from, y_from, x_to, y_to = boxes[unit.layer]
        table[P_X_FROM, i], table[P_X_TO, i] = x_from + radius, x_to - radius
        table[P_Y_FROM, i], table[P_Y_TO, i] = y_from + radius, y_to - radius
        table[P_TURN, i] = math.radians(unit.turn_rate) / LOOPS_PER_SECOND
        table[P_SIGHT, i], table[P_SHOOT, i] = SIGHT_RANGE, SHOOT_RANGE
        table[P_TOUCH, i] = radius + widest + MARGIN
        table[P_SEEK, i] = scan + unit.radius + max(other.radius for other in units) + MARGIN
        if options.use_unit_ranges:
            shoots = SHOOT_RANGES.get(names[i], unit.weapon_range)
            table[P_SIGHT, i] = unit.sight
            table[P_SHOOT, i] = max(shoots, options.min_attack_range)
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
    """Unhurt units at their start positions. Units without a point to walk to stay at their own."""
    table = np.zeros((N_UNIT, len(map_data.unit_types)), np.float32)
    table[[X, Y]] = np.array(spawn_points(map_data), np.float32).T
    table[[GOAL_X, GOAL_Y]] = table[[X, Y]]
    if map_data.attack_point is not None:
        table[GOAL_X], table[GOAL_Y] = map_data.attack_point
    table[HEALTH] = [unit.health for unit in map_data.unit_types]
    table[SHIELD] = [unit.shield for unit in map_data.unit_types]
    table[FACING] = FIRST_FACING
    table[ENERGY] = [min(unit.energy, START_ENERGY) for unit in map_data.unit_types]
    return table


def _first_marks(map_data: MapData) -> np.ndarray:
    """No unit has a target yet; agents wait for orders, enemies have theirs."""
    table = np.zeros((N_MARK, len(map_data.unit_types)), np.int32)
    table[[TARGET, ATTACKER, PENDING_ON, PLACE]] = NO_ONE
    fights = HUNT if map_data.hunts else CHASE if map_data.chases else ATTACK_MOVE
    for i, unit in enumerate(map_data.unit_types[map_data.n_agents :], map_data.n_agents):
        table[ORDER, i] = HEAL_MOVE if unit.energy else fights
        table[ARRIVED, i] = table[ORDER, i] == CHASE  # there is nowhere else to go
    return table


def build_world(scene: Scene, n_envs: int) -> World:
    """Empty battles; they begin with a reset."""
    units, agents = scene.first_unit.shape[2], scene.n_agents
    return World(
        unit=np.zeros((n_envs, N_UNIT, units), np.float32),
        mark=np.zeros((n_envs, N_MARK, units), np.int32),
        rng=np.ones(n_envs, np.uint64),
        clock=np.zeros(n_envs, np.int32),
        outcome=np.zeros(n_envs, np.int32),
        last_action=np.full((n_envs, agents), -1, np.int32),
        kind=np.zeros((n_envs, units), np.int32),
        factor=np.full(n_envs, float(not scene.per_battle)),
        facing=np.zeros((n_envs, agents, 2), np.float32),
        watcher=np.full((n_envs, units - agents), NO_ONE, np.int32),
        watches=np.zeros((n_envs, agents, units - agents), np.uint8),
        blank=np.zeros((n_envs, agents), np.int32),
    )


def build_frame(scene: Scene, sizes: Sizes, n_envs: int) -> Frame:
    """Output arrays and scratch space."""
    units = scene.first_unit.shape[2]
    rows = units + len(scene.walls)
    return Frame(
        obs=np.zeros((n_envs, scene.n_agents, sizes.obs), np.float32),
        avail=np.zeros((n_envs, scene.n_agents, sizes.n_actions), np.uint8),
        state=np.zeros((n_envs, sizes.state), np.float32),
        reward=np.zeros(n_envs, np.float64),
        visible=np.zeros((n_envs, scene.n_agents, units), np.uint8),
        lines=np.zeros((n_envs, rows, 4), np.float32),
        spare=np.zeros((n_envs, rows, 5), np.float32),
        queue=np.zeros((n_envs, rows), np.int32),
    )
