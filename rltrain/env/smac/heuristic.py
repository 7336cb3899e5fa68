"""SMAC's built-in player (``heuristic_ai``): orders for every agent of every battle, straight from
the world, whatever the agents chose.
"""

from __future__ import annotations

import numpy as np

from rltrain.env.smac.battles import Battles
from rltrain.env.smac.observe import EAST, FIRST_ATTACK, NORTH, SOUTH, WEST
from rltrain.env.smac.world import HEALTH, X, Y

NOBODY = -1


class Heuristic:
    """Every agent attacks the nearest enemy until it is dead, healers mend the nearest hurt ally
    until it is well.

    Args:
        rest: agents walk along the longer axis while their attack is not available, instead of
            attacking all the same.
    """

    def __init__(self, *, battles: Battles, rest: bool) -> None:
        self.battles, self.rest = battles, rest
        self.targets = np.full((battles.n_envs, battles.map_data.n_agents), NOBODY)  # [E, A]
        self._full_health = np.array([kind.health for kind in battles.map_data.unit_types])

    def begin(self, e: int) -> None:
        """Battle e starts anew: its agents forget their targets."""
        self.targets[e] = NOBODY

    def orders(self) -> np.ndarray:
        """An action for every agent [E, A], available or not; 0 for the dead and the idle."""
        return np.stack([self._orders_of(e) for e in range(self.battles.n_envs)])

    def _orders_of(self, e: int) -> np.ndarray:
        unit, can_affect = self.battles.world.unit[e], self.battles.scene.affects > 0
        n_agents, kinds = len(self.targets[e]), self.battles.map_data.unit_types
        orders = np.zeros(n_agents, np.int64)
        alive = unit[HEALTH] > 0
        hurt = unit[HEALTH] < self._full_health
        for i in np.flatnonzero(alive[:n_agents]).tolist():
            heals = bool(kinds[i].energy)
            side = slice(0, n_agents) if heals else slice(n_agents, None)
            wanted = np.flatnonzero((alive & can_affect[i] & (hurt | (not heals)))[side])
            if not len(wanted):
                continue
            x, y = unit[X][side].astype(float), unit[Y][side].astype(float)
            dx, dy = x - float(unit[X, i]), y - float(unit[Y, i])
            target = int(self.targets[e, i])
            if target not in wanted:
                target = int(wanted[(dx[wanted] ** 2 + dy[wanted] ** 2).argmin()])
                self.targets[e, i] = target
            orders[i] = FIRST_ATTACK + target
            if self.rest and not self.battles.avail[e, i, FIRST_ATTACK + target]:
                orders[i] = _toward(dx[target], dy[target])
        return orders


def _toward(dx: float, dy: float) -> int:
    """The move along the longer axis."""
    if abs(dx) > abs(dy):
        return EAST if dx > 0 else WEST
    return NORTH if dy > 0 else SOUTH
