"""The constants of a map under ``rules=smaclite``, in the same tables as for ``rules=sc2``."""

from __future__ import annotations

from rltrain.battles.data import terrain
from rltrain.battles.data.map_data import MapData
from rltrain.battles.engine.tables import build_scene_at
from rltrain.battles.engine.world import P, Scene, U
from rltrain.battles.options import Options
from rltrain.battles.smaclite.combat import LOOK
from rltrain.battles.smaclite.spawn import lite_points
from rltrain.battles.smaclite.units import LiteUnit
from rltrain.battles.smaclite.walls import wall_edges


def build_lite_scene(map_data: MapData, options: Options) -> Scene:
    """The constants of a map with SMAClite's start positions, distances and solid walls.

    Units avoid each other only within the largest radius on the map; enemies walk to one point.
    """
    points = lite_points(map_data)
    end = map_data.attack_point
    goals = points if end is None else [end] * len(points)
    scene = build_scene_at(map_data, options, points, goals)
    param = scene.param.copy()
    widest = max(unit.radius for unit in map_data.unit_types)
    for i, unit in enumerate(map_data.unit_types):
        assert isinstance(unit, LiteUnit)
        param[0, P.SCAN, i] = unit.scan_range
        param[0, LOOK, i] = unit.scan_range + widest
        param[0, P.NEIGHBOR, i] = unit.radius + widest
        param[0, P.DISC, i] = unit.separation_radius
    walls = wall_edges(terrain.pathable_cells(map_data.terrain))
    first_unit = scene.first_unit.copy()
    first_unit[0, U.COOLDOWN] = 0
    return scene._replace(param=param, walls=walls, first_unit=first_unit, smaclite=True)
