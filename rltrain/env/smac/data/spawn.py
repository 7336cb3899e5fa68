"""Start positions: the groups of a map spread around their points.

StarCraft II's placement is unknown; this is a square grid, and units without room in it are put at
the nearest free place that no wall separates from theirs. Nothing here is compiled.
"""

from __future__ import annotations

import math

import numpy as np

from rltrain.env.smac.data.maps import Group, MapData
from rltrain.env.smac.data.terrain import SIZE, pathable_cells, wall_segments

Point = tuple[float, float]

SPAWN_GAP = 0.05
PLACES_PER_CELL = 4  # where a unit without room is put, along each axis


def spawn_points(map_data: MapData) -> list[Point]:
    """Start positions in the order of ids: agents sorted by (type, x, y) as SMAC numbers them,
    enemies in creation order, unless the map says otherwise."""
    allies = _team(map_data, map_data.allies, 1)
    if map_data.sorts_agents:
        order = list(dict.fromkeys(map_data.ally_types))
        allies.sort(key=lambda row: (order.index(row[0]), *row[1]))
    enemies = _team(map_data, map_data.enemies, -1)
    if map_data.enemy_order:
        enemies.sort(key=lambda row: map_data.enemy_order.index(row[0]))
    points = [point for _, point in allies + enemies]
    return _make_room(map_data, points) if map_data.knows_walls else points


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


def _make_room(map_data: MapData, points: list[Point]) -> list[Point]:
    """The points, those of ground units in or too near to walls moved to the nearest free place, on
    the same side of the wall where they are on one.
    """
    cells = pathable_cells(map_data.terrain)
    walls = wall_segments(cells).astype(np.float64)
    radii = [unit.separation_radius for unit in map_data.unit_types]
    ground = [unit.layer == "ground" for unit in map_data.unit_types]
    fits = [
        not g or _fits(cells, walls, *p, r) for p, r, g in zip(points, radii, ground, strict=True)
    ]
    taken = [(p, r) for p, r, ok in zip(points, radii, fits, strict=True) if ok]
    grid = np.arange(PLACES_PER_CELL * SIZE) / PLACES_PER_CELL
    places = [(float(x), float(y)) for x in grid for y in grid]
    for i, point in enumerate(points):
        if fits[i]:
            continue
        points[i] = next(
            place
            for place in sorted(places, key=lambda p: math.dist(p, point))
            if _fits(cells, walls, *place, radii[i])
            and all(math.dist(place, other) >= radii[i] + r for other, r in taken)
            and (not cells[int(point[0]), int(point[1])] or _open(cells, point, place))
        )
        taken.append((points[i], radii[i]))
    return points


def _open(cells: np.ndarray, a: Point, b: Point) -> bool:
    """Whether the straight line between two points leads over pathable cells only."""
    n = 2 + math.ceil(PLACES_PER_CELL * math.dist(a, b))
    x, y = np.linspace(a, b, n).astype(int).T
    return bool(cells[x, y].all())


def _fits(cells: np.ndarray, walls: np.ndarray, x: float, y: float, radius: float) -> bool:
    """Whether a disc lies in pathable cells."""
    if not cells[int(x), int(y)]:
        return False
    start, along = walls[:, :2], walls[:, 2:] - walls[:, :2]
    share = ((np.array([x, y]) - start) * along).sum(1) / (along * along).sum(1)
    nearest = start + share.clip(0, 1)[:, None] * along
    return bool(np.hypot(nearest[:, 0] - x, nearest[:, 1] - y).min() >= radius - 1e-6)
