"""Scripted policies, as baselines for trained teams.

Three are for one kind of map each, and show that it can be won: ``kite`` for ranged units against
slower melee ones (3s_vs_3z, 3s_vs_4z), ``spread`` for blasts (so_many_baneling), ``alternate`` for
one strong enemy that stays where it is (2s_vs_1sc).

A new one is a function and a row of ``DECISIONS``. Its arguments are a ``BattleObservation`` and a
memory [E, A] int64, one number per agent, to read and overwrite; ``NO_TARGET`` where a battle
begins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rltrain.battles.data.map_data import SIZE
from rltrain.battles.engine.battles import Battles
from rltrain.battles.engine.enemy_side import EnemySide
from rltrain.battles.engine.observe import FIRST_ATTACK, NORTH, STOP
from rltrain.battles.engine.saved_state import checked_array, require_range
from rltrain.battles.engine.world import NO_ONE, M, U
from rltrain.battles.scripted.observation import (
    NO_TARGET,
    BattleObservation,
    approach,
    at_target,
    attack,
    fight,
    observe_battles,
    pick,
    toward,
)

WAYS = np.array([[0, 1], [0, -1], [1, 0], [-1, 0]], np.float32)  # of the actions from NORTH on
AHEAD = 2.0  # where a move would lead, cells
CROWDED = 5.0  # cells within which an enemy is too close to a kiting unit, an ally to a spread one
CONTACT = 6.0  # enemies nearer than this are attacked, however close the allies are
WALL_AHEAD, WALL_DANGER = 4.0, 0.1  # a wall so far ahead counts like a foe three cells away
SOON = 1.0  # loops; a unit whose cooldown ends earlier is about to attack


def move_away(
    seen: BattleObservation, x: np.ndarray, y: np.ndarray, counts: np.ndarray
) -> np.ndarray:
    """The available move [E, A] that leads farthest from units at x, y [E, n], those of
    ``counts`` bool [E, A or 1, n]; the near ones weigh most, walls ahead a little.
    """
    at = np.stack([seen.agents(U.X), seen.agents(U.Y)], -1)[:, :, None]  # [E, A, 1, 2]
    to = at + AHEAD * WAYS  # [E, A, 4, 2]
    dx, dy = to[..., 0, None] - x[:, None, None], to[..., 1, None] - y[:, None, None]
    near = np.where(counts[:, :, None], 1 / np.maximum(dx * dx + dy * dy, 0.01), 0)
    cell = np.clip(at + WALL_AHEAD * WAYS, 0, SIZE - 1).astype(np.intp)
    walls = seen.battles.scene.pathable[cell[..., 0], cell[..., 1]] == 0
    danger = near.sum(-1) + WALL_DANGER * walls  # [E, A, 4]
    may = seen.avail[:, :, NORTH : NORTH + len(WAYS)]
    best = np.where(may, danger, np.inf).argmin(-1)
    return np.where(may.any(-1), NORTH + best, STOP)


def flee(seen: BattleObservation) -> np.ndarray:
    """The move [E, A] away from all living enemies."""
    alive = seen.enemies(U.HEALTH) > 0
    return move_away(seen, seen.enemies(U.X), seen.enemies(U.Y), alive[:, None])


def gap_to_foe(seen: BattleObservation) -> np.ndarray:
    """Distance [E, A] to the nearest enemy worth a shot, infinite if there is none."""
    return np.where(seen.wanted, seen.distance, np.inf).min(-1)


def kite(seen: BattleObservation, memory: np.ndarray) -> np.ndarray:
    """Shoot the nearest enemy whenever the weapon is ready, and run while it is not."""
    runs = (gap_to_foe(seen) < CROWDED) & (seen.agents(U.COOLDOWN) > 0)
    return np.where(runs, flee(seen), fight(seen, seen.distance))


def spread(seen: BattleObservation, memory: np.ndarray) -> np.ndarray:
    """Move away from allies until no blast can hit two, then wait for the enemies."""
    x, y, alive = seen.agents(U.X), seen.agents(U.Y), seen.agents(U.HEALTH) > 0
    others = alive[:, None] & ~np.eye(x.shape[1], dtype=bool)  # [E, A, A]
    gap = np.where(others, np.hypot(x[:, :, None] - x[:, None], y[:, :, None] - y[:, None]), np.inf)
    moves = (gap.min(-1) < CROWDED) & (gap_to_foe(seen) > CONTACT)
    blow = fight(seen, seen.distance)
    stands = np.where(blow >= seen.first_attack, blow, STOP)
    return np.where(moves, move_away(seen, x, y, others), stands)


def alternate(seen: BattleObservation, memory: np.ndarray) -> np.ndarray:
    """All agents shoot; one about to be hit holds its fire while an ally with at least its health
    shoots, so that the enemy changes its target and must wind up again.
    """
    n_agents = seen.avail.shape[1]
    health = seen.agents(U.HEALTH) + seen.agents(U.SHIELD)
    aims = (seen.enemies(U.WINDUP) > 0) | (seen.enemies(U.COOLDOWN) < SOON)  # [E, enemies]
    chased = np.where(aims, seen.battles.world.mark[:, M.TARGET, n_agents:], NO_ONE)
    in_danger = (chased[:, :, None] == np.arange(n_agents)).any(1)  # [E, A]
    shoots = seen.reach[:, None].any(-1)  # [E, 1, A]
    others = shoots & ~np.eye(n_agents, dtype=bool)  # [E, A, A]
    relieved = (others & (health[:, None] >= health[:, :, None])).any(-1)
    return np.where(in_danger & relieved, STOP, fight(seen, seen.distance))


Policy = Callable[[BattleObservation, np.ndarray], np.ndarray]


def stop(seen: BattleObservation, memory: np.ndarray) -> np.ndarray:
    """Stand still; agents attack only when ordered to."""
    return np.full(memory.shape, STOP)


def closest(seen: BattleObservation, memory: np.ndarray) -> np.ndarray:
    """Attack the nearest enemy in reach, else walk to the nearest one."""
    return fight(seen, seen.distance)


def focus(seen: BattleObservation, memory: np.ndarray) -> np.ndarray:
    """Attack the weakest enemy in reach, else walk to the nearest one."""
    return fight(seen, seen.strength)


def heuristic(seen: BattleObservation, memory: np.ndarray) -> np.ndarray:
    """SMAC's heuristic policy: attack the nearest enemy wherever it is, until it is dead; healers
    heal the nearest injured ally until its health is full.

    An attack out of range is not an available action, so as a policy it walks there first.
    """
    target = heuristic_targets(seen, memory)
    return attack(seen, target, approach(seen, target))


def heuristic_orders(seen: BattleObservation, memory: np.ndarray, *, rest: bool) -> np.ndarray:
    """Orders of SMAC's heuristic policy [E, A], in SMAC's numbers, available or not:
    attack from any distance, or with ``rest`` walk along the longer axis, walls or not, while the
    attack is not available; 0 for agents without a target.
    """
    target = heuristic_targets(seen, memory)
    order = FIRST_ATTACK + target
    if rest:
        may = at_target(seen.avail[:, :, seen.first_attack :], target)
        order = np.where(may, order, toward(seen, target)[0])
    return np.where(target == NO_TARGET, 0, order)


def heuristic_targets(seen: BattleObservation, memory: np.ndarray) -> np.ndarray:
    """The target of each agent [E, A], kept in ``memory``."""
    keeps = (memory != NO_TARGET) & at_target(seen.wanted, memory)
    memory[:] = np.where(keeps, memory, pick(seen.distance, seen.wanted))
    return memory


DECISIONS: Mapping[str, Policy] = {
    "stop": stop,
    "closest": closest,
    "focus": focus,
    "heuristic": heuristic,
    "kite": kite,
    "spread": spread,
    "alternate": alternate,
}


def find_policy(name: str) -> Policy:
    """The scripted policy of a name. Raises ValueError for an unknown one."""
    if name not in DECISIONS:
        raise ValueError(
            f"unknown scripted policy {name!r}: expected one of {', '.join(DECISIONS)}"
        )
    return DECISIONS[name]


class BattleDecisions:
    """The decisions of a policy in these battles; each call returns the actions of their current
    time step, or with ``heuristic_orders`` the orders.
    """

    def __init__(self, battles: Battles | EnemySide, policy: Policy) -> None:
        self.battles, self.policy = battles, policy
        self.memory = np.full(battles.avail.shape[:2], NO_TARGET)  # [E, A]

    def __call__(self) -> np.ndarray:
        """[E, A] int64, without meaning in finished battles."""
        seen = observe_battles(self.battles)
        self.memory[self.battles.world.clock == 0] = NO_TARGET
        return np.where(seen.avail[:, :, 0], 0, self.policy(seen, self.memory))

    def state_dict(self) -> dict[str, Any]:
        """The remembered targets."""
        return {"memory": self.memory.copy()}

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Load what ``state_dict`` returned. Raises ValueError for what are no targets."""
        memory = checked_array("memory", state["memory"], self.memory)
        n_targets = self.battles.avail.shape[2] - self.battles.shown.first_attack
        require_range("memory", memory, NO_TARGET, n_targets - 1)
        self.memory[:] = memory
