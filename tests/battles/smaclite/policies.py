"""The scripted players of the SMAClite measurements, for all battles at once."""

from dataclasses import replace

import numpy as np

from rltrain.battles.data.map_data import MapData
from rltrain.battles.engine.battles import Battles
from rltrain.battles.engine.world import P, U
from rltrain.battles.smaclite.maps import find_map_under
from tests.battles.conftest import ATTACK, EAST, NORTH, SOUTH, STOP, WEST, random_legal

CLOSE_ENOUGH = 2.0  # distance to which healers approach


def as_created(map_name: str) -> MapData:
    """A map with SMAClite's own ids: units in the order of creation, healers first."""
    row = find_map_under("smaclite", map_name)
    return replace(row, sorts_agents=False, enemy_order=())


def choose(policy: str, battles: Battles, rng: np.random.Generator) -> np.ndarray:
    """Actions [E, A] of "random", "stop", "closest" (nearest enemy in reach), "focus" (weakest in
    reach), both advancing while none is, "hold" or "holdfocus", which stand then."""
    if policy == "random":
        return random_legal(battles.avail, rng)
    if policy == "stop":
        return np.where(battles.avail[:, :, 0] == 1, 0, STOP)
    unit, agents = battles.world.unit, battles.map_data.n_agents
    param = battles.scene.param[0]
    place = np.stack([unit[:, U.X], unit[:, U.Y]], -1).astype(np.float64)
    gap = np.linalg.norm(place[:, None] - place[:, :agents, None], axis=-1)  # [E, A, U]
    alive, heals = unit[:, U.HEALTH] > 0, param[P.ENERGY] > 0
    in_reach = battles.avail[:, :, ATTACK:] == 1
    enemy_gap = np.where(alive[:, None, agents:], gap[:, :, agents:], np.inf)
    strength = (unit[:, U.HEALTH] + unit[:, U.SHIELD])[:, None, agents:].astype(np.float64)
    key = strength if policy.endswith("focus") else enemy_gap
    key = np.where(in_reach, np.broadcast_to(key, in_reach.shape), np.inf)
    goal = agents + enemy_gap.argmin(-1)
    action = np.where(in_reach.any(-1), ATTACK + key.argmin(-1), STOP)
    walks = ~in_reach.any(-1) & (not policy.startswith("hold"))
    for i in np.flatnonzero(heals[:agents]):
        share = unit[:, U.HEALTH, :agents] / param[P.HEALTH, :agents]
        patient = alive[:, :agents] & ~heals[:agents]
        hurt = patient & (share < 1)
        near_hurt = hurt & in_reach[:, i, :agents]
        wanted = np.where(hurt.any(1, keepdims=True), hurt, patient)
        weakest = np.where(near_hurt, share, np.inf).argmin(-1)
        action[:, i] = np.where(near_hurt.any(-1), ATTACK + weakest, STOP)
        away = np.where(wanted, gap[:, i, :agents], np.inf)
        goal[:, i] = away.argmin(-1)
        walks[:, i] = ~near_hurt.any(-1) & wanted.any(-1) & (away.min(-1) > CLOSE_ENOUGH)
    way = np.take_along_axis(place, goal[:, :, None], 1) - place[:, :agents]
    action = np.where(walks, toward(way[..., 0], way[..., 1], battles.avail), action)
    return np.where(battles.avail[:, :, 0] == 1, 0, action)


def toward(dx: np.ndarray, dy: np.ndarray, avail: np.ndarray) -> np.ndarray:
    """[E, A]: the move along the longer axis, else the other one, else stop."""
    across, along = np.where(dx > 0, EAST, WEST), np.where(dy > 0, NORTH, SOUTH)
    longer = np.abs(dx) > np.abs(dy)
    first, second = np.where(longer, across, along), np.where(longer, along, across)
    can = [np.take_along_axis(avail, move[..., None], -1)[..., 0] == 1 for move in (first, second)]
    return np.where(can[0], first, np.where(can[1], second, STOP))
