"""Events of an env step, derived from the tables before and after it: shots, healing, explosions
and deaths. Nothing is drawn here; times are env steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rltrain.battles.data.units import WEAPONS
from rltrain.battles.engine.battles import Battles
from rltrain.battles.engine.world import NO_ONE, M, P, U

MELEE = 1.0  # weapons that reach less far strike instead of shooting, cells
FLASH, FADE, BLAST_TIME = 0.5, 1.5, 1.0  # how long shots, the dead and explosions are seen


@dataclass(frozen=True)
class Snapshot:
    """A copy of the state of one battle between two steps."""

    unit: np.ndarray  # [len(U), units] float32
    mark: np.ndarray  # [len(M), units] int32
    clock: int
    outcome: int


def snapshot(battles: Battles, index: int) -> Snapshot:
    """Copy the current state of a battle."""
    world = battles.world
    return Snapshot(
        unit=world.unit[index].copy(),
        mark=world.mark[index].copy(),
        clock=int(world.clock[index]),
        outcome=int(world.outcome[index]),
    )


@dataclass(frozen=True)
class Event:
    """Something that is visible from ``begin`` to ``end``.

    ``kind`` is a weapon's (instant, missile, twice, beam), or claw, heal, blast, death; ``other``
    is the target, or -1.
    """

    kind: str
    begin: float
    end: float
    unit: int
    other: int = NO_ONE


def events_between(before: Snapshot, after: Snapshot, param: np.ndarray, loops: int) -> list[Event]:
    """The events of the step from ``before`` to ``after``; ``param`` as in ``Scene``, of the
    battle.
    """
    start = float(before.clock)
    alive, lives = before.unit[U.HEALTH] > 0, after.unit[U.HEALTH] > 0
    burst = (after.mark[M.BURST] > 0) & (before.mark[M.BURST] == 0) & alive
    found = [Event("blast", start + 0.5, start + 0.5 + BLAST_TIME, i) for i in _where(burst)]
    for i in _where(alive & ~lives & ~burst):
        found.append(Event("death", start + 1, start + 1 + FADE, i))
    for i in _where(fired(before, after, loops) & ~burst):
        j = find_target(before, after, i)
        if j != NO_ONE:
            found.append(_shot(i, j, start, after, param, loops))
    spent = after.unit[U.ENERGY] < before.unit[U.ENERGY]
    for i in _where(spent & lives & (param[P.ENERGY] > 0)):
        j = find_target(before, after, i)
        if j != NO_ONE:
            found.append(Event("heal", start, start + 1, i, j))
    return found


def fired(before: Snapshot, after: Snapshot, loops: int) -> np.ndarray:
    """bool [units]: whether a unit's cooldown was set again. Otherwise it decreases by one a loop,
    to 0 or slightly below.
    """
    rested = np.maximum(before.unit[U.COOLDOWN] - loops, 0.0)
    return np.asarray((after.unit[U.COOLDOWN] > rested + 0.01) & (before.unit[U.HEALTH] > 0))


def find_target(before: Snapshot, after: Snapshot, i: int) -> int:
    """The unit that unit i aims at: the target of its missile or second hit, else its target after
    or before the step.
    """
    for table, row in ((after, M.PENDING_ON), (after, M.TARGET), (before, M.TARGET)):
        if table.mark[row, i] != NO_ONE:
            return int(table.mark[row, i])
    return NO_ONE


def _shot(i: int, j: int, start: float, after: Snapshot, param: np.ndarray, loops: int) -> Event:
    """A shot, timed by how much of its cooldown has passed since."""
    unit = after.unit
    full = param[P.PERIOD, i] - np.ceil(param[P.DAMAGE_POINT, i])
    share = 1.0 - float(full - unit[U.COOLDOWN, i]) / loops
    begin = start + min(max(share, 0.0), 0.75)
    kind = WEAPONS[int(param[P.WEAPON, i])]
    gap = float(np.hypot(unit[U.X, i] - unit[U.X, j], unit[U.Y, i] - unit[U.Y, j]))
    if kind == "missile":
        return Event(kind, begin, begin + max(gap * float(param[P.DELAY, i]) / loops, 0.25), i, j)
    if kind == "instant" and gap - param[P.RADIUS, i] - param[P.RADIUS, j] < MELEE:
        kind = "claw"
    return Event(kind, begin, begin + FLASH, i, j)


def shares(state: Snapshot, param: np.ndarray) -> np.ndarray:
    """float [3, units]: health, shield and energy as shares of their greatest values; NaN where a
    unit has none.
    """
    most = param[[P.HEALTH, P.SHIELD, P.ENERGY]]
    have = state.unit[[U.HEALTH, U.SHIELD, U.ENERGY]]
    return np.where(most > 0, have / np.where(most > 0, most, 1.0), np.nan)


def _where(mask: np.ndarray) -> list[int]:
    return np.flatnonzero(mask).tolist()
