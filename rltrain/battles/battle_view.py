"""``BattleView``: SMAC's read-only methods on one battle of a batch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rltrain.battles.data.units import UNITS
from rltrain.battles.engine.battles import Battles
from rltrain.battles.engine.observe import write_state
from rltrain.battles.engine.world import P, U
from rltrain.battles.options import block_layout, compute_sizes

FIRST_AGENT_TYPE = 3000  # ids of the unit types that SMAC's maps define for agents start at this


@dataclass(frozen=True)
class Position:
    """A point on the map."""

    x: float
    y: float


@dataclass(frozen=True)
class Unit:
    """A unit as StarCraft II's interface reports it; the cooldown in simulation loops."""

    tag: int  # agents first, then enemies
    unit_type: int
    health: float
    health_max: float
    shield: float
    shield_max: float
    energy: float
    weapon_cooldown: float
    pos: Position


class BattleView:
    """SMAC's read-only methods for the current step of battle ``index`` of ``battles``."""

    def __init__(self, battles: Battles, index: int) -> None:
        self.battles, self.index = battles, index
        self.map_data, self.sizes = battles.map_data, battles.sizes
        self.n_agents, self.n_enemies = self.map_data.n_agents, self.map_data.n_enemies
        self.n_actions = self.sizes.n_actions

    def get_obs(self) -> list[np.ndarray]:
        """The observation of every agent, float32."""
        return list(self.battles.obs[self.index].copy())

    def get_obs_agent(self, agent_id: int) -> np.ndarray:
        return self.battles.obs[self.index, agent_id].copy()

    def get_state(self) -> np.ndarray:
        """float32 [S]."""
        return self.battles.state[self.index].copy()

    def get_state_dict(self) -> dict[str, Any]:
        """The state in its parts: allies [A, …], enemies [E, …], last_action [A, n_actions],
        timestep."""
        options = replace(self.battles.options, obs_instead_of_state=False)
        world, table = self.battles.world, self.battles.table
        flat = np.zeros(compute_sizes(self.map_data, options).state, np.float32)
        timestep = np.float32(self.steps / self.map_data.limit)
        write_state(
            self.battles.shown, table("param", self.index), table("type_bit", self.index),
            world.unit[self.index], world.enemies, world.facing, world.last_action, self.index,
            timestep, flat,
        )  # fmt: skip
        parts = {}
        for name, block in block_layout(self.map_data, options)["state"].items():
            start, count, size = block["start"], block["count"], block["size"]
            parts[name] = flat[start : start + count * size].reshape(count, size)
        return parts | ({"timestep": flat[-1]} if "timestep" in parts else {})

    def get_avail_actions(self) -> list[list[int]]:
        """0 or 1 per agent and action."""
        return self.battles.avail[self.index].tolist()

    def get_avail_agent_actions(self, agent_id: int) -> list[int]:
        return self.battles.avail[self.index, agent_id].tolist()

    def get_visibility_matrix(self) -> np.ndarray:
        """bool [A, A + E]: which other units each agent sees; dead units do not see and are not
        seen."""
        unit = self.battles.world.unit[self.index][:, self._order]
        dx, dy = (unit[row][None, :] - unit[row][: self.n_agents, None] for row in (U.X, U.Y))
        alive = unit[U.HEALTH] > 0
        sight = self.battles.table("param", self.index)[P.SIGHT, : self.n_agents, None]
        seen = (dx * dx + dy * dy < sight**2) & alive[None, :] & alive[: self.n_agents, None]
        seen[np.arange(self.n_agents), np.arange(self.n_agents)] = False
        return seen

    @property
    def steps(self) -> int:
        """Env steps done in this episode."""
        return int(self.battles.world.clock[self.index])

    @property
    def agents(self) -> dict[int, Unit]:
        return {i: self.get_unit_by_id(i) for i in range(self.n_agents)}

    @property
    def enemies(self) -> dict[int, Unit]:
        numbered = self._order[self.n_agents :]
        return {k: self.get_unit_by_id(i) for k, i in enumerate(numbered)}

    @property
    def _order(self) -> list[int]:
        """Agents, then enemies by the numbers that agents know them by in this episode."""
        return [*range(self.n_agents), *self.battles.world.enemies[self.index].tolist()]

    def get_units(self) -> list[list[float]]:
        """Agents by id, then enemies: type, x, y, health, shield, cooldown in loops."""
        units = [*self.agents.values(), *self.enemies.values()]
        return [
            [u.unit_type, u.pos.x, u.pos.y, u.health, u.shield, u.weapon_cooldown] for u in units
        ]

    def get_unit_by_id(self, i: int) -> Unit:
        """The unit of an agent, or behind them of an enemy in the order of creation; a dead one
        keeps its last position."""
        unit, kind = self.battles.world.unit[self.index], self.battles.unit_types(self.index)[i]
        return Unit(
            tag=i,
            unit_type=self._unit_types[i],
            health=float(unit[U.HEALTH, i]),
            health_max=kind.health,
            shield=float(unit[U.SHIELD, i]),
            shield_max=kind.shield,
            energy=float(unit[U.ENERGY, i]),
            weapon_cooldown=max(0.0, float(unit[U.COOLDOWN, i] + self.battles.shown.ready_in)),
            pos=Position(float(unit[U.X, i]), float(unit[U.Y, i])),
        )

    @property
    def agent_type_ids(self) -> dict[str, int]:
        """The ids of the unit types that SMAC's maps define for agents, by name."""
        names = sorted(self.map_data.drawn_from) or dict.fromkeys(self.map_data.ally_types)
        return {name: FIRST_AGENT_TYPE + k for k, name in enumerate(names)}

    @property
    def _unit_types(self) -> list[int]:
        names, own = self.battles.unit_names(self.index), self.agent_type_ids
        enemies = [UNITS[name].sc2_id for name in names[self.n_agents :]]
        return [own[name] for name in names[: self.n_agents]] + enemies

    def unit_shoot_range(self, agent_id: int) -> float:
        return float(self.battles.table("param", self.index)[P.SHOOT, agent_id])

    def unit_sight_range(self, agent_id: int) -> float:
        return float(self.battles.table("param", self.index)[P.SIGHT, agent_id])

    def unit_max_cooldown(self, unit: Unit) -> float:
        """The divisor of this unit's cooldown in the state, loops."""
        return self.battles.unit_types(self.index)[unit.tag].cooldown_norm

    def unit_max_shield(self, unit: Unit) -> float:
        return unit.shield_max
