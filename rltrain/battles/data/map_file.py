"""Custom maps as YAML: teams, places, terrain, time limit and what the enemies do.

The files in ``map_files/`` next to this one are maps that can be named as SMAC's; each explains the
keys that it uses. Nothing that a file holds is executed, and what it may hold is bounded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from rltrain.battles.data.map_data import MOST_UNITS, SIZE, Group, MapData, map_type
from rltrain.battles.data.spawn import (
    OVERLAP,
    Fault,
    Ground,
    is_point,
    measured_points,
    read_plain,
    start_points,
)
from rltrain.battles.data.terrain import MAX_WALLS, PATHABLE, pathable_cells, wall_segments
from rltrain.battles.data.units import UNITS
from rltrain.battles.option_checks import did_you_mean

SHIPPED = Path(__file__).with_name("map_files")
MOST_BYTES, MOST_STEPS = 65536, 10_000
DEEPEST, LONGEST = 10, 1_000
"""Lists and mappings within each other, and characters of a value without quotes."""
KEYS = {"name", "limit", "allies", "enemies", "terrain", "order"}
GROUP_KEYS = {"unit", "count", "at", "places"}
NEEDED = ("name", "limit", "allies", "enemies")
ORDERS = ("attack", "wait", "hunt", "chase")
"""Orders of the enemies: attack-move to where the agents begin; stay where they are until agents
come near; attack the nearest agent at all times; attack one agent until it is dead, then the
nearest."""
TERRAINS = tuple(name for name in PATHABLE if not name.startswith("lite_"))


@cache
def shipped_names() -> tuple[str, ...]:
    """The maps in ``map_files/``."""
    return tuple(sorted(path.stem for path in SHIPPED.glob("*.yaml")))


@cache
def shipped_map(name: str) -> MapData:
    """One of ``shipped_names``."""
    return read_map(str(SHIPPED / f"{name}.yaml"))


def read_map(path: str) -> MapData:
    """The map of a file. Raises ValueError, one sentence about the first fault."""
    try:
        return _build_map(_loaded(path))
    except Fault as fault:
        raise ValueError(f"map_file: the file {path} {fault}.") from None


def _loaded(path: str) -> Any:
    import yaml  # battles by name need no library for it

    try:
        text = read_plain(path, MOST_BYTES)
        _require_plain(text)
        nodes = [yaml.compose(text, Loader=yaml.SafeLoader)]
        for node in nodes:
            if isinstance(node, yaml.MappingNode):
                keys = [key.value for key, _ in node.value]
                if twice := sorted(key for key in KEYS | GROUP_KEYS if keys.count(key) > 1):
                    raise Fault(f"has {twice[0]} twice")
                nodes += [value for _, value in node.value]
            elif isinstance(node, yaml.SequenceNode):
                nodes += node.value
        return yaml.safe_load(text)
    except OSError as error:
        raise Fault(f"cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        if isinstance(error, Fault):
            raise
        mark = getattr(error, "problem_mark", None)
        where = f", see line {mark.line + 1}" if mark else ""
        reason = " ".join(str(getattr(error, "problem", error)).split())
        raise Fault(f"is not YAML{where}: {reason:.200}") from None


def _require_plain(text: bytes) -> None:
    """Refuse references, types that values name, and what takes long to read or to print."""
    import yaml

    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise Fault("has references (*name): write everything out")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        problem = f"nested more than {DEEPEST} deep" if depth > DEEPEST else ""
        if getattr(event, "tag", None) is not None:
            problem = "values do not name their types (!!name)"
        if isinstance(event, yaml.ScalarEvent) and not event.style and len(event.value) > LONGEST:
            problem = f"more than {LONGEST:,} characters without quotes"
        if problem:
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)


def _build_map(found: object) -> MapData:
    keys = _mapping("a map", found, KEYS, NEEDED)
    name, limit, order = keys["name"], keys["limit"], keys.get("order", "attack")
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][\w-]{0,39}", name):
        raise Fault(f"has name: {name!a:.80}, expected a word that begins with a letter")
    if name in measured_points():
        raise Fault(f"has the name of a map of SMAC, {name}: choose another one")
    if order not in ORDERS:
        raise Fault(f"has order: {order!a:.80}, expected one of {', '.join(ORDERS)}")
    terrain = _terrain(keys.get("terrain", "open"))
    allies, enemies = (_team(team, keys[team]) for team in ("allies", "enemies"))
    _require_places(Ground(terrain), (*allies, *enemies))
    types = {group.unit for group in allies}, {group.unit for group in enemies}
    for team, units in zip(("allies", "enemies"), types, strict=True):
        if units == {"medivac"}:
            raise Fault(f"has {team} that cannot fight: expected more than medivacs")
    goal = np.mean([(group.x, group.y) for group in allies for _ in range(group.count)], axis=0)
    made = MapData(
        name=name,
        limit=_whole("limit", limit, MOST_STEPS),
        map_type=map_type(*types),
        terrain=terrain,
        attack_point=(float(goal[0]), float(goal[1])) if order == "attack" else None,
        allies=allies,
        enemies=enemies,
        hunts=order == "hunt",
        chases=order == "chase",
    )
    try:
        start_points(made)
    except ValueError as error:
        raise Fault(f"has {error}") from None
    return made


def _terrain(found: object) -> str:
    """A name, or a picture as ``terrain.pathable_cells`` reads it."""
    if found in TERRAINS:
        return str(found)
    lines = found.strip("\n").split("\n") if isinstance(found, str) else []
    if len(lines) < 2:
        names = ", ".join(TERRAINS)
        raise Fault(f'has terrain: {found!a:.80}, expected lines of "." and "#", or one of {names}')
    if len(lines) > SIZE or max(map(len, lines)) > SIZE:
        raise Fault(
            f"has a terrain of {max(map(len, lines))} × {len(lines)}: at most {SIZE} × {SIZE}"
        )
    if others := sorted(set("".join(lines)) - {".", "#"}):
        raise Fault(f'has {others[0]!r} in its terrain: "." is ground, "#" a wall')
    picture = "\n".join(lines) + "\n"
    walls = len(wall_segments(pathable_cells(picture)))
    if not 0 < walls <= MAX_WALLS:
        raise Fault(f"has a terrain with {walls} straight walls: expected 1 to {MAX_WALLS}")
    return picture


def _team(team: str, found: object) -> tuple[Group, ...]:
    """Groups of units around one point, and units at places of their own."""
    if not isinstance(found, list) or not found:
        raise Fault(f"has no units in {team}: expected - {{unit: marine, count: 5, at: [9, 16]}}")
    groups: list[Group] = []
    for each in found:
        keys = _mapping(f"a group of {team}", each, GROUP_KEYS, ("unit",))
        unit = keys["unit"]
        if not isinstance(unit, str) or unit not in UNITS:
            near = did_you_mean(str(unit), UNITS) or f" Known are {', '.join(UNITS)}"
            raise Fault(f"has the unknown unit {unit!a:.80} in {team}.{near.removesuffix('?')}")
        if set(keys) == {"unit", "count", "at"}:
            groups.append(
                Group(unit, _whole("count", keys["count"], MOST_UNITS), *_point(keys["at"]))
            )
        elif set(keys) == {"unit", "places"} and isinstance(keys["places"], list):
            groups += [Group(unit, 1, *_point(place)) for place in keys["places"]]
        else:
            raise Fault(f"has {unit}s in {team} without count and at, or places instead of both")
    if not 0 < sum(group.count for group in groups) <= MOST_UNITS:
        total = sum(group.count for group in groups)
        raise Fault(f"has {total} units in {team}: expected 1 to {MOST_UNITS}")
    return tuple(groups)


def _require_places(ground: Ground, groups: tuple[Group, ...]) -> None:
    for group in groups:
        if not ground.fits(UNITS[group.unit], group.x, group.y):
            raise Fault(
                f"has a {group.unit} at [{group.x:g}, {group.y:g}], in a wall or next to one, "
                "or at the edge of the map"
            )
    for one, other in combinations(groups, 2):
        units = UNITS[one.unit], UNITS[other.unit]
        room = sum(unit.separation_radius for unit in units) - OVERLAP
        near = math.dist((one.x, one.y), (other.x, other.y)) < room
        if near and units[0].layer == units[1].layer:
            raise Fault(
                f"has a {one.unit} and a {other.unit} on one place, [{one.x:g}, {one.y:g}] and "
                f"[{other.x:g}, {other.y:g}]"
            )


def _point(found: Any) -> tuple[float, float]:
    if is_point(found):
        return float(found[0]), float(found[1])
    raise Fault(f"has the place {found!a:.80}: expected [x, y], two numbers from 0 to {SIZE}")


def _whole(key: str, found: object, most: int) -> int:
    if type(found) is not int or not 0 < found <= most:
        raise Fault(f"has {key}: {found!a:.80}, expected a whole number from 1 to {most:,}")
    return found


def _mapping(
    what: str, found: object, keys: set[str], needed: tuple[str, ...]
) -> Mapping[str, Any]:
    if not isinstance(found, dict):
        raise Fault(f"has {what} that is not a mapping: expected keys {', '.join(sorted(keys))}")
    for key in found:
        if key not in keys:
            raise Fault(f"has {what} with the key {key!a:.80}: expected {', '.join(sorted(keys))}")
    for key in needed:
        if key not in found:
            raise Fault(f"has {what} without {key}")
    return found
