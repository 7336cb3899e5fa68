"""How the tables of the engine are made from the data of a map and its options, uncompiled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rltrain.battles.data import terrain
from rltrain.battles.data.map_data import SIZE, Group, MapData
from rltrain.battles.data.scenarios import MAX_GROUPS, REFLECT, SHOOT_RANGES, SURROUND_AT, find_race
from rltrain.battles.data.spawn import (
    OVERLAP,
    Point,
    Positions,
    attack_goals,
    ground_of,
    start_points,
)
from rltrain.battles.data.terrain import next_cells
from rltrain.battles.data.units import (
    LAYERS,
    LOOPS_PER_SECOND,
    WEAPONS,
    damage_per_hit,
)
from rltrain.battles.engine.fighting.combat import IMMOBILE_SCAN_EVERY, SCAN_EVERY
from rltrain.battles.engine.teams import Roster
from rltrain.battles.engine.world import (
    FIRST_FACING,
    MARGIN,
    NO_HOPS,
    NO_ONE,
    SHOOT_RANGE,
    SIGHT_RANGE,
    START_ENERGY,
    Effect,
    M,
    Order,
    P,
    Reward,
    Scene,
    U,
    View,
)
from rltrain.battles.options import Options, compute_sizes, max_reward_against, require_scale


def build_scene(map_data: MapData, options: Options, starts: Sequence[Positions] = ()) -> Scene:
    """The constants of a map with these options; ``starts`` replace its start positions, and of
    several each battle draws one."""
    points = [start_points(map_data, known=known) for known in starts or (None,)]
    goals = [attack_goals(map_data, each) for each in points]
    scene = build_scene_at(map_data, options, points[0], goals[0])
    if len(points) == 1:
        return scene
    rows = np.concatenate([points, goals], axis=2, dtype=np.float32)
    return scene._replace(starts=np.ascontiguousarray(rows.transpose(0, 2, 1)))


def build_scene_at(
    map_data: MapData, options: Options, points: list[Point], goals: list[Point]
) -> Scene:
    """``build_scene`` with these start positions and ends of attack-moves, by id."""
    ground, units = ground_of(map_data.terrain), map_data.unit_types
    cells, walls = ground.cells.copy(), ground.walls.astype(np.float32)
    return Scene(
        n_agents=map_data.n_agents,
        limit=map_data.limit,
        loops=options.step_mul,
        smaclite=False,
        heals=map_data.heals,
        special=any(
            unit.weapon != "instant" or unit.shield > 0 or unit.health_regeneration > 0
            for unit in units
        ),
        bursts=any(unit.weapon == "blast" for unit in units),
        chases=map_data.chases,
        any_place=False,
        per_battle=0,
        param=_parameters(map_data, options)[None],
        damage=np.array([[[damage_per_hit(a, b) for b in units] for a in units]], np.float32),
        affects=_effects(map_data)[None],
        type_bit=np.array([map_data.type_bits], np.int32),
        first_unit=_first_units(map_data, points, goals)[None],
        first_mark=_first_marks(map_data)[None],
        starts=np.zeros((0, 4, len(units)), np.float32),
        span_x=np.float32(map_data.attack_span[0]),
        span_y=np.float32(map_data.attack_span[1]),
        jitter=np.float32(0),
        hops=next_cells(map_data.terrain) if map_data.knows_walls else NO_HOPS,
        walls=walls,
        pathable=cells,
        near_walls=terrain.walls_near(cells, walls),
        height=terrain.cell_heights(map_data.terrain),
    )


def build_view(map_data: MapData, options: Options, max_distance: int, ready_in: int = 1) -> View:
    """The view of this map with these options; positions in states are divided by
    ``max_distance``, and cooldowns show ``ready_in`` loops more than are left."""
    sizes, chosen = compute_sizes(map_data, options), _chosen(View, options)
    sees_partly = options.conic_fov or options.prob_obs_enemy != 1 or options.zero_enemy_block
    rounded = {name: np.float32(chosen[name]) for name in ("move_amount", "prob_obs_enemy")}
    return View(
        n_agents=map_data.n_agents,
        n_enemies=map_data.n_enemies,
        n_actions=sizes.n_actions,
        first_attack=options.n_actions_no_attack,
        max_distance=np.float32(max_distance),
        ready_in=np.float32(ready_in),
        move_size=sizes.move,
        enemy_size=sizes.enemy,
        ally_size=sizes.ally,
        type_bits=map_data.unit_type_bits,
        shield_ally=bool(map_data.shield_bits[0]),
        shield_enemy=bool(map_data.shield_bits[1]),
        limited=sees_partly or options.fully_observable or not options.action_mask,
        cone_cosine=np.float32(math.cos(math.pi / options.num_fov_actions)),
        **(chosen | rounded),
    )


def _chosen(table: type[View | Reward], options: Options) -> dict[str, Any]:
    """The options that a table has, by name."""
    return {name: getattr(options, name) for name in table._fields if hasattr(options, name)}


def build_reward(map_data: MapData, options: Options) -> Reward:
    """The reward of this map with these options."""
    require_scale(map_data, options)
    most = max_reward_against(map_data.unit_types[map_data.n_agents :], options)
    scale = most / options.reward_scale_rate
    constant = options.reward_scale and not map_data.drawn_from
    return Reward(
        clamps=bool(map_data.drawn_from),
        factor=1.0 / scale if constant else 1.0,
        **_chosen(Reward, options),
    )


def _parameters(map_data: MapData, options: Options) -> np.ndarray:
    units, names = map_data.unit_types, map_data.ally_types + map_data.enemy_types
    table = np.zeros((len(P), len(units)), np.float32)
    boxes = ground_of(map_data.terrain).boxes
    for i, unit in enumerate(units):
        same_layer = [other for other in units if other.layer == unit.layer]
        widest = max(other.separation_radius for other in same_layer)
        fastest = max(other.speed for other in same_layer)
        scan = max(unit.weapon_range, unit.min_scan_range)
        radius = unit.separation_radius
        closing = (unit.speed + fastest) / LOOPS_PER_SECOND
        table[P.RADIUS, i] = unit.radius
        table[P.DISC, i] = radius - OVERLAP / 2
        table[P.SPEED, i] = unit.speed
        table[P.RANGE, i] = unit.weapon_range
        table[P.SCAN, i] = scan
        table[P.SLOP, i] = unit.range_slop
        table[P.NEIGHBOR, i] = radius + widest + closing
        table[P.PERIOD, i] = unit.period * LOOPS_PER_SECOND
        table[P.DAMAGE_POINT, i] = unit.damage_point * LOOPS_PER_SECOND
        table[P.HEALTH, i] = unit.health
        table[P.SHIELD, i] = unit.shield
        table[P.ARMOR, i] = unit.armor
        table[P.COOLDOWN_NORM, i] = unit.cooldown_norm
        table[P.LAYER, i] = LAYERS.index(unit.layer)
        table[P.WEAPON, i] = WEAPONS.index(unit.weapon)
        table[P.DELAY, i] = (unit.second_hit or 1 / unit.missile_speed) * LOOPS_PER_SECOND
        table[P.KEEP, i] = unit.weapon_range + unit.range_slop
        table[P.SCAN_EVERY, i] = SCAN_EVERY if unit.speed > 0 else IMMOBILE_SCAN_EVERY
        table[P.REGENERATION, i] = unit.health_regeneration / LOOPS_PER_SECOND
        table[P.ENERGY, i] = unit.energy
        table[P.ACCELERATION, i] = unit.acceleration
        x_from, y_from, x_to, y_to = boxes[unit.layer]
        table[P.X_FROM, i], table[P.X_TO, i] = x_from + radius, x_to - radius
        table[P.Y_FROM, i], table[P.Y_TO, i] = y_from + radius, y_to - radius
        table[P.TURN, i] = math.radians(unit.turn_rate) / LOOPS_PER_SECOND
        table[P.SIGHT, i], table[P.SHOOT, i] = SIGHT_RANGE, SHOOT_RANGE
        table[P.TOUCH, i] = radius + widest + MARGIN
        table[P.SEEK, i] = scan + unit.radius + max(other.radius for other in units) + MARGIN
        if options.use_unit_ranges:
            shoots = SHOOT_RANGES.get(names[i], unit.weapon_range)
            table[P.SIGHT, i] = unit.sight
            table[P.SHOOT, i] = max(shoots, options.min_attack_range)
    return table


def _effects(map_data: MapData) -> np.ndarray:
    units, agents = map_data.unit_types, map_data.n_agents
    table = np.full((len(units), len(units)), Effect.NOTHING, np.uint8)
    for i, one in enumerate(units):
        for j, other in enumerate(units):
            allied = (i < agents) == (j < agents)
            hits_layer = one.hits_air or other.layer != "air"  # the colossus counts as ground
            if not allied and one.weapon != "none" and hits_layer:
                table[i, j] = Effect.HIT
            elif allied and one.energy > 0 and "biological" in other.attributes:
                table[i, j] = Effect.MEND
    return table


def _first_units(map_data: MapData, points: list[Point], goals: list[Point]) -> np.ndarray:
    """Units with full health at their start positions."""
    table = np.zeros((len(U), len(map_data.unit_types)), np.float32)
    table[[U.X, U.Y]] = np.array(points, np.float32).T
    table[[U.GOAL_X, U.GOAL_Y]] = np.array(goals, np.float32).T
    table[U.HEALTH] = [unit.health for unit in map_data.unit_types]
    table[U.SHIELD] = [unit.shield for unit in map_data.unit_types]
    table[U.FACING] = FIRST_FACING
    table[U.COOLDOWN] = -1  # over for a loop or longer
    table[U.ENERGY] = [min(unit.energy, START_ENERGY) for unit in map_data.unit_types]
    return table


def _first_marks(map_data: MapData) -> np.ndarray:
    """No unit has a target yet; agents wait for orders, enemies have theirs."""
    table = np.zeros((len(M), len(map_data.unit_types)), np.int32)
    table[[M.TARGET, M.ATTACKER, M.PENDING_ON, M.PLACE]] = NO_ONE
    fights = Order.HUNT if map_data.hunts else Order.CHASE if map_data.chases else Order.ATTACK_MOVE
    for i, unit in enumerate(map_data.unit_types[map_data.n_agents :], map_data.n_agents):
        table[M.ORDER, i] = Order.HEAL_MOVE if unit.energy else fights
        table[M.ARRIVED, i] = table[M.ORDER, i] == Order.CHASE  # there is nowhere else to go
    return table


def build_drawn(map_data: MapData, options: Options, n_envs: int) -> tuple[Roster, Scene]:
    """The distributions of a scenario's teams, and its constants with tables of units for each of E
    battles, empty until teams are drawn."""
    race = find_race(map_data)
    one_of_each = replace(
        map_data,
        allies=tuple(Group(name, 1, 8, 16) for name in map_data.drawn_from),
        enemies=tuple(Group(name, 1, 24, 16) for name in map_data.drawn_from),
    )
    scene, by_id = build_scene(one_of_each, options), sorted(race.weights)
    roster = Roster(
        n_agents=map_data.n_agents,
        cumulative=np.cumsum(list(race.weights.values())).astype(np.float32),
        exception=np.array([name == race.exception for name in race.weights], np.uint8),
        order=np.array([by_id.index(name) for name in race.weights], np.int32),
        reflects=np.float32(REFLECT),
        size=np.float32(SIZE),
        inner=np.float32(SURROUND_AT),
        max_groups=MAX_GROUPS,
        param=scene.param[0],
        damage=scene.damage[0],
        affects=scene.affects[0],
        type_bit=scene.type_bit[0],
        first_unit=scene.first_unit[0],
        first_mark=scene.first_mark[0],
        scales=options.reward_scale,
        rate=float(options.reward_scale_rate),
        bonus=float(map_data.n_enemies * options.reward_death_value + options.reward_win),
        keeps_factor=options.fixed_max_reward,
    )
    units = map_data.n_agents + map_data.n_enemies
    drawn = scene._replace(
        n_agents=map_data.n_agents,
        per_battle=1,
        param=np.zeros((n_envs, len(P), units), np.float32),
        damage=np.zeros((n_envs, units, units), np.float32),
        affects=np.zeros((n_envs, units, units), np.uint8),
        type_bit=np.full((n_envs, units), -1, np.int32),
        first_unit=np.zeros((n_envs, len(U), units), np.float32),
        first_mark=np.zeros((n_envs, len(M), units), np.int32),
    )
    return roster, drawn
