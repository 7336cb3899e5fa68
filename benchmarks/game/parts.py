"""The parts of the comparison: each returns rows with a value of the engine and of the game."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from benchmarks.game.data import CENTER, MAX_DISTANCE, Folder, Records
from benchmarks.game.play import (
    FIRST_TARGET,
    NO_OP,
    SEED,
    STOP,
    Followed,
    health_of,
    number_as_created,
    open_battles,
    pair,
    places_of,
)
from benchmarks.game.policies import mean_rates, play
from rltrain.battles.data.maps import find_map
from rltrain.battles.engine.battles import Battles
from rltrain.battles.engine.world import U

WALKED = ("8m_mappo", "2s3z_qmix", "2s3z_coma", "3m_coma", "3m_qmix")
REPLAYED = ("3m_qmix", "2s3z_qmix", "8m_mappo", "2s3z_coma", "3m_coma")
REPEAT: Mapping[str, int] = {"3m_qmix": 16, "2s3z_qmix": 16}  # for replays with one battle; else 2
STEPS = 16  # compared steps of a fight
ORDERS = ("CES", "SEC", "ESC", "CSE")  # numbers of the enemies of 3m in the game, a quarter each
EPISODES = 64
WALK_GOALS = {1: 0.03, 4: 0.06, 6: 0.08, 8: 0.1}  # cells from the game after so many steps


class Row(NamedTuple):
    """One row of the table: the engine should be ``tolerance`` from the game at most."""

    name: str
    engine: float
    game: float
    tolerance: float

    @property
    def error(self) -> float:
        """Distance from the game in tolerances."""
        return abs(self.engine - self.game) / self.tolerance


def first(data: Folder) -> Iterator[Row]:
    """The first observation and state of an episode."""
    for name, starts in data.starts.items():
        battles, row = open_battles(name, 1), find_map(name)
        at, n = places_of(battles)[0], row.n_agents
        gaps = []
        for start in starts:
            types = [f"ally {t}" for t in row.ally_types], [f"enemy {t}" for t in row.enemy_types]
            wanted = [p for t in dict.fromkeys(row.ally_types) for p in start["allies"][t]]
            to = pair(np.array(wanted), at[:n], types[0], types[0])
            gaps.append([float(np.abs(at[to] - wanted).max())])
            goal = np.array(row.attack_point) - np.mean(
                [p for t in start["enemies"].values() for p in t], 0
            )
            kinds = [t for t, points in start["enemies"].items() for _ in points]
            ends = np.array([p for points in start["enemies"].values() for p in points])
            speed = np.array([row.units[t].speed for t in kinds])[:, None] / 16
            ends = ends + speed * goal / np.hypot(*goal)
            to = pair(ends, at[n:], [f"enemy {t}" for t in kinds], types[1])
            gaps[-1].append(float(np.abs(at[n:][to] - ends).max()))
        agents, enemies = min(gaps)
        yield Row(f"{name}: largest error of an agent's place", agents, 0, 0.005)
        yield Row(f"{name}: largest error of an enemy's place", enemies, 0, 0.01)
        state = battles.state[0]
        shown = CENTER + MAX_DISTANCE * state[2:4]
        yield Row(
            f"{name}: error of agent 0 in the state",
            float(np.abs(shown - at[0]).max()) / MAX_DISTANCE,
            0,
            1e-4,
        )
    yield from first_of_3m(data.records)


def first_of_3m(records: Records) -> Iterator[Row]:
    """States and observations of 3m number by number, and the enemies' numbers."""
    battles = open_battles("3m", 1000)
    rows = records.offset[:-1]
    game = {row.tobytes(): k for k, row in enumerate(np.round(records.place[rows][:, 3:], 2))}
    kinds = np.stack([records.place[rows[k], 3:] for k in game.values()])
    states, obs = records.state[rows[list(game.values())]], records.obs[rows[list(game.values())]]
    at = np.take_along_axis(places_of(battles), battles.world.enemies[..., None], 1)
    gap = np.abs(at[:, None] - kinds[None]).sum((2, 3))
    nearest = gap.argmin(1)
    error = np.abs(battles.state[:, :21] - states[nearest, :21]).max()
    yield Row("3m: largest error of a number in the state", float(error), 0, 1e-4)
    error = np.abs(battles.obs - obs[nearest]).max()
    yield Row("3m: largest error of a number in an observation", float(error), 0, 1e-4)
    for name, share in order_shares(at).items():
        yield Row(f"3m: share of battles with enemies {name}", share, 0.25, 0.05)


