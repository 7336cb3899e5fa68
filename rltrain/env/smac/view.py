"""``BattleView``: SMAC's read-only methods on one battle of a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rltrain.env.smac.battles import Battles
from rltrain.env.smac.sizes import N_ACTIONS_MOVE
from rltrain.env.smac.world import COOLDOWN, HEALTH, P_COOLDOWN_NORM, P_SHIELD, SHIELD, X, Y

SHOOT_RANGE, SIGHT_RANGE = 6, 9


@dataclass(frozen=True)
class Position:
    x: float
    y: float


@dataclass(frozen=True)
class Unit:
    """A unit as StarCraft II's interface reports it; cooldown in simulation loops."""

    tag: int  # 0 … A-1 agents, then enemies
    unit_type: int
    health: float
    health_max: float
    shield: float
    shield_max: float
    energy: float
    weapon_cooldown: float
    pos: Position


class BattleView:
    """What SMAC's environment tells about its current step, for battle ``copy`` of ``battles``."""

    def __init__(self, battles: Battles, copy: int) -> None:
        self.battles, self.copy = battles, copy
        self.map_data, self.sizes = battles.map_data, battles.sizes
        self.n_agents, self.n_enemies = self.map_data.n_agents, self.map_data.n_enemies
        self.n_actions = self.sizes.n_actions

    # ---------------------------------------------------------------------------------------------------- observations

    def get_obs(self) -> list[np.ndarray]:
        """A float32 vectors."""
        return list(self.battles.obs[self.copy].copy())

    def get_obs_agent(self, agent_id: int) -> np.ndarray:
        return self.battles.obs[self.copy, agent_id].copy()

    def get_state(self) -> np.ndarray:
        """float32 [S]."""
        return self.battles.state[self.copy].copy()

    def get_state_dict(self) -> dict[str, Any]:
        """The state in its parts: allies [A, …], enemies [E, …], last_action [A, n_actions], timestep."""
        world, options = self.battles.world, self.battles.options
        param = self.battles.scene.param
        unit = world.unit[self.copy]
        alive = (unit[HEALTH] > 0)[:, None]
        health = [unit[HEALTH] / param_health(param)]
        place = [(unit[X] - 16) / 32, (unit[Y] - 16) / 32]
        cooldown = [np.maximum(unit[COOLDOWN], 0) / param[P_COOLDOWN_NORM]]
        allies = np.stack(health + cooldown + place, 1) * alive
        enemies = np.stack(health + place, 1) * alive
        parts: dict[str, Any] = {
            "allies": allies[: self.n_agents].astype(np.float32),
            "enemies": enemies[self.n_agents :].astype(np.float32),
        }
        return parts
