"""The tables of the engine: the constants of a map (``Scene``), the state of battles (``World``)
and their outputs (``Frame``). ``tables.py`` makes them from the data.

Tables are [rows, units]: one row per quantity, one column per unit, agents first, then enemies. A
new quantity is one more member of the enums below.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from rltrain.battles.options import Sizes


class U(IntEnum):
    """Rows of ``World.unit`` (float32). Lengths in cells, velocities in cells per second."""

    X = 0  # position
    Y = 1
    VX = 2  # velocity
    VY = 3
    UX = 4  # desired velocity
    UY = 5
    NX = 6  # velocity of the next loop
    NY = 7
    GOAL_X = 8  # end of a move
    GOAL_Y = 9
    LEASH_X = 10  # where a pursuit began
    LEASH_Y = 11
    HEALTH = 12
    SHIELD = 13
    COOLDOWN = 14  # loops
    WINDUP = 15  # loops
    BEFORE = 16  # health + shield when the env step began
    ENERGY = 17
    SHIELD_WAIT = 18  # loops until shields recover
    PENDING = 19  # loops until the missile or the second hit lands
    FACING = 20  # direction of a turret, radians from the x axis


class M(IntEnum):
    """Rows of ``World.mark`` (int32)."""

    ORDER = 0
    TARGET = 1
    ATTACKER = 2  # the last one
    PURSUES = 3  # 1: follows its last attacker, beyond scan range
    ARRIVED = 4  # 1: at the end of its attack-move
    PHASE = 5  # offset of the loops on which it scans
    HELP_AT = 6  # the loop from which it may call for help again
    STANDS = 7  # 1: within reach of its target or winding up
    PENDING_ON = 8  # target of the missile or the second hit
    BURST = 9  # 1: has exploded
    SIDE = 10  # to which it turns when allies are in its way: 1 left, -1 right, 0 none are
    PLACE = 11  # the side of its target to which it moves instead of straight at it
    PASSES = 12  # to which side it turned in the last loop to pass others: 1 left, -1 right


class P(IntEnum):
    """Rows of ``Scene.param`` (float32), constant per unit. Distances are between centers unless
    stated otherwise."""

    RADIUS = 0  # of ranges
    DISC = 1  # radius of collisions
    SPEED = 2
    RANGE = 3  # of the weapon, between edges
    SCAN = 4  # edge distance at which targets are looked for
    SLOP = 5  # by which a target may leave the range during a windup
    NEIGHBOR = 6  # distance at which other units are avoided
    PERIOD = 7  # loops
    DAMAGE_POINT = 8  # loops
    HEALTH = 9
    SHIELD = 10
    ARMOR = 11
    COOLDOWN_NORM = 12  # divisor of the cooldown in SMAC's state
    LAYER = 13
    WEAPON = 14
    DELAY = 15  # loops to the second hit, or loops that a missile needs per cell
    KEEP = 16  # edge distance up to which a nearer unit does not replace a target
    REGENERATION = 17  # health per loop
    ENERGY = 18
    ACCELERATION = 19
    X_FROM = 20  # limits of the center, for units that no walls stop
    X_TO = 21
    Y_FROM = 22
    Y_TO = 23
    SIGHT = 24  # distance at which an agent sees other units
    SHOOT = 25  # distance at which its attacks are available
    TOUCH = 26  # beyond this distance no disc touches that of the unit
    SEEK = 27  # beyond this distance no unit is in scan range
    TURN = 28  # radians that a turret turns per loop
    SCAN_EVERY = 29  # loops between two scans for targets


class Order(IntEnum):
    """Values of ``M.ORDER``. Agents get the first four, enemies the others."""

    IDLE = 0
    MOVE = 1
    ATTACK = 2
    HEAL = 3
    ATTACK_MOVE = 4
    HEAL_MOVE = 5
    HUNT = 6  # attack the nearest agent at all times
    CHASE = 7  # attack the agent that was nearest when the env step began, until it is dead


class Effect(IntEnum):
    """Values of ``Scene.affects``: what one unit can do to another."""

    NOTHING = 0
    HIT = 1
    MEND = 2


class Weapon(IntEnum):
    """Values of ``P.WEAPON``, in the order of ``units.WEAPONS``."""

    INSTANT = 0
    MISSILE = 1
    TWICE = 2
    BEAM = 3
    BLAST = 4


class Outcome(IntEnum):
    """Values of ``World.outcome``."""

    RUNNING = 0
    WIN = 1
    DEFEAT = 2
    DRAW = 3
    TIMEOUT = 4


GROUND = 0  # value of P.LAYER, an index of units.LAYERS
NO_ONE = -1

START_ENERGY = 50.0
SIGHT_RANGE, SHOOT_RANGE = 9.0, 6.0  # of every unit type, unless they have ranges of their own
NO_HOPS = np.zeros((0, 0), np.int16)  # all units walk straight
MARGIN = 0.01  # cells by which TOUCH and SEEK are safe from rounding
FIRST_FACING = -math.pi / 2  # units are created facing down the map


class View(NamedTuple):
    """Contents of observations and states, and the lengths of their blocks; options by their names
    in ``Options``. Only scalars, so that inner loops can take it by value."""

    n_agents: int
    n_enemies: int
    n_actions: int
    first_attack: int  # action
    move_amount: np.float32
    max_distance: np.float32  # by which positions in states are divided
    ready_in: np.float32  # loops that states add to cooldowns; StarCraft II counts the last one
    move_size: int
    enemy_size: int
    ally_size: int
    type_bits: int
    shield_ally: bool
    shield_enemy: bool
    obs_all_health: bool
    own_health: bool
    obs_pathing_grid: bool
    obs_terrain_height: bool
    obs_last_action: bool
    obs_timestep_number: bool
    obs_instead_of_state: bool
    state_last_action: bool
    state_timestep_number: bool
    obs_own_pos: bool
    limited: bool  # SMACv2: not only distance decides what is visible, see field_of_view.py
    conic_fov: bool
    cone_cosine: np.float32  # of half the angle of the cone
    prob_obs_enemy: np.float32
    action_mask: bool
    fully_observable: bool
    zero_enemy_block: bool


class Reward(NamedTuple):
    """SMAC's reward options, by their names; ``factor`` is the final scaling."""

    reward_sparse: bool
    reward_only_positive: bool
    clamps: bool  # gains below zero count nothing, instead of their absolute value
    reward_death_value: float
    reward_win: float
    reward_defeat: float
    reward_negative_scale: float
    factor: float


