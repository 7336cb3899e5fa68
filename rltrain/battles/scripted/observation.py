"""Observations of scripted policies, and the moves they share.

The policies read the full state, as SMAC's heuristic policy does, whatever agents can see.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rltrain.battles.engine.battles import Battles
from rltrain.battles.engine.enemy_side import EnemySide
from rltrain.battles.engine.field_of_view import FIRST_TURN, IN_RANGE
from rltrain.battles.engine.observe import EAST, NORTH, SOUTH, STOP, WEST
from rltrain.battles.engine.world import Effect, P, U

NO_TARGET = -1
BESIDE = 2.0  # distance at which healers stop next to their target, cells


class BattleObservation(NamedTuple):
    """E battles before a step. K runs over the actions with a target: enemies, for healers
    agents.
    """

    battles: Battles | EnemySide
    avail: np.ndarray  # [E, A, n_actions] bool
    heals: np.ndarray  # [E, A] bool
    dx: np.ndarray  # [E, A, K] from agent to target
    dy: np.ndarray  # [E, A, K]
    distance: np.ndarray  # [E, A, K] between centers
    strength: np.ndarray  # [E, A, K] health and shield, for healers the share of its health
    wanted: np.ndarray  # [E, A, K] bool: can be hit, for healers injured and can be healed
    goals: np.ndarray  # [E, A, K] bool: units to walk to; healers without a patient follow the team
    near: np.ndarray  # [E, A, K] bool: within the range of its weapon, whatever its cone
    reach: np.ndarray  # [E, A, K] bool: an attack on it is available now, and would be carried out

    @property
    def first_attack(self) -> int:
        """The number of the first action with a target."""
        return int(self.battles.shown.first_attack)

    def agents(self, row: int) -> np.ndarray:
        """[E, A]: one row of the agents' table (``world.X``, …)."""
        return self.battles.world.unit[:, row, : self.avail.shape[1]]

    def enemies(self, row: int) -> np.ndarray:
        """The same for the enemies, [E, number of enemies]."""
        return self.battles.world.unit[:, row, self.avail.shape[1] :]


def observe_battles(battles: Battles | EnemySide) -> BattleObservation:
    """The current step of all battles."""
    scene, unit, avail = battles.scene, battles.world.unit, battles.avail.astype(bool)
    first_attack = battles.shown.first_attack
    agents, units, k = scene.n_agents, unit.shape[2], np.arange(avail.shape[2] - first_attack)
    heals = np.broadcast_to(scene.param[:, P.ENERGY, :agents] > 0, avail.shape[:2])  # [E, A]
    exists = k < np.where(heals, agents, units - agents)[..., None]
    enemies = battles.world.enemies[:, None, np.minimum(k, units - agents - 1)]
    targets = np.where(heals[..., None], np.minimum(k, agents - 1), enemies)  # [E, A, K] units

    def of(table: np.ndarray) -> np.ndarray:
        """The values of ``targets`` [E, A, K] in a table [1 or E, 1 or A, units]."""
        return np.take_along_axis(np.broadcast_to(table, (*targets.shape[:2], units)), targets, -1)

    useful = exists & (of(scene.affects[:, :agents]) != Effect.NOTHING)
    health, whole = of(unit[:, None, U.HEALTH]), of(scene.param[:, None, P.HEALTH])
    alive = useful & (health > 0)
    wanted = alive & (~heals[..., None] | (health < whole))
    dx = of(unit[:, None, U.X]) - unit[:, U.X, :agents, None]
    dy = of(unit[:, None, U.Y]) - unit[:, U.Y, :agents, None]
    distance = np.hypot(dx, dy)
    near = distance <= scene.param[:, P.SHOOT, :agents, None]
    reach = avail[:, :, first_attack:]
    if battles.shown.limited:  # without a mask more is available than is in range
        reach = reach & (of(battles.frame.visible & IN_RANGE) != 0)
    return BattleObservation(
        battles=battles,
        avail=avail,
        heals=heals,
        dx=dx,
        dy=dy,
        distance=distance,
        strength=np.where(
            heals[..., None], health / np.maximum(whole, 1), health + of(unit[:, None, U.SHIELD])
        ),
        wanted=wanted,
        goals=np.where(wanted.any(-1, keepdims=True), wanted, alive),
        near=near,
        reach=reach,
    )


def at_target(table: np.ndarray, target: np.ndarray) -> np.ndarray:
    """[E, A, K] and [E, A] to the target's values [E, A]; the first column without a target."""
    return np.take_along_axis(table, np.maximum(target, 0)[..., None], -1)[..., 0]


def pick(key: np.ndarray, among: np.ndarray) -> np.ndarray:
    """[E, A, K] values and bool to the target [E, A] of the smallest value, ties by number;
    ``NO_TARGET`` where none may be taken.
    """
    best = np.where(among, key, np.inf).argmin(-1)
    return np.where(among.any(-1), best, NO_TARGET)


def attack(seen: BattleObservation, target: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """The action on ``target`` [E, A] where it is in reach, else ``otherwise`` [E, A]."""
    may = at_target(seen.reach, target) & (target != NO_TARGET)
    return np.where(may, seen.first_attack + target, otherwise)


def toward(seen: BattleObservation, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The moves [E, A] toward ``target`` along the longer axis and along the other one."""
    dx, dy = at_target(seen.dx, target), at_target(seen.dy, target)
    along_x, along_y = np.where(dx > 0, EAST, WEST), np.where(dy > 0, NORTH, SOUTH)
    wide = np.abs(dx) > np.abs(dy)
    return np.where(wide, along_x, along_y), np.where(wide, along_y, along_x)


def walk(seen: BattleObservation, target: np.ndarray) -> np.ndarray:
    """A step toward ``target`` [E, A]: along the longer axis, where that is blocked along the
    other one, else none. Healers stop beside it.
    """
    first, second = toward(seen, target)
    way = np.where(at_target(seen.avail, second), second, STOP)
    way = np.where(at_target(seen.avail, first), first, way)
    there = seen.heals & (at_target(seen.distance, target) <= BESIDE)
    return np.where((target == NO_TARGET) | there, STOP, way)


def approach(seen: BattleObservation, target: np.ndarray) -> np.ndarray:
    """The action that brings ``target`` [E, A] into reach: a turn of the cone if it is near enough,
    otherwise a step."""
    turns = seen.first_attack - FIRST_TURN
    if turns == 0:
        return walk(seen, target)
    angle = np.arctan2(at_target(seen.dy, target), at_target(seen.dx, target))
    turn = FIRST_TURN + np.rint(angle * turns / (2 * np.pi)).astype(np.int64) % turns
    hidden = at_target(seen.wanted & seen.near & ~seen.reach, target) & (target != NO_TARGET)
    return np.where(hidden, turn, walk(seen, target))


def fight(seen: BattleObservation, key: np.ndarray) -> np.ndarray:
    """Attack the unit in reach with the smallest ``key`` [E, A, K]; approach the nearest while
    none is. Healers heal the unit in reach with the smallest share of its health.
    """
    reach = seen.wanted & seen.reach
    key = np.where(seen.heals[..., None], seen.strength, key)
    return attack(seen, pick(key, reach), approach(seen, pick(seen.distance, seen.goals)))
