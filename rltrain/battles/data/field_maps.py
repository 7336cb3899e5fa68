"""Maps with two spawn points in a field: SMAC's, and others of any size by name, such as
``7m_vs_8m``, ``4m``, ``2s3z_vs_3s2z``.

A name gives the units of both teams by the letters of SMAC's own names; a single team plays
against the same. The teams begin as on SMAC's maps of their kind: at the two spawn points of the
field, in the game's order of places, the enemies on their way to the agents.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rltrain.battles.data.map_data import Group, MapData

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
MOST_UNITS = 64  # of a team, as on 2c_vs_64zg
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


def map_type(allies: set[str], enemies: set[str]) -> str:
    """SMAC's name for maps with these unit types, or the types themselves."""
    both = allies | enemies
    if len(allies) == len(enemies) == 1:
        return min(allies) if allies == {"colossus"} else f"{min(allies)}s"
    if both == {"stalker", "zealot"}:
        return "stalkers_and_zealots"
    if both == {"colossus", "stalker", "zealot"}:
        return "colossi_stalkers_zealots"
    return " ".join(sorted(allies)) + " vs " + " ".join(sorted(enemies))
