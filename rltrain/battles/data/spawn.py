"""Start positions: what is measured in the game, its way of placing units for the rest, and files
of positions that were recorded in it (``python -m benchmarks.record_game``).

A map creates all units of a team at one point, and the game puts each on the nearest free place:
the places of a square lattice by their distance from the point, at equal distances
counter-clockwise from the south, for both teams alike. docs/calibration.md has the evidence.
Nothing here is compiled.

A recorded file is JSON, ``{"maps": {name: {"starts": [start, …], …}, …}, …}``. A start is one first
frame, ``{"allies": {unit type: [[x, y], …], …}, "enemies": …}`` in cells, as in
start_positions.json.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rltrain.battles.data.map_data import SIZE, Group, MapData
from rltrain.battles.data.terrain import layer_boxes, pathable_cells, wall_segments
from rltrain.battles.data.units import UnitType

Point = tuple[float, float]
Positions = Mapping[str, Mapping[str, list[Point]]]
"""Team (allies or enemies), unit type, points in creation order."""
Lattice = Callable[[float], Iterator[Point]]
MOST_BYTES = 1 << 24  # a larger recorded file is not read
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


class Fault(ValueError):
    """A problem with a file."""


class RecordedStarts(NamedTuple):
    """The first frames of one map, and the file for records: its name and a part of its SHA-256."""

    starts: tuple[Positions, ...]
    file: str


def read_starts(path: str, map_data: MapData) -> RecordedStarts:
    """The start positions of a map from a recorded file.

    Raises:
        ValueError: the file cannot be read, lacks the map, or does not fit its teams.
    """
    try:
        text = read_plain(path, MOST_BYTES)
        maps = dict(json.loads(text)["maps"])
    except OSError as error:
        raise refusal(path, f"cannot be read: {error.strerror}") from None
    except Fault as fault:
        raise refusal(path, str(fault)) from None
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise refusal(path, f"is not a recorded file: expected JSON with maps ({reason})") from None
    if map_data.name not in maps:
        known = ", ".join(sorted(map(str, maps))) or "no map at all"
        raise refusal(path, f"has no map {map_data.name}, only {known}")
    found = maps[map_data.name]
    starts = found.get("starts") if isinstance(found, dict) else None
    if not isinstance(starts, list) or not starts:
        raise refusal(path, f"has no start positions of {map_data.name}")
    for start in starts:
        check_start(path, start, map_data)
    name = f"{Path(path).name} {hashlib.sha256(text).hexdigest()[:12]}"
    return RecordedStarts(tuple(starts), name)


def read_plain(path: str, most: int) -> bytes:
    """The content of an untrusted file of at most so many bytes; a pipe is not waited for.

    Raises:
        Fault: it is larger, or a pipe or a device.
        OSError: it cannot be read.
    """
    handle = os.open(os.path.expanduser(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise Fault("is a pipe or a device, which is not read")
        text = file.read(most + 1)
    if len(text) > most:
        raise Fault(f"is larger than {most:,} bytes")
    return text


def check_start(path: str, start: object, map_data: MapData) -> None:
    """Raise ValueError unless ``start`` has a point on the map for every unit."""
    teams = {"allies": map_data.ally_types, "enemies": map_data.enemy_types}
    if not isinstance(start, dict) or any(not isinstance(start.get(team), dict) for team in teams):
        raise refusal(path, "has a start of " + map_data.name + " without allies and enemies")
    for team, types in teams.items():
        expected = dict(Counter(types))
        found = {
            name: len(points) if isinstance(points, list) else type(points).__name__
            for name, points in start[team].items()
        }
        if found != expected:
            raise refusal(
                path, f"does not fit {map_data.name}: {team} expected {expected}, got {found}"
            )
        for name, points in start[team].items():
            for point in points:
                if not is_point(point):
                    raise refusal(
                        path,
                        f"has a {name} of {map_data.name} at {point}: expected [x, y] with two "
                        f"numbers from 0 to {SIZE}",
                    )


def is_point(value: object) -> bool:
    """Whether this is [x, y] on the map."""
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(type(v) in (int, float) and 0 <= v < SIZE for v in value)
    )


def refusal(path: str, why: str) -> ValueError:
    """The error for a file that cannot be used."""
    return ValueError(
        f"start_positions: the file {path} {why:.600}. Record one where StarCraft II is installed "
        "(python -m benchmarks.record_game), or leave start_positions out."
    )