def order_shares(enemies: np.ndarray) -> Mapping[str, float]:
    """How often the enemies [E, 3, 2] of 3m are numbered in each order of the game: C the unit on
    the point, S and E its neighbors."""
    offset = enemies - enemies.mean(1, keepdims=True)
    south, east = offset[..., 1].argmin(1), offset[..., 0].argmax(1)
    names = []
    for s, e in zip(south, east, strict=True):
        letters = ["C"] * 3
        letters[s], letters[e] = "S", "E"
        names.append("".join(letters))
    return {name: names.count(name) / len(names) for name in ORDERS}


def walk(data: Folder) -> Iterator[Row]:
    """Places under recorded orders before the first shot, in cells."""
    records = data.records
    battles = open_battles("3m", len(records), data.starts["3m"], limit=10_000)
    first_rows, kinds = records.offset[:-1], ["marine"] * 3
    at = places_of(battles)
    recorded = records.place[first_rows]
    mine = np.array([pair(p[:3], q[:3], kinds, kinds) for p, q in zip(recorded, at, strict=True)])
    foes = np.array([pair(p[3:], q[3:], kinds, kinds) for p, q in zip(recorded, at, strict=True)])
    contact = np.array([records.contact(k) or 0 for k in range(len(records))])
    each = np.arange(len(records))[:, None]
    for t in range(8):
        rows = np.minimum(first_rows + t, records.offset[1:] - 1)
        action = np.full((len(records), 3), STOP)
        chosen = records.action[rows]
        action[each, mine] = np.where((chosen >= 1) & (chosen < FIRST_TARGET), chosen, STOP)
        action[battles.avail[:, :, NO_OP] > 0] = NO_OP
        battles.step(np.where(battles.avail[each, np.arange(3), action] > 0, action, STOP))
        at, use = places_of(battles), contact >= t + 1
        recorded = records.place[np.minimum(first_rows + t + 1, records.offset[1:] - 1)]
        if t + 1 in WALK_GOALS and use.any():
            gap = np.hypot(*np.moveaxis(recorded[:, :3] - at[each, mine], -1, 0))[use]
            yield Row(f"3m: agents after {t + 1} steps", float(gap.mean()), 0, WALK_GOALS[t + 1])
        if t + 1 == 5 and use.any():
            gap = np.hypot(*np.moveaxis(recorded[:, 3:] - at[each, 3 + foes], -1, 0))[use]
            yield Row("3m: enemies at loop 40", float(gap.mean()), 0, 0.15)
    for name in WALKED:
        orders = data.orders(name)
        played = Followed(orders, data.starts[orders.map], repeat=1, steps=6)
        gaps = defaultdict(list)
        for team, loop, cells in played.gaps:
            gaps[team, loop].append(cells)
        for loop in (8, 16, 24):
            if gaps["agents", loop]:
                yield Row(
                    f"{name}: agents at loop {loop}", float(np.mean(gaps["agents", loop])), 0, 0.1
                )
        if gaps["enemies", 40]:
            yield Row(f"{name}: enemies at loop 40", float(np.mean(gaps["enemies", 40])), 0, 0.15)


class Fights(NamedTuple):
    """3m from the recorded states just before contact: health and gaps of the places (NaN for the
    dead) [battles, steps + 1, 6], and battles won, of the game and of the engine."""

    game: np.ndarray
    engine: np.ndarray
    won: tuple[int, int]
    gaps: np.ndarray
    cooldowns: tuple[np.ndarray, np.ndarray]  # of the agents [battles, steps + 1, 3]


