"""Unit types as data: the multiplayer numbers of StarCraft II 4.10.

Source: SC2Mapster/SC2GameData at db03e82a (4.10.0.75689), mods/liberty.sc2mod and what
libertymulti (spine crawler's period, medivac's speed) and voidmulti (stalker, colossus,
hydralisk's period and health, scan ranges) change in it. Policies that were trained in the game
play here as there with these numbers only.

A new unit type is one more row of ``UNITS``. Seconds are Normal game seconds, 16 simulation loops
each; lengths are map cells. Nothing here is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

LOOPS_PER_SECOND = 16

LAYERS = ("ground", "air", "colossus")
"""Where a unit moves; only units of one layer collide. Terrain does not stop air
units; cliffs do not stop colossi."""

WEAPONS = ("instant", "missile", "twice", "beam", "blast", "none")
"""Effects of an attack: one hit, one hit on arrival, two hits in a row, two hits on all units on a
line across the shot, or the end of the attacker and a hit on all units around it."""


@dataclass(frozen=True, kw_only=True)
class UnitType:
    """One kind of unit; ``damage`` is per hit and before armor, ``bonus`` adds to it by the
    target's attribute."""

    sc2_id: int  # id of the unmodified unit in StarCraft II
    health: float
    shield: float = 0.0
    armor: float = 0.0
    speed: float  # cells per second
    weapon_range: float = 0.0  # edge to edge
    range_slop: float = 1.0  # extra reach at the damage point
    weapon: str = "instant"  # one of WEAPONS
    damage: float = 0.0
    bonus: Mapping[str, float] = field(default_factory=dict)
    period: float = 0.0  # seconds from attack to attack
    damage_point: float = 0.0  # seconds from the start of an attack to its hit
    missile_speed: float = math.inf  # cells per second
    second_hit: float = 0.0  # seconds from the first hit to the second
    attributes: tuple[str, ...]
    radius: float  # for ranges
    separation_radius: float  # for collisions between units
    sight: float
    min_scan_range: float = 5.0  # enemies look for targets at least this far, edge to edge
    health_regeneration: float = 0.0  # per second
    turn_rate: float = math.inf  # of a turret, degrees per second; others face a target at once
    energy: float = 0.0  # at most; a unit with energy heals
    acceleration: float = math.inf  # cells per second, per second
    hits_air: bool = False
    layer: str = "ground"  # one of LAYERS
    cooldown_norm: float = 15.0  # SMAC's divisor of cooldown (loops) or healers' energy in states


UNITS: Mapping[str, UnitType] = {
    "marine": UnitType(
        sc2_id=48, health=45, speed=2.25, weapon_range=5, damage=6, period=0.8608,
        damage_point=0.05, attributes=("light", "biological"), radius=0.375,
        separation_radius=0.375, sight=9, min_scan_range=5.5, hits_air=True, cooldown_norm=15,
    ),
    "marauder": UnitType(
        sc2_id=51, health=125, armor=1, speed=2.25, weapon_range=6, damage=10,
        bonus={"armored": 10}, period=1.5, attributes=("armored", "biological"), radius=0.5625,
        separation_radius=0.5, sight=10, min_scan_range=6.5, weapon="missile", missile_speed=20,
        cooldown_norm=25,
    ),
    "medivac": UnitType(
        sc2_id=54, health=150, armor=1, speed=2.5, weapon_range=4,
        attributes=("armored", "mechanical"), radius=0.75, separation_radius=0.75, sight=11,
        weapon="none", energy=200, acceleration=2.25, layer="air", cooldown_norm=200,
    ),
    "stalker": UnitType(
        sc2_id=74, health=80, shield=80, armor=1, speed=2.9531, weapon_range=6, damage=13,
        bonus={"armored": 5}, period=1.87, damage_point=0.167,
        attributes=("armored", "mechanical"), radius=0.625, separation_radius=0.625, sight=10,
        min_scan_range=6.5, hits_air=True, weapon="missile", missile_speed=18.75, cooldown_norm=35,
    ),
    "zealot": UnitType(
        sc2_id=73, health=100, shield=50, armor=1, speed=2.25, weapon_range=0.1, damage=8,
        weapon="twice", second_hit=0.28, period=1.2, attributes=("light", "biological"), radius=0.5,
        separation_radius=0.375, sight=9, cooldown_norm=22,
    ),
    "colossus": UnitType(
        sc2_id=4, health=200, shield=150, armor=1, speed=2.25, weapon_range=7, range_slop=0,
        min_scan_range=7.5, damage=10, bonus={"light": 5}, weapon="beam", period=1.5,
        damage_point=0.0832, attributes=("armored", "mechanical", "massive"), radius=1.0,
        separation_radius=0.75, sight=10, layer="colossus", cooldown_norm=24,
    ),
    "zergling": UnitType(
        sc2_id=105, health=35, speed=2.9531, weapon_range=0.1, damage=5, period=0.696,
        damage_point=0.167, attributes=("light", "biological"), radius=0.375,
        separation_radius=0.375, sight=8, health_regeneration=0.2734, cooldown_norm=11,
    ),
    "baneling": UnitType(
        sc2_id=9, health=30, speed=2.5, weapon_range=0.25, damage=20,
        bonus={"light": 15, "structure": 60}, weapon="blast", attributes=("biological",),
        radius=0.375, separation_radius=0.375, sight=8, health_regeneration=0.2734, cooldown_norm=1,
    ),
    "hydralisk": UnitType(
        sc2_id=107, health=90, speed=2.25, weapon_range=5, damage=12, period=0.825,
        damage_point=0.208, attributes=("light", "biological"), radius=0.625, separation_radius=0.5,
        sight=9, min_scan_range=5.5, health_regeneration=0.2734, hits_air=True, weapon="missile",
        missile_speed=40, cooldown_norm=10,
    ),
    "spine_crawler": UnitType(
        sc2_id=98, health=300, armor=2, speed=0, weapon_range=7, range_slop=0, damage=25,
        bonus={"armored": 5}, weapon="missile", missile_speed=25, period=1.85, damage_point=0.3332,
        attributes=("armored", "biological", "structure"), radius=0.875, separation_radius=0.875,
        sight=11, health_regeneration=0.2734, turn_rate=360,
    ),
}  # fmt: skip

AGENT_UNITS: Mapping[str, UnitType] = {
    **UNITS,
    "medivac": replace(UNITS["medivac"], speed=2.75, acceleration=2.3125),
    "hydralisk": replace(UNITS["hydralisk"], health=80),
}
"""Agents' unit types. The maps define them as copies of the base data, which multiplayer numbers do
not reach (UnitData.xml in all map files of oxwhirl/smacv2 577ab5a2)."""


def damage_per_hit(attacker: UnitType, target: UnitType) -> float:
    """Damage of one hit before armor, bonuses against the target's attributes included."""
    return attacker.damage + sum(attacker.bonus.get(name, 0.0) for name in target.attributes)
