"""The 23 SMAC maps as data: teams, positions and time limits. A new map is one more row of
``MAPS``.

Sizes of observations and states follow in ``options.py``; nothing here is compiled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from rltrain.battles.data.units import UNITS, UnitType
from rltrain.battles.option_checks import closest

# Index of a unit type's bit, allies and enemies, per map type. Enemies of stalkers_and_zealots are
# reversed in SMAC.
TYPE_BITS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "stalkers_and_zealots": (("stalker", "zealot"), ("zealot", "stalker")),
    "colossi_stalkers_zealots": (("colossus", "stalker", "zealot"),) * 2,
    "MMM": (("marauder", "marine", "medivac"),) * 2,
    "bane": (("baneling", "zergling"),) * 2,
    "terran_gen": (("marine", "marauder", "medivac"),) * 2,
    "protoss_gen": (("stalker", "zealot", "colossus"),) * 2,
    "zerg_gen": (("zergling", "hydralisk", "baneling"),) * 2,
}


@dataclass(frozen=True)
class Group:
    """``count`` units of one type created together around one point."""

    unit: str
    count: int
    x: float
    y: float


@dataclass(frozen=True, kw_only=True)
class MapData:
    """One scenario; groups stand in creation order."""

    name: str
    allies: tuple[Group, ...]
    enemies: tuple[Group, ...]
    limit: int  # env steps
    races: str  # allies and enemies: T, P or Z
    map_type: str  # SMAC's name; decides the unit type bits
    terrain: str
    attack_point: tuple[float, float] | None  # end of the enemies' attack-move; null: they stay
    attack_span: tuple[float, float] = (0.0, 0.0)  # that end is drawn from the segment point + span
    hunts: bool = False  # enemies attack the nearest agent at all times instead
    chases: bool = False  # enemies attack the agent nearest to them until it is dead, then another
    drawn_from: tuple[str, ...] = ()  # unit types of teams drawn for every battle; then the
    # groups only say how many units there are
    units: Mapping[str, UnitType] = field(default_factory=lambda: UNITS, repr=False, compare=False)
    sorts_agents: bool = True  # by type and place, as SMAC; or agents keep their creation order
    enemy_order: tuple[str, ...] = ()  # types in the order of enemy ids; none: creation order
    knows_walls: bool = True  # units start clear of walls and walk around them

    @property
    def ally_types(self) -> tuple[str, ...]:
        """Type of every agent in agent order: SMAC sorts agents by unit type first."""
        types = [group.unit for group in self.allies for _ in range(group.count)]
        order = TYPE_BITS.get(self.map_type, ((), ()))[0] if self.sorts_agents else ()
        return tuple(sorted(types, key=order.index)) if order else tuple(types)

    @property
    def enemy_types(self) -> tuple[str, ...]:
        """Type of every enemy in the order of their ids."""
        types = [group.unit for group in self.enemies for _ in range(group.count)]
        return tuple(sorted(types, key=self.enemy_order.index) if self.enemy_order else types)

    @property
    def n_agents(self) -> int:
        return len(self.ally_types)

    @property
    def n_enemies(self) -> int:
        return len(self.enemy_types)

    @property
    def shield_bits(self) -> tuple[int, int]:
        """1 where a side (allies, enemies) is Protoss."""
        return int(self.races[0] == "P"), int(self.races[1] == "P")

    @property
    def unit_type_bits(self) -> int:
        return len(TYPE_BITS.get(self.map_type, ((), ()))[0])

    @property
    def unit_types(self) -> tuple[UnitType, ...]:
        """Agents in agent order, then enemies."""
        return tuple(self.units[name] for name in self.ally_types + self.enemy_types)

    @property
    def heals(self) -> bool:
        """Whether there are healers, or may be."""
        drawn = (UNITS[name] for name in self.drawn_from)
        return any(unit.energy > 0 for unit in (*self.unit_types, *drawn))

    @property
    def type_bits(self) -> tuple[int, ...]:
        """Index of each unit's type bit, agents then enemies; -1 where the map has none."""
        allies, enemies = TYPE_BITS.get(self.map_type, ((), ()))
        if not allies:
            return (-1,) * (self.n_agents + self.n_enemies)
        return tuple(map(allies.index, self.ally_types)) + tuple(
            map(enemies.index, self.enemy_types)
        )


FIELD_ALLIES, FIELD_ENEMIES = (9.0, 16.0), (23.0, 16.0)


def _field(
    name: str,
    limit: int,
    races: str,
    map_type: str,
    allies: dict[str, int],
    enemies: dict[str, int],
    terrain: str = "field",
) -> MapData:
    """Two teams created around the two spawn points; the enemies attack-move to the allies' one."""
    return MapData(
        name=name,
        limit=limit,
        races=races,
        map_type=map_type,
        terrain=terrain,
        attack_point=FIELD_ALLIES,
        allies=tuple(Group(unit, n, *FIELD_ALLIES) for unit, n in allies.items()),
        enemies=tuple(Group(unit, n, *FIELD_ENEMIES) for unit, n in enemies.items()),
    )


