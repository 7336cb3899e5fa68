"""The maps of ``rules=smaclite``: SMAC's rows with SMAClite's units, terrains and unit order.

SMAClite has 12 scenarios; SMAC's other maps for which it has units and terrains are built the
same way. A terrain of SMAClite is one more row of ``terrain.PATHABLE``, named as SMAC's with
``lite_`` before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rltrain.battles.data.map_data import Group, MapData
from rltrain.battles.data.maps import MAPS, find_map
from rltrain.battles.data.scenarios import find_scenario, is_scenario
from rltrain.battles.smaclite.units import LITE_UNITS

RULES = ("sc2", "smaclite")

_ATTACK_POINTS: Mapping[str, tuple[float, float]] = {
    "2c_vs_64zg": (16, 16),
    "corridor": (4.47, 4.33),
}
_HEALERS_FIRST = ("medivac", "marine", "marauder")


def find_map_under(rules: str, name: str) -> MapData:
    """The map's row under ``rules``. ValueError for an unknown map, or one SMAClite's data do not
    have.
    """
    row = find_map(name)
    if rules != "smaclite":
        return row
    if not _is_possible(row):
        names = ", ".join(other.name for other in MAPS.values() if _is_possible(other))
        lacks = [*sorted(_types(row) - LITE_UNITS.keys()), "terrain for it"]
        raise ValueError(
            f"map {row.name!r} cannot be played with rules=smaclite: SMAClite has no "
            f"{lacks[0]}. Maps with these rules: {names}. Choose one of them, or rules=sc2."
        )
    return replace(
        row,
        units=LITE_UNITS,
        agent_units=LITE_UNITS,
        terrain=f"lite_{row.terrain}",
        attack_point=_ATTACK_POINTS.get(row.name, row.attack_point),
        allies=_as_created(row.allies),
        enemies=_as_created(row.enemies),
        hunts=False,
        enemy_order=tuple(dict.fromkeys(row.enemy_types)),
        knows_walls=False,
    )


def find_battle(rules: str, name: str) -> MapData:
    """``find_map_under``, or a scenario of SMACv2, which only ``rules=sc2`` has."""
    if not is_scenario(name):
        return find_map_under(rules, name)
    if rules != "sc2":
        raise ValueError(
            f"the scenario {name!r} cannot be played with rules={rules}: it has no drawn teams. "
            "Choose rules=sc2, or one of the maps of SMAC."
        )
    return find_scenario(name)


def _is_possible(row: MapData) -> bool:
    from rltrain.battles.data.terrain import PATHABLE  # imports NumPy

    return f"lite_{row.terrain}" in PATHABLE and _types(row) <= LITE_UNITS.keys()


def _types(row: MapData) -> set[str]:
    return {*row.ally_types, *row.enemy_types}


def _as_created(team: tuple[Group, ...]) -> tuple[Group, ...]:
    """SMAClite lists a team with healers in its own order; places in the spawn grid follow it."""
    if not any(group.unit == "medivac" for group in team):
        return team
    return tuple(sorted(team, key=lambda group: _HEALERS_FIRST.index(group.unit)))
