"""Maps and unit types of ``rules=smaclite``: SMAC's rows with the units, terrains and unit order of
the SMAClite simulator.

SMAClite has 12 scenarios; SMAC's other maps for which it has units and terrains are built the
same way. A terrain of SMAClite is one more row of ``terrain.PATHABLE``, named as SMAC's with
``lite_`` before it.

Unit types have multiplayer numbers in seconds of StarCraft II's faster clock, 16 ticks each: units
walk and shoot 1.4 times more per env step than under ``rules=sc2``. "twice" and "beam" hit twice at
once; enemies look for targets as far as ``min_scan_range``, to the edge of the target. There are no
hydralisks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rltrain.battles.data.map_data import Group, MapData
from rltrain.battles.data.maps import MAPS, find_map
from rltrain.battles.data.scenarios import find_scenario, is_scenario
from rltrain.battles.data.units import UNITS, UnitType

RULES = ("sc2", "smaclite")

_ATTACK_POINTS: Mapping[str, tuple[float, float]] = {
    "2c_vs_64zg": (16, 16),
    "corridor": (4.47, 4.33),
}
_HEALERS_FIRST = ("medivac", "marine", "marauder")


def _unit(name: str, *, size: float, **numbers: object) -> UnitType:
    """A row of ``LITE_UNITS``, whose disc is the same for ranges and collisions; id, sight and
    SMAC's divisor are those of the unit in SMAC."""
    same = UNITS[name]
    return UnitType(
        sc2_id=same.sc2_id,
        sight=same.sight,
        cooldown_norm=same.cooldown_norm,
        radius=size / 2,
        separation_radius=size / 2,
        **numbers,  # type: ignore[arg-type]  # of several types, as in the table below
    )


LITE_UNITS: Mapping[str, UnitType] = {
    "marine": _unit(
        "marine", health=45, speed=3.15, weapon_range=5, damage=6, period=0.61, hits_air=True,
        attributes=("light", "biological"), size=0.75,
    ),
    "marauder": _unit(
        "marauder", health=125, armor=1, speed=3.15, weapon_range=6, damage=10,
        bonus={"armored": 10}, period=1.07, attributes=("armored", "biological"), size=1.125,
    ),
    "medivac": _unit(
        "medivac", health=150, armor=1, speed=3.5, weapon_range=4, weapon="none", energy=200,
        attributes=("armored", "mechanical"), size=1.5, layer="air",
    ),
    "stalker": _unit(
        "stalker", health=80, shield=80, armor=1, speed=4.13, weapon_range=6, damage=13,
        bonus={"armored": 5}, period=1.34, hits_air=True, attributes=("armored", "mechanical"),
        size=1.25,
    ),
    "zealot": _unit(
        "zealot", health=100, shield=50, armor=1, speed=3.15, weapon_range=0.1, damage=8,
        weapon="twice", period=0.86, attributes=("light", "biological"), size=1.0,
    ),
    "colossus": _unit(
        "colossus", health=200, shield=150, armor=1, speed=3.15, weapon_range=7, damage=10,
        bonus={"light": 5}, weapon="beam", period=1.07,
        attributes=("armored", "mechanical", "massive"), size=2.0,
    ),
    "zergling": _unit(
        "zergling", health=35, speed=4.13, weapon_range=0.1, damage=5, period=0.497,
        attributes=("light", "biological"), size=0.75, health_regeneration=0.38,
    ),
    "baneling": _unit(
        "baneling", health=30, speed=3.15, weapon_range=0.25, damage=80, weapon="blast", period=1,
        attributes=("biological",), size=0.75, health_regeneration=0.38,
    ),
    "spine_crawler": _unit(
        "spine_crawler", health=300, armor=2, speed=0, weapon_range=7, damage=25,
        bonus={"armored": 5}, period=1.32, attributes=("armored", "biological", "structure"),
        size=1.0, health_regeneration=0.38, min_scan_range=10,
    ),
}  # fmt: skip


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