def _marines(name: str, limit: int, allies: int, enemies: int) -> MapData:
    return _field(name, limit, "TT", "marines", {"marine": allies}, {"marine": enemies})


_ROWS = (
    _marines("3m", 60, 3, 3),
    _marines("8m", 120, 8, 8),
    _marines("25m", 150, 25, 25),
    _marines("5m_vs_6m", 70, 5, 6),
    _marines("8m_vs_9m", 120, 8, 9),
    _marines("10m_vs_11m", 150, 10, 11),
    _marines("27m_vs_30m", 180, 27, 30),
    _field("MMM", 150, "TT", "MMM", {"marine": 7, "marauder": 2, "medivac": 1},
           {"marine": 7, "marauder": 2, "medivac": 1}),
    _field("MMM2", 180, "TT", "MMM", {"marine": 7, "marauder": 2, "medivac": 1},
           {"marine": 8, "marauder": 3, "medivac": 1}),
    _field("2s3z", 120, "PP", "stalkers_and_zealots",
           {"stalker": 2, "zealot": 3}, {"stalker": 2, "zealot": 3}),
    _field("3s5z", 150, "PP", "stalkers_and_zealots",
           {"stalker": 3, "zealot": 5}, {"stalker": 3, "zealot": 5}),
    _field("3s5z_vs_3s6z", 170, "PP", "stalkers_and_zealots", {"stalker": 3, "zealot": 5},
           {"stalker": 3, "zealot": 6}),
    _field("3s_vs_3z", 150, "PP", "stalkers", {"stalker": 3}, {"zealot": 3}, terrain="open"),
    _field("3s_vs_4z", 200, "PP", "stalkers", {"stalker": 3}, {"zealot": 4}, terrain="open"),
    _field("3s_vs_5z", 250, "PP", "stalkers", {"stalker": 3}, {"zealot": 5}, terrain="open"),
    _field("1c3s5z", 180, "PP", "colossi_stalkers_zealots",
           {"colossus": 1, "stalker": 3, "zealot": 5}, {"colossus": 1, "stalker": 3, "zealot": 5}),
    MapData(
        name="2m_vs_1z", limit=150, races="TP", map_type="marines", terrain="octagon",
        attack_point=(13, 12), attack_span=(6, 0),
        allies=(Group("marine", 1, 13, 12), Group("marine", 1, 19, 12)),
        enemies=(Group("zealot", 1, 16, 19),),
    ),
    MapData(
        name="corridor", limit=400, races="PZ", map_type="zealots", terrain="corridor",
        attack_point=(4.47, 4.3298),
        allies=(Group("zealot", 6, 19.0397, 19.1198),),
        enemies=(Group("zergling", 24, 27.91, 28.24),),
    ),
    MapData(
        name="6h_vs_8z", limit=150, races="ZP", map_type="hydralisks", terrain="arena",
        attack_point=(14.5998, 9.49),
        allies=(Group("hydralisk", 6, 14.5998, 9.49),),
        enemies=(Group("zealot", 8, 14.41, 16.7597),),
    ),
    MapData(
        name="2s_vs_1sc", limit=300, races="PZ", map_type="stalkers", terrain="pentagon",
        attack_point=None,
        allies=(Group("stalker", 1, 11.1208, 10.338), Group("stalker", 1, 16.976, 10.3662)),
        enemies=(Group("spine_crawler", 1, 13.92, 20.0397),),
    ),
    MapData(
        name="so_many_baneling", limit=100, races="PZ", map_type="zealots", terrain="lane",
        attack_point=(4.47, 4.3298),
        allies=(Group("zealot", 7, 11.469, 12.0234),),
        enemies=(Group("baneling", 32, 27.91, 28.24),),
    ),
    MapData(
        name="bane_vs_bane", limit=200, races="ZZ", map_type="bane", terrain="octagon",
        attack_point=(16, 8),
        allies=(Group("zergling", 20, 16, 11), Group("baneling", 4, 16, 8)),
        enemies=(Group("zergling", 20, 16, 21), Group("baneling", 4, 16, 24)),
    ),
    MapData(
        name="2c_vs_64zg", limit=400, races="PZ", map_type="colossus", terrain="ravine",
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
    """The map's row; ValueError with the nearest names if there is none."""
    name = ALIASES.get(name, name)
    if name in MAPS:
        return MAPS[name]
    if re.fullmatch(r"(terran|protoss|zerg)_\d+_vs_\d+", str(name)):
        hint = "it is a scenario of SMACv2: make a StarCraftCapabilityEnv, or for rltrain "
        hint += f"type env=smacv2 env.map_name={name}."
    elif near := closest(str(name), MAPS):
        hint = f"did you mean {' or '.join(near)}?"
    else:
        hint = f"expected one of {', '.join(MAPS)}."
    raise ValueError(f"unknown SMAC map {name!r}: {hint}")
