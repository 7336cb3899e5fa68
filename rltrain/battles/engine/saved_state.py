"""Loading of saved battles, which may be a stranger's: compiled code indexes with their numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from rltrain.battles.data.map_data import SIZE
from rltrain.battles.engine.fighting.combat import SCAN_EVERY
from rltrain.battles.engine.movement.crowding import PLACES
from rltrain.battles.engine.world import M, Order, Outcome, U, World

Limits = tuple[float, float]
ON_MAP = (0, float(np.nextafter(np.float32(SIZE), np.float32(0))))
"""Coordinates that cells are found by."""
AROUND = (-SIZE, 2 * SIZE)
"""Coordinates under ``rules=smaclite``, where teams may leave the map."""
FLAG, SIDE, ANY = (0, 1), (-1, 1), (-math.inf, math.inf)


def load_world(
    world: World,
    state: Mapping[str, Any],
    *,
    n_actions: int,
    n_steps: int,
    n_kinds: int,
    place: Limits = ON_MAP,
) -> None:
    """Fill ``world`` with a saved one.

    Args:
        n_actions: of an agent.
        n_steps: env steps of the longest battle.
        n_kinds: unit types that teams are drawn from.
        place: the least and the largest coordinate.

    Raises:
        ValueError: an array that does not fit, or holds what no battle has; nothing was changed.
    """
    agents, enemies = world.watches.shape[1:]
    someone = (-1, agents + enemies - 1)
    allowed = {
        **dict.fromkeys(("unit X", "unit Y"), place),
        "mark ORDER": (0, max(Order)),
        **dict.fromkeys(("mark TARGET", "mark ATTACKER", "mark PENDING_ON"), someone),
        **dict.fromkeys(("mark PURSUES", "mark ARRIVED", "mark STANDS", "mark BURST"), FLAG),
        "mark PHASE": (0, SCAN_EVERY - 1),
        **dict.fromkeys(("mark SIDE", "mark PASSES", "facing"), SIDE),
        "mark PLACE": (-1, PLACES - 1),
        "rng": (1, math.inf),
        "clock": (0, n_steps),
        "outcome": (0, max(Outcome)),
        "last_action": (-1, n_actions - 1),
        "kind": (0, n_kinds - 1),
        "factor": (0, math.inf),
        "watcher": (-1, agents - 1),
        **dict.fromkeys(("watches", "commanded"), FLAG),
        "blank": (0, enemies),
    }
    given = World(*(checked_array(name, state[name], own) for name, own in world._asdict().items()))
    rows = {f"unit {row.name}": given.unit[:, row] for row in U}
    rows |= {f"mark {row.name}": given.mark[:, row] for row in M}
    for name, values in {**given._asdict(), **rows}.items():
        require_range(name, values, *allowed.get(name, ANY))
    walks = given.mark[:, M.ORDER] >= Order.ATTACK_MOVE  # around walls, by the cell of the goal
    for row in (U.GOAL_X, U.GOAL_Y):
        require_range(f"unit {row.name}", given.unit[:, row][walks], *place)
    require_each("enemies", given.enemies, range(agents, agents + enemies))
    for own, loaded in zip(world, given, strict=True):
        own[...] = loaded


def checked_array(name: str, saved: object, own: np.ndarray) -> np.ndarray:
    """A saved array; ValueError unless it has the shape and type of ``own``."""
    given = np.asarray(saved)
    if (given.shape, given.dtype) != (own.shape, own.dtype):
        raise ValueError(
            f"battle state {name!r} does not fit: expected shape {own.shape}, got {given.shape} "
            f"({given.dtype} for {own.dtype}); use the map and the number of environments it was "
            "saved with"
        )
    return given


def require_range(name: str, values: np.ndarray, low: float, high: float) -> None:
    """Raise ValueError unless all values are finite and from ``low`` to ``high``."""
    for value in (values.min().item(), values.max().item()) if values.size else ():
        if not (low <= value <= high and math.isfinite(value)):
            raise ValueError(
                f"battle state {name!r} has {value}: expected finite numbers from {low} to {high}"
            )


def require_each(name: str, numbers: np.ndarray, each: range) -> None:
    """Raise ValueError unless every row of [E, n] has ``each`` of n numbers once."""
    wrong = (np.sort(numbers, 1) != np.array(each)).any(1)
    if wrong.any():
        raise ValueError(
            f"battle state {name!r} has {numbers[wrong.argmax()].tolist()}: expected the numbers "
            f"from {each.start} to {each.stop - 1}, each once"
        )
