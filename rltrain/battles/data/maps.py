"""Maps by name: the 23 of SMAC as data (a new one is one more row of ``MAPS``), and others of any
size in a field with two spawn points, such as ``7m_vs_8m``, ``4m``, ``2s3z_vs_3s2z``.

Such a name gives the units of both teams by the letters of SMAC's own names; a single team plays
against the same. The teams begin as on SMAC's maps of their kind: at the two spawn points of the
field, in the game's order of places, the enemies on their way to the agents.

Sizes of observations and states follow in ``options.py``; nothing here is compiled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from rltrain.battles.data.map_data import MOST_UNITS, Group, MapData, map_type
from rltrain.battles.option_checks import closest

FIELD_ALLIES, FIELD_ENEMIES = (9.0, 16.0), (23.0, 16.0)
LETTERS: Mapping[str, str] = {
    "m": "marine",
    "s": "stalker",
    "z": "zealot",
    "c": "colossus",
    "h": "hydralisk",
    "zg": "zergling",
}
"""Unit type of every letter."""
PART = re.compile(r"(\d+)([a-z]+)")
NAME = re.compile(r"(?:\d+[a-z]+)+(?:_vs_(?:\d+[a-z]+)+)?")
LIMITS: Mapping[str, tuple[tuple[int, int], ...]] = {
    "marines": ((3, 60), (6, 70), (9, 120), (25, 150), (MOST_UNITS, 180)),
    "kiting": ((3, 150), (4, 200), (MOST_UNITS, 250)),
    "others": ((5, 120), (8, 150), (MOST_UNITS, 180)),
}
"""Env steps of an episode by the size of the larger team, as on SMAC's maps of that kind."""


def field_map(
    name: str,
    limit: int,
    map_type: str,
    allies: dict[str, int],
    enemies: dict[str, int],
    terrain: str = "field",
) -> MapData:
    """Two teams created around the two spawn points; the enemies attack-move to the allies' one."""
    return MapData(
        name=name,
        limit=limit,
        map_type=map_type,
        terrain=terrain,
        attack_point=FIELD_ALLIES,
        allies=tuple(Group(unit, n, *FIELD_ALLIES) for unit, n in allies.items()),
        enemies=tuple(Group(unit, n, *FIELD_ENEMIES) for unit, n in enemies.items()),
    )


def is_sized(name: str) -> bool:
    """Whether a name has the form of these maps; its units may still be unknown."""
    return NAME.fullmatch(name) is not None


def sized_map(name: str) -> MapData:
    """The map of a name for which ``is_sized`` is true; ValueError if it has no such units."""
    first, _, second = name.partition("_vs_")
    allies, enemies = _team(name, first), _team(name, second or first)
    kinds = set(allies), set(enemies)
    kiting = kinds == ({"stalker"}, {"zealot"})
    limits = LIMITS["kiting" if kiting else "marines" if kinds == ({"marine"},) * 2 else "others"]
    larger = max(sum(allies.values()), sum(enemies.values()))
    return field_map(
        name,
        next(limit for most, limit in limits if larger <= most),
        map_type(set(allies), set(enemies)),
        allies,
        enemies,
        terrain="open" if kiting else "field",
    )


def _team(name: str, text: str) -> dict[str, int]:
    """Unit types of a team and how many there are of each."""
    team: dict[str, int] = {}
    for count, letter in PART.findall(text):
        if letter not in LETTERS:
            known = ", ".join(f"{key} ({unit})" for key, unit in LETTERS.items())
            raise ValueError(
                f"unknown units in the map {name!r}: {count}{letter}. A number stands before one "
                f"of these letters: {known}; type for example 7m_vs_8m or 2s3z_vs_3s2z."
            )
        unit = LETTERS[letter]
        if unit in team:
            raise ValueError(f"the map {name!r} names {unit}s of one team twice: add them up.")
        team[unit] = int(count)
    if not all(team.values()) or sum(team.values()) > MOST_UNITS:
        raise ValueError(
            f"the map {name!r} has a team of {text}: expected 1 to {MOST_UNITS} units in all, and "
            "at least one of every type that is named."
        )
    return team


