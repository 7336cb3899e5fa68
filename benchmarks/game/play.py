"""Battles of the engine that follow recorded orders."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.game.data import Orders, Starts, first_places, layout_of, types_of
from rltrain.battles.engine.battles import Battles
from rltrain.battles.engine.world import NO_ONE, U
from rltrain.battles.options import Options

NO_OP, STOP, FIRST_TARGET, LOOPS = 0, 1, 6, 8
MOVES = {"N": 2, "S": 3, "E": 4, "W": 5}
SEED = 1000
WALKED = 0.25  # cells; more than a unit walks per game loop


def open_battles(
    map_name: str, n: int, starts: Starts = (), seed: int = SEED, limit: int | None = None
) -> Battles:
    """n battles after their resets; the first seeds follow ``seed``."""
    battles = Battles(map_name=map_name, n_envs=n, options=Options(), starts=starts)
    if limit is not None:
        battles.scene = battles.scene._replace(limit=limit)
    battles.reset({e: seed + e for e in range(n)})
    return battles


def places_of(battles: Battles) -> np.ndarray:
    """Positions [E, units, 2]."""
    return battles.world.unit[:, [U.X, U.Y]].transpose(0, 2, 1).astype(float)


def number_as_created(battles: Battles) -> None:
    """Number the enemies of all battles in the order of creation, as recordings have them."""
    agents = battles.map_data.n_agents
    battles.world.enemies[:] = np.arange(agents, agents + battles.map_data.n_enemies)
    battles.refresh()


def health_of(battles: Battles) -> np.ndarray:
    """Health [E, units]."""
    return battles.world.unit[:, U.HEALTH].astype(float)


def pair(places: np.ndarray, at: np.ndarray, types: Sequence[str], own: Sequence[str]) -> list[int]:
    """For every recorded unit the unit of the engine: of its type, nearest pairs first."""
    gap = np.hypot(*np.moveaxis(places[:, None] - at[None], -1, 0))
    gap[np.array(types)[:, None] != np.array(own)[None]] = np.inf
    to = [NO_ONE] * len(places)
    for flat in np.argsort(gap, axis=None, kind="stable"):
        k, j = divmod(int(flat), len(at))
        if to[k] == NO_ONE and j not in to and np.isfinite(gap[k, j]):
            to[k] = j
    return to


class Followed:
    """Every finished battle of a replay, ``repeat`` times in the engine on recorded orders.

    Impossible orders become stops. ``deaths`` has per battle and side the loops at which units
    died, ``game`` the same of the game, ``replaced`` the loop of the first order that was
    impossible (inf: none). ``gaps`` are distances (team, loop, cells) from recorded places.
    """

    def __init__(self, orders: Orders, starts: Starts, repeat: int, steps: int = 1000) -> None:
        found = [b for b in orders.battles if b["finished"]]
        layouts = [layout_of(battle, starts) for battle in found]
        self.deaths: list[tuple[list[float], list[float]]] = []
        self.game: list[tuple[list[float], list[float]]] = []
        self.replaced: list[float] = []
        self.shares: list[float] = []  # of orders that were impossible
        self.gaps: list[tuple[str, int, float]] = []
        for layout, start in enumerate(starts):
            chosen = [b for b, at in zip(found, layouts, strict=True) if at == layout]
            if chosen:
                self._play(orders.map, chosen * repeat, start, steps)

    def _play(self, map_name: str, chosen: list[dict], start: dict, steps: int) -> None:
        battles = open_battles(map_name, len(chosen), [start], limit=10_000)
        number_as_created(battles)
        row, n = battles.map_data, battles.map_data.n_agents
        own = [f"ally {t}" for t in row.ally_types] + [f"enemy {t}" for t in row.enemy_types]
        to = []
        for e, battle in enumerate(chosen):
            types = types_of(battle)
            named = [f"{'ally' if k < n else 'enemy'} {t}" for k, t in enumerate(types)]
            places, at = first_places(battle, start), places_of(battles)[e]
            to.append(pair(places, at, named, own))
            move_units(battles, e, to[-1], places - at[to[-1]])
        battles.refresh()
        rows = [dict(battle["steps"]) for battle in chosen]
        replaced, counts = [np.inf] * len(chosen), np.zeros((len(chosen), 2))
        deaths: list[tuple[list[float], list[float]]] = [([], []) for _ in chosen]
        alive, t = health_of(battles) > 0, 0
        while not battles.ended.all() and t < steps:
            at, action = places_of(battles), np.full((len(chosen), n), STOP)
            for e in np.flatnonzero(~battles.ended):
                orders = rows[e].get(LOOPS * t, {})
                for k in range(n):
                    me, order = to[e][k], orders.get(str(k))
                    if battles.avail[e, me, NO_OP]:
                        action[e, me] = NO_OP
                        continue
                    self._look(order, at[e], me, to[e], n, alive[e], t)
                    want = wanted(order, to[e], n)
                    if want is not None and battles.avail[e, me, want]:
                        action[e, me] = want
                    elif order is not None:
                        replaced[e], counts[e, 0] = min(replaced[e], LOOPS * t), counts[e, 0] + 1
                    counts[e, 1] += order is not None
            battles.step(action)
            t += 1
            now = health_of(battles) > 0
            for e, j in np.argwhere(alive & ~now):
                deaths[e][int(j >= n)].append(LOOPS * t - LOOPS / 2)  # the middle of the step
            alive = now
        self.deaths += deaths
        self.replaced += replaced
        self.shares += (counts[:, 0] / np.maximum(counts[:, 1], 1)).tolist()
        for battle in chosen:
            loops = [
                sorted(d[0] for d in battle["deaths"] if (d[1] >= n) == side) for side in (0, 1)
            ]
            self.game.append((loops[0], loops[1]))

    def _look(self, order, at, me, to, n, alive, t) -> None:  # type: ignore[no-untyped-def]
        """Notes how far units are from the places that an order tells."""
        if order is None or order[0] == "stop":
            return
        there = to[order[1]] if order[0] == "attack" and order[1] is not None else None
        if order[0] == "move":
            self.gaps.append(("agents", LOOPS * t, float(np.hypot(*(at[me] - order[2:])))))
        elif there is not None and there >= n and alive[there]:
            self.gaps.append(("enemies", LOOPS * t, float(np.hypot(*(at[there] - order[2:])))))


def move_units(battles: Battles, e: int, to: Sequence[int], by: np.ndarray) -> None:
    """Moves units that begin elsewhere, and the ends of their ways, by so many cells [units, 2];
    less than the enemies walk before the first observation is not moved."""
    by = np.where(np.abs(by).max(1, keepdims=True) > WALKED, by, 0)
    unit = battles.world.unit[e]
    unit[U.X, to] += by[:, 0]
    unit[U.Y, to] += by[:, 1]
    unit[U.GOAL_X, to] += by[:, 0]
    unit[U.GOAL_Y, to] += by[:, 1]


def wanted(order: list | None, to: list[int], n_agents: int) -> int | None:
    """The action of a recorded order; None if there is none."""
    if order is None:
        return None
    if order[0] == "move":
        return MOVES[order[1]]
    if order[0] == "stop":
        return STOP
    if order[1] is None or order[1] < n_agents:
        return None
    return FIRST_TARGET + to[order[1]] - n_agents
