"""The tables of the engine: what is constant on a map (``Scene``), what a battle remembers
(``World``), what it shows (``Frame``). ``tables.py`` makes them from the data.

Tables are [rows, U]: one row per quantity, one column per unit, agents first, then enemies. The row
numbers below are the only names compiled code uses, so a new quantity is one more number.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rltrain.env.smac.options import Sizes

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

# Rows of Scene.param (float32), constant per unit. NEIGHBOR is the center distance at which others
# are avoided. DELAY: loops to the second hit, or loops a missile needs per cell. KEEP: edge
# distance up to which a target is kept. REGENERATION: health per loop. X_FROM … Y_TO: where
# the center may be if no walls keep the unit. SIGHT, SHOOT: center distances at which an agent sees
# others and at which its attacks are available. TOUCH, SEEK: center distances beyond which no
# disc can touch that of the unit, and beyond which no unit is in its scan range. TURN: radians a
# turret turns per loop.
P_RADIUS, P_DISC, P_SPEED, P_RANGE, P_SCAN, P_SLOP, P_NEIGHBOR = range(7)
P_PERIOD, P_DAMAGE_POINT, P_HEALTH, P_SHIELD, P_ARMOR, P_COOLDOWN_NORM = range(7, 13)
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
    blanks: bool  # SMACv2's bug with enemies that an agent may not see


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
    damage: np.ndarray  # [1 or E, U, U] float32, of one hit of row on column, before armor
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
    blank: np.ndarray  # [E, A] int32, how many enemies zero_enemy_block hides from an agent


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