_ROWS = (
    *map(sized_map, ("3m", "8m", "25m", "5m_vs_6m", "8m_vs_9m", "10m_vs_11m", "27m_vs_30m")),
    field_map("MMM", 150, "MMM", {"marine": 7, "marauder": 2, "medivac": 1},
           {"marine": 7, "marauder": 2, "medivac": 1}),
    field_map("MMM2", 180, "MMM", {"marine": 7, "marauder": 2, "medivac": 1},
           {"marine": 8, "marauder": 3, "medivac": 1}),
    *map(sized_map, ("2s3z", "3s5z")),
    replace(sized_map("3s5z_vs_3s6z"), limit=170),
    *map(sized_map, ("3s_vs_3z", "3s_vs_4z", "3s_vs_5z", "1c3s5z")),
    MapData(
        name="2m_vs_1z", limit=150, map_type="marines", terrain="octagon",
        attack_point=(13, 12), attack_span=(6, 0),
        allies=(Group("marine", 1, 13, 12), Group("marine", 1, 19, 12)),
        enemies=(Group("zealot", 1, 16, 19),),
    ),
    MapData(
        name="corridor", limit=400, map_type="zealots", terrain="corridor",
        attack_point=(4.47, 4.3298),
        allies=(Group("zealot", 6, 19.0397, 19.1198),),
        enemies=(Group("zergling", 24, 27.91, 28.24),),
    ),
    MapData(
        name="6h_vs_8z", limit=150, map_type="hydralisks", terrain="arena",
        attack_point=(14.5998, 9.49),
        allies=(Group("hydralisk", 6, 14.5998, 9.49),),
        enemies=(Group("zealot", 8, 14.41, 16.7597),),
    ),
    MapData(
        name="2s_vs_1sc", limit=300, map_type="stalkers", terrain="pentagon",
        attack_point=None,
        allies=(Group("stalker", 1, 11.1208, 10.338), Group("stalker", 1, 16.976, 10.3662)),
        enemies=(Group("spine_crawler", 1, 13.92, 20.0397),),
    ),
    MapData(
        name="so_many_baneling", limit=100, map_type="zealots", terrain="lane",
        attack_point=(4.47, 4.3298),
        allies=(Group("zealot", 7, 11.469, 12.0234),),
        enemies=(Group("baneling", 32, 27.91, 28.24),),
    ),
    MapData(
        name="bane_vs_bane", limit=200, map_type="bane", terrain="octagon",
        attack_point=(16, 8),
        allies=(Group("zergling", 20, 16, 11), Group("baneling", 4, 16, 8)),
        enemies=(Group("zergling", 20, 16, 21), Group("baneling", 4, 16, 24)),
    ),
    MapData(
        name="2c_vs_64zg", limit=400, map_type="colossus", terrain="ravine",
        attack_point=None, hunts=True,
        allies=(Group("colossus", 2, 16, 16),),
        enemies=(Group("zergling", 64, 16, 9),),
    ),
)  # fmt: skip

MAPS: Mapping[str, MapData] = {row.name: row for row in _ROWS}
ALIASES: Mapping[str, str] = {"so_many_banelings": "so_many_baneling"}


def map_names() -> list[str]:
    """Names of all 23 maps."""
    return list(MAPS)


def find_map(name: str) -> MapData:
    """The map's row, one of ``map_files/``, or one of the size that the name tells
    (``sized_map``); ValueError with the nearest names if there is none."""
    name = ALIASES.get(str(name), str(name))
    if name in MAPS:
        return MAPS[name]
    from rltrain.battles.data.map_file import shipped_map, shipped_names  # NumPy and YAML

    if name in shipped_names():
        return shipped_map(name)
    if is_sized(name):
        return sized_map(name)
    if match := re.fullmatch(r"(?:10gen_)?(terran|protoss|zerg)(_\d+_vs_\d+)?", name):
        hint = "it is a scenario of SMACv2: make a StarCraftCapabilityEnv, or for rltrain "
        hint += f"type env=smacv2 env.map_name={match[1]}{match[2] or '_10_vs_10'}."
    elif near := closest(name, (*MAPS, *shipped_names())):
        hint = f"did you mean {' or '.join(near)}?"
    else:
        hint = (
            f"expected one of {', '.join((*MAPS, *shipped_names()))}, or a size such as 7m_vs_8m."
        )
    raise ValueError(f"unknown SMAC map {name!r:.80}: {hint}")