def fight(records: Records, limit: int = 60) -> Fights:
    """All battles whose contact is in the steps 3 to 12, in the engine on the recorded orders."""
    chosen = [k for k in range(len(records)) if 3 <= (records.contact(k) or 0) <= 12]
    start = np.array([records.contact(k) for k in chosen])
    battles = open_battles("3m", len(chosen))
    first_rows, ends = records.offset[chosen], records.offset[np.array(chosen) + 1]
    put(battles, records, first_rows, start)
    n = limit + 1
    health, gaps = np.zeros((2, len(chosen), n, 6)), np.full((len(chosen), n, 6), np.nan)
    loads = np.zeros((2, len(chosen), n, 3))

    def look(t: int) -> None:
        rows = np.minimum(first_rows + start + t, ends - 1)
        health[0, :, t], health[1, :, t] = records.health[rows], health_of(battles)
        loads[0, :, t], loads[1, :, t] = (
            records.cooldown[rows],
            15 * battles.state[:, [1, 5, 9]],
        )
        both = (health[:, :, t] > 0).all(0) & (first_rows + start + t < ends)[:, None]
        gap = np.hypot(*np.moveaxis(places_of(battles) - records.place[rows], -1, 0))
        gaps[:, t] = np.where(both, gap, np.nan)

    look(0)
    for t in range(limit):
        rows = first_rows + start + t
        chosen_action = records.action[np.minimum(rows, ends - 1)]
        played = (rows < ends - 1)[:, None]
        action = possible(battles, np.where(played, chosen_action, STOP))
        stopped = battles.world.clock >= np.minimum(ends - first_rows + 9, limit - 1)
        if (battles.ended | stopped).all():
            health[1, :, t:] = health[1, :, t, None]
            health[0, :, t:] = health[0, :, t, None]
            break
        battles.step(action)
        look(t + 1)
    won = records.won[chosen].sum(), (battles.world.outcome == 1).sum()
    return Fights(health[0], health[1], (int(won[0]), int(won[1])), gaps, (loads[0], loads[1]))


def put(battles: Battles, records: Records, first_rows: np.ndarray, start: np.ndarray) -> None:
    """Places the units of 3m as they were recorded at these steps, the enemies on their way."""
    unit = battles.world.unit
    unit[:, [U.X, U.Y]] = records.place[first_rows + start].transpose(0, 2, 1)
    begun = records.place[first_rows][:, 3:]
    ends = begun - begun.mean(1, keepdims=True) + battles.map_data.attack_point
    unit[:, U.GOAL_X, 3:], unit[:, U.GOAL_Y, 3:] = ends[..., 0], ends[..., 1]
    unit[:, U.VX, 3:] = -battles.map_data.unit_types[0].speed
    battles.world.clock[:] = start
    number_as_created(battles)


def possible(battles: Battles, action: np.ndarray) -> np.ndarray:
    """Actions of 3m; in place of one that is not available an attack on the first enemy in range,
    else a stop."""
    attack = battles.avail[:, :, FIRST_TARGET:]
    other = np.where(attack.any(2), FIRST_TARGET + attack.argmax(2), STOP)
    each, agents = np.arange(len(action))[:, None], np.arange(action.shape[1])
    action = np.where((action > NO_OP) & (battles.avail[each, agents, action] > 0), action, other)
    return np.where(battles.avail[:, :, NO_OP] > 0, NO_OP, action)


def fights(data: Folder) -> Iterator[Row]:
    """The course of fights that begin at recorded states."""
    found = fight(data.records)
    game, engine = (focus(health[:, :, :3]) for health in (found.game, found.engine))
    health = [h[:, :, :3].sum(2).mean(0) for h in (found.game, found.engine)]
    foes = [h[:, :, 3:].sum(2).mean(0) for h in (found.game, found.engine)]
    yield Row("battles won", found.won[1], found.won[0], 35)
    yield Row("step of the first own death", engine[1], game[1], 0.5)
    yield Row("share of the first 54 damage on one agent", engine[0], game[0], 0.03)
    for t in (2, 6, 10):
        yield Row(f"agents' health after {t} steps", health[1][t], health[0][t], 3)
    for t in (2, 6, 10):
        yield Row(f"enemies' health after {t} steps", foes[1][t], foes[0][t], 3)
    gaps = found.gaps
    for t in (1, 4):
        yield Row(
            f"enemies' distance from their places after {t} steps",
            float(np.nanmean(gaps[:, t, 3:])),
            0,
            0.15,
        )


