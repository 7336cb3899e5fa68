"""Scripted policies, as baselines for trained teams.

A new one is a function and a row of ``DECISIONS``. Its arguments are a ``BattleObservation`` and a
memory [E, A] int64, one number per agent, to read and overwrite; ``NO_TARGET`` where a battle
begins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rltrain.battles.engine.battles import Battles
from rltrain.battles.engine.enemy_side import EnemySide
from rltrain.battles.engine.observe import FIRST_ATTACK, STOP
from rltrain.battles.engine.saved_state import checked_array, require_range
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
from rltrain.battles.scripted.tactics import alternate, kite, spread

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
