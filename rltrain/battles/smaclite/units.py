"""Unit types as data for ``rules=smaclite``: the numbers of the SMAClite simulator.

Multiplayer numbers in seconds of StarCraft II's faster clock, 16 ticks each: units walk and shoot
1.4 times more per env step than under ``rules=sc2``. "twice" and "beam" hit twice at once;
enemies look for targets as far as ``min_scan_range``, to the edge of the target. There are no
hydralisks.
"""

from __future__ import annotations

from collections.abc import Mapping

from rltrain.battles.data.units import UNITS, UnitType


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
