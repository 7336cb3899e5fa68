"""Start positions under ``rules=smaclite``: SMAClite's square grids around the spawn points.

Nothing here is compiled.
"""

from __future__ import annotations

import math

from rltrain.battles.data.map_data import Group, MapData
from rltrain.battles.data.recorded import Point

SPAWN_GAP = 0.05


def lite_points(map_data: MapData) -> list[Point]:
    """Start positions in the order of ids: agents sorted by (type, x, y) and enemies by type, or
    both in creation order."""
    allies = _team(map_data, map_data.allies, 1)
    if map_data.sorts_agents:
        order = list(dict.fromkeys(map_data.ally_types))
        allies.sort(key=lambda row: (order.index(row[0]), *row[1]))
    enemies = _team(map_data, map_data.enemies, -1)
    if map_data.enemy_order:
        enemies.sort(key=lambda row: map_data.enemy_order.index(row[0]))
    return [point for _, point in allies + enemies]


def _team(map_data: MapData, team: tuple[Group, ...], sign: int) -> list[tuple[str, Point]]:
    """Types and points of a team in creation order."""
    return [row for group in team for row in _spread(map_data, team, group, sign)]


def _spread(
    map_data: MapData, team: tuple[Group, ...], group: Group, sign: int
) -> list[tuple[str, Point]]:
    """The units of one group out of the grid of all groups of the team that share its point."""
    together = [other for other in team if (other.x, other.y) == (group.x, group.y)]
    types = [other.unit for other in together for _ in range(other.count)]
    owner = [other for other in together for _ in range(other.count)]
    points = spawn_grid([map_data.units[name].radius for name in types], group.x, group.y, sign)
    return [(t, p) for t, o, p in zip(types, owner, points, strict=True) if o is group]


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
