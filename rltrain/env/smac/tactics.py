"""Players written for one kind of map each: they show that it can be won, and how.

``kite`` is for ranged units against slower melee ones (3s_vs_3z, 3s_vs_4z), ``spread`` for blasts
(so_many_baneling), ``alternate`` for one strong enemy that stays where it is (2s_vs_1sc).
"""

from __future__ import annotations

import numpy as np

from rltrain.env.smac.look import NO_TARGET, Look, fight
from rltrain.env.smac.observe import FIRST_ATTACK, NORTH, STOP
from rltrain.env.smac.terrain import SIZE
from rltrain.env.smac.world import (
    COOLDOWN,
    HEALTH,
    NO_ONE,
    P_RADIUS,
    P_RANGE,
    P_SHIELD,
    SHIELD,
    TARGET,
    X,
    Y,
)

WAYS = np.array([[0, 1], [0, -1], [1, 0], [-1, 0]], np.float32)  # of the actions from NORTH on
AHEAD = 2.0  # where a move would lead, cells
CROWDED = 5.0  # nearer than this a foe is too close, to a kiting unit, or a friend, to a spread one
DOORSTEP = 6.0  # foes nearer than this are fought, crowded or not
WALL_AHEAD, WALL_DANGER = 4.0, 0.1  # a wall so far ahead counts like a foe three cells away
SPENT = 1.5  # hits: whom fewer can kill is in danger
MARGIN = 0.4  # cells beyond a weapon's reach


def move_away(look: Look, x: np.ndarray, y: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The available move [E, A] that leads farthest from units at x, y [E, n], those of
    ``counts`` bool [E, A or 1, n]; the near ones weigh most, walls ahead a little.
    """
    at = np.stack([look.agents(X), look.agents(Y)], -1)[:, :, None]  # [E, A, 1, 2]
    to = at + AHEAD * WAYS  # [E, A, 4, 2]
    dx, dy = to[..., 0, None] - x[:, None, None], to[..., 1, None] - y[:, None, None]
    near = np.where(counts[:, :, None], 1 / np.maximum(dx * dx + dy * dy, 0.01), 0)
    cell = np.clip(at + WALL_AHEAD * WAYS, 0, SIZE - 1).astype(np.intp)
    walls = look.battles.scene.pathable[cell[..., 0], cell[..., 1]] == 0
    danger = near.sum(-1) + WALL_DANGER * walls  # [E, A, 4]
    may = look.avail[:, :, NORTH:FIRST_ATTACK]
    best = np.where(may, danger, np.inf).argmin(-1)
    return np.where(may.any(-1), NORTH + best, STOP)


def flee(look: Look) -> np.ndarray:
    """The move [E, A] away from all living enemies."""
    alive = look.enemies(HEALTH) > 0
    return move_away(look, look.enemies(X), look.enemies(Y), alive[:, None])


def gap_to_foe(look: Look) -> np.ndarray:
    """Distance [E, A] to the nearest enemy worth a shot, infinite if there is none."""
    return np.where(look.wanted, look.distance, np.inf).min(-1)


def kite(look: Look, memory: np.ndarray) -> np.ndarray:
    """Shoot the nearest enemy whenever the weapon is ready, and run while it is not."""
    runs = (gap_to_foe(look) < CROWDED) & (look.agents(COOLDOWN) > 0)
    return np.where(runs, flee(look), fight(look, look.distance))


def spread(look: Look, memory: np.ndarray) -> np.ndarray:
    """Move away from friends until no blast can hit two, then wait for the enemies."""
    x, y, alive = look.agents(X), look.agents(Y), look.agents(HEALTH) > 0
    others = alive[:, None] & ~np.eye(x.shape[1], dtype=bool)  # [E, A, A]
    gap = np.where(others, np.hypot(x[:, :, None] - x[:, None], y[:, :, None] - y[:, None]), np.inf)
    moves = (gap.min(-1) < CROWDED) & (gap_to_foe(look) > DOORSTEP)
    blow = fight(look, look.distance)
    stands = np.where(blow >= FIRST_ATTACK, blow, STOP)
    return np.where(moves, move_away(look, x, y, others), stands)


def alternate(look: Look, memory: np.ndarray) -> np.ndarray:
    """All shoot; whom the next hits could kill steps back, so that another one draws the fire.

    When all are that weak they rest, until their shields are whole: noted as 0.
    """
    scene, n_agents = look.battles.scene, look.avail.shape[1]
    dead, shield = look.agents(HEALTH) <= 0, look.agents(SHIELD)
    weak = look.agents(HEALTH) + shield <= SPENT * scene.damage[:, n_agents:, :n_agents].max(1)
    whole = shield >= scene.param[:, P_SHIELD, :n_agents]
    rest = ((memory[:, 0] == 0) | (weak | dead).all(-1)) & ~(whole | dead).all(-1)  # [E]
    memory[:] = np.where(rest, 0, NO_TARGET)[:, None]
    foes = look.enemies(HEALTH) > 0
    chased = np.where(foes, look.battles.world.mark[:, TARGET, n_agents:], NO_ONE)
    in_danger = weak & (chased[:, :, None] == np.arange(n_agents)).any(1)  # [E, A]
    reach = (scene.param[:, P_RANGE] + scene.param[:, P_RADIUS])[:, n_agents:].max(1)[:, None]
    safe = gap_to_foe(look) > reach + scene.param[:, P_RADIUS, :n_agents] + MARGIN
    fighting = np.where(in_danger, flee(look), fight(look, look.distance))
    return np.where(rest[:, None], np.where(safe, STOP, flee(look)), fighting)