def focus(health: np.ndarray) -> tuple[float, float]:
    """Share of the first 54 damage that falls on one agent, and the step of the first death: means
    over battles [battles, steps, 3]."""
    loss = 45.0 - health
    total = loss.sum(2)
    enough, dead = total >= 54, (health <= 0).any(2)
    at = enough.argmax(1)
    k = np.arange(len(loss))
    share = (loss.max(2) / np.maximum(total, 1))[k, at][enough.any(1)]
    return float(share.mean()), float(dead.argmax(1)[dead.any(1)].mean())


def damage(data: Folder) -> Iterator[Row]:
    """Cooldowns and volleys of the agents of 3m."""
    found = fight(data.records)
    shown = []
    for health, loads in zip((found.game, found.engine), found.cooldowns, strict=True):
        before, after = loads[:, :-1], loads[:, 1:]
        shot = (after > before) & (after > 0)
        lost = (health[:, :-1, 3:] - health[:, 1:, 3:]).sum(2)
        whole = np.abs(lost / 6 - np.round(lost / 6)) < 0.01
        shown.append((after[shot].mean(), after[shot].max(), whole[lost > 0.01].mean()))
    (a, b, c), (x, y, z) = shown
    yield Row("mean cooldown after a shot, loops", float(x), float(a), 0.5)
    yield Row("largest cooldown after a shot, loops", float(y), float(b), 0.5)
    yield Row("share of volleys that are whole shots of 6", float(z), float(c), 0.02)


def deaths(data: Folder) -> Iterator[Row]:
    """Loops of deaths under replayed orders, up to a battle's first order that was impossible."""
    for name in REPLAYED:
        orders = data.orders(name)
        played = Followed(orders, data.starts[orders.map], REPEAT.get(name, 2))
        n = len(played.deaths)
        yield Row(
            f"{name}: share of orders that are impossible", float(np.mean(played.shares)), 0, 0.15
        )
        for side, team in enumerate(("agent", "enemy")):
            for k in range(3):
                both, count = [], np.zeros(2)
                for own, game, end in zip(played.deaths, played.game, played.replaced, strict=True):
                    loops = [
                        sorted(x[side])[k] if len(x[side]) > k else np.inf for x in (own, game)
                    ]
                    here = [loop <= end and np.isfinite(loop) for loop in loops]
                    count += here
                    if all(here):
                        both.append(loops[0] - loops[1])
                text = f"{name}: {team} death {k + 1}"
                if count[1] / n >= 0.05 or count[0] / n >= 0.05:
                    yield Row(f"{text}, share of battles", count[0] / n, count[1] / n, 0.15)
                if both:
                    yield Row(f"{text}, median error in loops", abs(float(np.median(both))), 0, 10)


def policies(data: Folder, only: str = "") -> Iterator[Row]:
    """Win rates of policies that were trained in the game, one row per map and algorithm."""
    found = mean_rates(play(data, EPISODES, SEED, only))
    for name, (engine, low, high, _) in found.items():
        yield Row(name, 100 * engine, 100 * min(max(engine, low), high), 15)
    reached = sum(engine >= 0.8 * game for engine, _, _, game in found.values())
    yield Row("values that reach 0.8 of the game's rate", reached, len(found), 5)


PARTS: Mapping[str, Callable[[Folder], Iterator[Row]]] = {
    "first": first,
    "walk": walk,
    "damage": damage,
    "fights": fights,
    "deaths": deaths,
    "policies": policies,
}
WEIGHTS: Mapping[str, float] = {
    "first": 1, "walk": 2, "damage": 1, "fights": 3, "deaths": 3, "policies": 4,
}  # fmt: skip
"""Of the parts in the criterion."""
MOST = 5.0  # a row counts at most so many tolerances


def criterion(parts: Mapping[str, list[Row]]) -> float:
    """Weighted mean of the parts' mean errors in tolerances; smaller is better."""
    weights = sum(WEIGHTS[name] for name in parts)
    means = {name: np.mean([min(row.error, MOST) for row in rows]) for name, rows in parts.items()}
    return float(sum(WEIGHTS[name] * means[name] for name in parts) / weights)
