"""A map of battles: two teams, their places, a terrain and a time limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rltrain.battles.data.units import AGENT_UNITS, UNITS, UnitType

SIZE = 32
"""Cells along each side of a map."""
MOST_UNITS = 64  # of a team, as on 2c_vs_64zg

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
    map_type: str  # SMAC's name; decides the unit type bits
    terrain: str  # a name or a picture, see terrain.py
    attack_point: tuple[float, float] | None  # end of the enemies' attack-move; null: they stay
    attack_span: tuple[float, float] = (0.0, 0.0)  # that end is drawn from the segment point + span
    hunts: bool = False  # enemies attack the nearest agent at all times instead
    chases: bool = False  # enemies attack the agent nearest to them until it is dead, then another
    drawn_from: tuple[str, ...] = ()  # unit types of teams drawn for every battle; then the
    # groups only say how many units there are
    for_any: bool = False  # all maps show the same features of a unit: a column for every type
    units: Mapping[str, UnitType] = field(default_factory=lambda: UNITS, repr=False, compare=False)
    agent_units: Mapping[str, UnitType] = field(
        default_factory=lambda: AGENT_UNITS, repr=False, compare=False
    )
    sorts_agents: bool = True  # by type and place, as SMAC; or agents keep their creation order
    enemy_order: tuple[str, ...] = ()  # types in the order of enemy ids; none: creation order
    knows_walls: bool = True  # units start clear of walls and walk around them

    @property
    def ally_types(self) -> tuple[str, ...]:
        """Type of every agent in agent order: SMAC sorts agents by unit type first."""
        types = [group.unit for group in self.allies for _ in range(group.count)]
        order = self.type_orders[0] if self.sorts_agents else ()
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
        """1 where a side (allies, enemies) has units with shields."""
        if self.for_any:
            return 1, 1
        allies, enemies = (
            any(self.units[group.unit].shield for group in team)
            for team in (self.allies, self.enemies)
        )
        return int(allies), int(enemies)

    @property
    def type_orders(self) -> tuple[tuple[str, ...], ...]:
        """The unit types of agents and of enemies in the order of their bits; empty where both
        teams have one type."""
        teams = [tuple(sorted({g.unit for g in groups})) for groups in (self.allies, self.enemies)]
        mixed = max(map(len, teams)) > 1
        return TYPE_BITS.get(self.map_type, tuple(teams) if mixed else ((), ()))

    @property
    def unit_type_bits(self) -> int:
        return len(UNITS) if self.for_any else max(map(len, self.type_orders))

    @property
    def unit_types(self) -> tuple[UnitType, ...]:
        """Agents in agent order, then enemies."""
        return self.find_types(self.ally_types + self.enemy_types)

    def find_types(self, names: Sequence[str]) -> tuple[UnitType, ...]:
        """The unit types of these names of agents, then of enemies."""
        agents = [self.agent_units[name] for name in names[: self.n_agents]]
        return (*agents, *(self.units[name] for name in names[self.n_agents :]))

    @property
    def heals(self) -> bool:
        """Whether there are healers, or may be."""
        drawn = (UNITS[name] for name in self.drawn_from)
        return any(unit.energy > 0 for unit in (*self.unit_types, *drawn))

    @property
    def type_bits(self) -> tuple[int, ...]:
        """Index of each unit's type bit, agents then enemies; -1 where the map has none."""
        allies, enemies = (tuple(UNITS),) * 2 if self.for_any else self.type_orders
        if not allies:
            return (-1,) * (self.n_agents + self.n_enemies)
        return (*map(allies.index, self.ally_types), *map(enemies.index, self.enemy_types))
