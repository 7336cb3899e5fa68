"""Start positions: what is measured in the game, and its way of placing units for the rest.

A map creates all units of a team at one point, and the game puts each on the nearest free place:
the places of a square lattice by their distance from the point, at equal distances
counter-clockwise from the south, for both teams alike. docs/calibration.md has the evidence.
Nothing here is compiled.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path

import numpy as np

from rltrain.battles.data.map_data import SIZE, Group, MapData
from rltrain.battles.data.recorded import Point, Positions
from rltrain.battles.data.terrain import layer_boxes, pathable_cells, wall_segments
from rltrain.battles.data.units import UnitType

Lattice = Callable[[float], Iterator[Point]]
MEASURED = Path(__file__).with_name("start_positions.json")
OVERLAP = 1 / 16  # cells by which the radii of units of different types may overlap
CLOSER = 252 / 4096  # cells by which the four places right beside the first unit are nearer
PLACES_PER_CELL = 4  # where the goal of a unit that would end in a wall is put, along each axis
SOUTH = 1.5 * math.pi


class Ground:
    """Where units fit on a terrain."""

    def __init__(self, terrain: str) -> None:
        self.cells = pathable_cells(terrain)
        self.boxes = layer_boxes(self.cells)
        self.walls = wall_segments(self.cells).astype(np.float64)

    def fits(self, unit: UnitType, x: float, y: float) -> bool:
        """Whether the disc of a unit lies in pathable cells, or in the box of another layer."""
        x_from, y_from, x_to, y_to = self.boxes[unit.layer]
        gap = min(x - x_from, y - y_from, x_to - x, y_to - y)
        inside = bool(gap >= unit.separation_radius - 1e-6)
        if unit.layer != "ground" or not inside:
            return inside
        start, along = self.walls[:, :2], self.walls[:, 2:] - self.walls[:, :2]
        share = ((np.array([x, y]) - start) * along).sum(1) / (along * along).sum(1)
        nearest = start + share.clip(0, 1)[:, None] * along
        gap = np.hypot(nearest[:, 0] - x, nearest[:, 1] - y).min()
        return bool(gap >= unit.separation_radius - 1e-6 and self.cells[int(x), int(y)])

    def connects(self, a: Point, b: Point) -> bool:
        """Whether no wall lies on the straight line between two points."""
        n = 2 + math.ceil(PLACES_PER_CELL * math.dist(a, b))
        x, y = np.linspace(a, b, n).astype(int).T
        return bool(self.cells[x, y].all())


ground_of = lru_cache(maxsize=64)(Ground)
"""A terrain's ground; runs make many battles of few maps."""


def lattice(step: float, first: float = SOUTH, turn: int = 1) -> Iterator[Point]:
    """Offsets of the places of a square lattice, by distance.

    Args:
        first: angle of the first of several places at one distance.
        turn: 1: the others follow counter-clockwise, as in the game; -1: clockwise.
    """
    for i, j in places_in_order(int(SIZE / step), first, turn):
        length = step - CLOSER / 2 if i * j == 0 and abs(i + j) == 2 else step
        yield float(i * length), float(j * length)


@lru_cache(maxsize=32)
def places_in_order(n: int, first: float, turn: int) -> np.ndarray:
    """int [(2n + 1)², 2]: the places of a lattice of ``n`` steps to each side, in that order."""
    i, j = (axis.ravel() for axis in np.mgrid[-n : n + 1, -n : n + 1])
    angle = np.round(turn * (np.arctan2(j, i) - first), 9) % round(2 * math.pi, 9)
    return np.stack([i, j], axis=1)[np.lexsort((angle, i * i + j * j))]


def start_points(
    map_data: MapData, known: Positions | None = None, lattices: Sequence[Lattice] = (lattice,) * 2
) -> list[Point]:
    """Start positions in the order of ids: agents sorted by (type, x, y) as SMAC numbers them,
    enemies in creation order.

    Args:
        known: positions in place of the measured ones.
        lattices: offsets of places for a distance, of agents and enemies.
    """
    if known is None:
        known = measured_points().get(map_data.name, {})
    allies = _place_team(map_data, map_data.allies, lattices[0], known.get("allies", {}))
    order = list(dict.fromkeys(map_data.ally_types))
    allies.sort(key=lambda row: (order.index(row[0]), *row[1]))
    enemies = _place_team(map_data, map_data.enemies, lattices[1], known.get("enemies", {}))
    return [point for _, point in allies + enemies]


def attack_goals(map_data: MapData, points: list[Point]) -> list[Point]:
    """Where units walk to: enemies to the point of their attack order, each at the offset that it
    has from the middle of its team, as the game moves groups. Agents have no goal but their place.
    """
    agents = map_data.n_agents
    if map_data.attack_point is None:
        return points
    middle = np.mean(points[agents:], axis=0)
    ends = np.array(points[agents:]) - middle + map_data.attack_point
    ground = ground_of(map_data.terrain)
    units = map_data.unit_types[agents:]
    return points[:agents] + [
        _inside(ground, u, tuple(e)) for u, e in zip(units, ends, strict=True)
    ]


def _inside(ground: Ground, unit: UnitType, point: Point) -> Point:
    """The point, or the nearest one at which the unit fits."""
    if ground.fits(unit, *point):
        return point
    grid = np.arange(PLACES_PER_CELL * SIZE) / PLACES_PER_CELL
    places = [(float(x), float(y)) for x in grid for y in grid]
    places.sort(key=lambda place: math.dist(place, point))
    return next(place for place in places if ground.fits(unit, *place))


def _place_team(
    map_data: MapData,
    groups: tuple[Group, ...],
    places: Lattice,
    known: Mapping[str, list[Point]],
) -> list[tuple[str, Point]]:
    """Types and points of a team in creation order."""
    ground, placed = ground_of(map_data.terrain), list[tuple[str, Point]]()
    left = {name: list(points) for name, points in known.items()}
    for group in groups:
        unit = map_data.units[group.unit]
        others = [(map_data.units[name], point) for name, point in placed]
        taken = [(u.radius, point) for u, point in others if u.layer == unit.layer]
        points = left.get(group.unit, [])[: group.count]
        if points:
            del left[group.unit][: group.count]
        else:
            points = _free_places(group, unit, ground, taken, places)
        placed += [(group.unit, (x, y)) for x, y in points]
    return placed


def _free_places(
    group: Group,
    unit: UnitType,
    ground: Ground,
    taken: list[tuple[float, Point]],
    places: Lattice,
) -> list[Point]:
    """Places of the units of a group: the nearest to its point that are free of walls and of units
    in ``taken`` (radius and point), on this side of all walls."""
    points: list[Point] = []
    blocked = list(taken)
    for dx, dy in places(unit.radius):
        x, y = group.x + dx, group.y + dy
        gaps = (math.dist((x, y), point) - radius for radius, point in blocked)
        if any(gap < unit.radius - OVERLAP for gap in gaps) or not ground.fits(unit, x, y):
            continue
        if unit.layer == "ground" and not ground.connects((group.x, group.y), (x, y)):
            continue
        points.append((x, y))
        blocked.append((unit.radius, (x, y)))
        if len(points) == group.count:
            return points
    raise ValueError(f"no room for {group.count} units of type {group.unit!r} at one point")


@cache
def measured_points() -> Mapping[str, Positions]:
    """Measured positions by map."""
    return json.loads(MEASURED.read_text(encoding="utf-8"))["maps"]
