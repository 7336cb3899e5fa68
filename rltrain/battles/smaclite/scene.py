"""The constants of a map under ``rules=smaclite``, in the same tables as for ``rules=sc2``, and
SMAClite's start positions: square grids around the spawn points.
"""

from __future__ import annotations

import math

from rltrain.battles.data import terrain
from rltrain.battles.data.map_data import Group, MapData
from rltrain.battles.data.spawn import Point
from rltrain.battles.engine.tables import build_scene_at
from rltrain.battles.engine.world import P, Scene, U
from rltrain.battles.options import Options
from rltrain.battles.smaclite.combat import LOOK
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
        param[0, P.SCAN, i] = unit.min_scan_range
        param[0, LOOK, i] = unit.min_scan_range + widest
        param[0, P.NEIGHBOR, i] = unit.radius + widest
        param[0, P.DISC, i] = unit.separation_radius
    walls = wall_edges(terrain.pathable_cells(map_data.terrain))
    first_unit = scene.first_unit.copy()
    first_unit[0, U.COOLDOWN] = 0
    return scene._replace(param=param, walls=walls, first_unit=first_unit, smaclite=True)


SPAWN_GAP = 0.05


def lite_points(map_data: MapData) -> list[Point]:
    """Start positions in the order of ids: agents sorted by (type, x, y) and enemies by type, or
    both in creation order."""
    allies, enemies = (  # types and points in creation order
        [row for group in team for row in _spread(map_data, team, group, sign)]
        for team, sign in ((map_data.allies, 1), (map_data.enemies, -1))
    )
    if map_data.sorts_agents:
        order = list(dict.fromkeys(map_data.ally_types))
        allies.sort(key=lambda row: (order.index(row[0]), *row[1]))
    if map_data.enemy_order:
        enemies.sort(key=lambda row: map_data.enemy_order.index(row[0]))
    return [point for _, point in allies + enemies]


def _spread(
    map_data: MapData, team: tuple[Group, ...], group: Group, sign: int
) -> list[tuple[str, Point]]:
    """The units of one group out of the grid of all groups of the team that share its point."""
    together = [other for other in team if (other.x, other.y) == (group.x, group.y)]
    owners = [other for other in together for _ in range(other.count)]
    radii = [map_data.units[owner.unit].radius for owner in owners]
    points = spawn_grid(radii, group.x, group.y, sign)
    return [(group.unit, p) for o, p in zip(owners, points, strict=True) if o is group]


def spawn_grid(radii: list[float], x: float, y: float, sign: int) -> list[Point]:
    """A square grid of discs around (x, y), filled row by row; ``sign`` -1 mirrors it through the
    point."""
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