class Scene(NamedTuple):
    """Constants of one map with its options. The tables of units stand once for all battles
    (``per_battle`` 0) or, where teams are drawn, once for each (1): battle e reads e * per_battle.

    Not nested with ``View`` and ``Reward``: Numba's threads take flat tuples only.
    """

    n_agents: int
    limit: int  # env steps
    loops: int  # per env step
    smaclite: bool  # the rules are SMAClite's
    heals: bool  # there are healers
    special: bool  # there are shields, regeneration, healers, or weapons beyond an instant hit
    bursts: bool  # there are units that explode
    chases: bool  # enemies without a target get one when an env step begins
    any_place: bool  # on an attack-move, blocked melee units go to a free place beside any enemy
    per_battle: int
    param: np.ndarray  # [1 or E, len(P), units] float32
    damage: np.ndarray  # [1 or E, units, units] float32, one hit of row on column, before armor
    affects: np.ndarray  # [1 or E, units, units] uint8, the Effect of row on column
    type_bit: np.ndarray  # [1 or E, units] int32, -1 = none
    first_unit: np.ndarray  # [1 or E, len(U), units] float32, how a battle begins
    first_mark: np.ndarray  # [1 or E, len(M), units] int32
    starts: np.ndarray  # [K, 4, units] float32: x, y, goal x, goal y; K = 0: those of first_unit
    span_x: np.float32  # goals are drawn from the segment first goal + span
    span_y: np.float32
    jitter: np.float32  # largest random displacement of start positions along each axis, cells
    hops: np.ndarray  # [1024, 1024] int16, see terrain.next_cells; [0, 0] = every way is straight
    walls: np.ndarray  # [W, 4] float32
    pathable: np.ndarray  # [32, 32] uint8
    near_walls: np.ndarray  # [32, 32] int64, sets of walls, see terrain.walls_near
    height: np.ndarray  # [32, 32] float32


class World(NamedTuple):
    """The state of E battles; all of it is saved in checkpoints."""

    unit: np.ndarray  # [E, len(U), units] float32
    mark: np.ndarray  # [E, len(M), units] int32
    rng: np.ndarray  # [E] uint64
    clock: np.ndarray  # [E] int32, env steps done
    outcome: np.ndarray  # [E] int32
    last_action: np.ndarray  # [E, A] int32, -1 = none yet
    kind: np.ndarray  # [E, units] int32, unit types of drawn teams by their index in the race
    factor: np.ndarray  # [E] float64, of rewards, on top of Reward.factor; 0 = not known yet
    enemies: np.ndarray  # [E, enemies] int32, the unit of each number that agents know enemies by
    facing: np.ndarray  # [E, A, 2] float32, unit vector of the middle of an agent's cone
    watcher: np.ndarray  # [E, enemies] int32, the agent that saw an enemy first
    watches: np.ndarray  # [E, A, enemies] uint8, 1 = may see it
    blank: np.ndarray  # [E, A] int32, how many enemies zero_enemy_block hides from an agent
    commanded: np.ndarray  # [E] uint8, 1 = enemies wait for orders as agents do


class Frame(NamedTuple):
    """The outputs of a step, and scratch arrays, so that a step allocates nothing."""

    obs: np.ndarray  # [E, A, O] float32
    avail: np.ndarray  # [E, A, n_actions] uint8
    state: np.ndarray  # [E, S] float32
    reward: np.ndarray  # [E] float64
    visible: np.ndarray  # [E, A, units] uint8, see write_visibility; unused unless View.limited
    lines: np.ndarray  # [E, rows, 4] float32, velocity constraints
    spare: np.ndarray  # [E, rows, 5] float32
    queue: np.ndarray  # [E, rows] int32


def build_world(scene: Scene, n_envs: int) -> World:
    """Empty battles; they begin with a reset."""
    units, agents = scene.first_unit.shape[2], scene.n_agents
    return World(
        unit=np.zeros((n_envs, len(U), units), np.float32),
        mark=np.zeros((n_envs, len(M), units), np.int32),
        rng=np.ones(n_envs, np.uint64),
        clock=np.zeros(n_envs, np.int32),
        outcome=np.zeros(n_envs, np.int32),
        last_action=np.full((n_envs, agents), -1, np.int32),
        kind=np.zeros((n_envs, units), np.int32),
        factor=np.full(n_envs, float(not scene.per_battle)),
        enemies=np.tile(np.arange(agents, units, dtype=np.int32), (n_envs, 1)),
        facing=np.zeros((n_envs, agents, 2), np.float32),
        watcher=np.full((n_envs, units - agents), NO_ONE, np.int32),
        watches=np.zeros((n_envs, agents, units - agents), np.uint8),
        blank=np.zeros((n_envs, agents), np.int32),
        commanded=np.zeros(n_envs, np.uint8),
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
