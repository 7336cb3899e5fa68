"""Battles with hand-placed units, and a player for them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rltrain.battles.engine import teams
from rltrain.battles.engine.battles import Battles
from rltrain.battles.engine.fighting.weapons import fire, land_hits
from rltrain.battles.engine.world import M, Order, P, U
from rltrain.battles.options import Options
from rltrain.env.smac import StarCraft2Env
from rltrain.env.smac.vector import SmacVectorEnv

STOP, NORTH, SOUTH, EAST, WEST, ATTACK = range(1, 7)


def write_starts(folder: Path, starts: list[Any], name: str = "3m") -> str:
    """A file of recorded start positions; its path."""
    path = folder / "game.json"
    path.write_text(json.dumps({"maps": {name: {"starts": starts}}}), encoding="utf-8")
    return str(path)


def seeds(copy: int, k: int) -> int:
    return 1000 * copy + k


@pytest.fixture
def make() -> Callable[..., SmacVectorEnv]:
    """A vector environment after its reset."""

    def build(map_name: str = "3m", n_envs: int = 1, **options: Any) -> SmacVectorEnv:
        env = SmacVectorEnv(map_name=map_name, n_envs=n_envs, **options)
        env.reset(seeds)
        return env

    return build


@pytest.fixture
def battle() -> Callable[..., Battles]:
    """One battle after its reset."""

    def build(map_name: str = "3m", seed: int = 0, rules: str = "sc2", **options: Any) -> Battles:
        battles = Battles(map_name=map_name, n_envs=1, options=Options(**options), rules=rules)
        battles.reset({0: seed})
        return battles

    return build


@pytest.fixture
def scenario() -> Callable[..., Battles]:
    """Battles of a SMACv2 scenario after their resets, copy e with seed e, published settings."""

    def build(map_name: str = "protoss_5_vs_5", n_envs: int = 1, **options: Any) -> Battles:
        chosen = Options(**({"obs_own_pos": True, "use_unit_ranges": True} | options))
        battles = Battles(map_name=map_name, n_envs=n_envs, options=chosen)
        battles.reset({e: e for e in range(n_envs)})
        return battles

    return build


def strike(battles: Battles, i: int, j: int, loops: int = 10) -> None:
    """Unit i of battle 0 attacks unit j once, wherever they are; it hits within ``loops``."""
    unit, mark, param, damage = tables(battles)
    agents, affects = battles.map_data.n_agents, battles.scene.affects[0]
    fire(unit, mark, param, damage, affects, agents, 0, np.int32(i), np.int32(j))
    for loop in range(loops):
        land_hits(unit, mark, param, damage, agents, loop)


def tables(battles: Battles) -> tuple[np.ndarray, ...]:
    """Of battle 0: units, marks, parameters, damage."""
    world, scene = battles.world, battles.scene
    return world.unit[0], world.mark[0], scene.param[0], scene.damage[0]


def steps(battles: Battles, n: int, **chosen: int) -> None:
    """So many steps with these actions; other agents stop."""
    for _ in range(n):
        battles.step(actions(battles, **chosen))


def enlist(battles: Battles, *names: str) -> None:
    """Makes the units of battle 0 be of these types, unhurt."""
    battles.world.kind[0] = [battles.map_data.drawn_from.index(name) for name in names]
    teams.fit_all(battles.roster, battles.scene, battles.world)
    unit, param = battles.world.unit[0], battles.scene.param[0]
    unit[[U.HEALTH, U.SHIELD, U.ENERGY]] = param[[P.HEALTH, P.SHIELD, P.ENERGY]]
    for i in range(battles.map_data.n_agents, len(names)):
        battles.world.mark[0, M.ORDER, i] = Order.HEAL_MOVE if param[P.ENERGY, i] else Order.CHASE
    battles.refresh()


def place(battles: Battles, points: dict[int, tuple[float, float]]) -> Battles:
    """Puts the units of ``points`` there and leaves all others dead in a corner; enemies are
    numbered in the order of creation."""
    unit = battles.world.unit[0]
    battles.world.enemies[0] = np.arange(battles.map_data.n_agents, unit.shape[1])
    for i in range(unit.shape[1]):
        if i in points:
            unit[U.X, i], unit[U.Y, i] = points[i]
        else:
            unit[U.HEALTH, i] = unit[U.WINDUP, i] = 0
            battles.world.mark[0, M.BURST, i] = 1
    battles.world.mark[0, M.PHASE] = 0
    battles.refresh()
    return battles


def actions(battles: Battles, **chosen: int) -> np.ndarray:
    """``actions(b, a0=EAST)``: the named agents' actions, no-op for the dead, stop for the rest."""
    out = np.where(battles.avail[:, :, 0] == 1, 0, STOP)
    for name, action in chosen.items():
        out[0, int(name[1:])] = action
    return out


def random_legal(avail: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """[E, A] uniformly drawn available actions."""
    return np.where(avail == 1, rng.random(avail.shape), -1.0).argmax(-1)


def legal(env: Any, rng: np.random.Generator) -> np.ndarray:
    """[E, A] random available actions; 0 where an episode is over."""
    return np.where(env.last[:, None], 0, random_legal(env.avail_actions, rng))


def env_of(map_name: str = "3m", **options) -> StarCraft2Env:
    env = StarCraft2Env(map_name=map_name, seed=0, **options)
    env.reset()
    return env
