"""The tables from which the teams of a SMACv2 scenario are drawn. Nothing here is compiled."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rltrain.battles.data.map_data import SIZE, Group, MapData
from rltrain.battles.data.scenarios import MAX_GROUPS, REFLECT, SURROUND_AT, find_race
from rltrain.battles.engine.tables import build_scene
from rltrain.battles.engine.teams import Roster
from rltrain.battles.engine.world import M, P, Scene, U
from rltrain.battles.options import Options


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
