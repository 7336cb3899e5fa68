"""Battles of scripted policies under a variant of the rules, on many start layouts at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from rltrain.battles.data.map_data import MapData
from rltrain.battles.data.spawn import SOUTH, Point, attack_goals, lattice, start_points
from rltrain.battles.engine.battles import Battles
from rltrain.battles.engine.world import M, Outcome, P, Scene, U
from rltrain.battles.options import Options
from rltrain.battles.scripted.policies import BattleDecisions, find_policy, heuristic_orders
from rltrain.common.seeding import seed_key

THREADS = 2
DIRECTIONS = {"E": 0.0, "N": 0.5 * math.pi, "W": math.pi, "S": SOUTH}
HEURISTIC = "heuristic_ai"  # the player that gives orders instead of actions


class Variant(NamedTuple):
    """One set of rules. Defaults are sourced values, or the values used so far."""

    name: str
    goals: str = "offsets"  # goals of a group's attack order: kept offsets, or one point
    keeps: str = "weapon"  # a target is kept within weapon range, or within scan range + 1 cell
    places: str = "own"  # a blocked melee unit looks for a place beside its own target, or any foe
    scan_every: int = 4  # loops
    contact: float = 1.0  # factor of the separation radii


class Layout(NamedTuple):
    """Start positions: the order of the places around a point, and whether measured positions are
    used. The defaults are the game's.
    """

    first: str = "S"  # direction of the first of several places at one distance, of DIRECTIONS
    turn: str = "ccw"  # the way to the others: ccw or cw
    mirrored: bool = False  # the enemies' places are turned by half a circle
    measured: bool = True

    def points(self, map_data: MapData) -> list[Point]:
        """Start positions in the order of ids."""
        own = partial(lattice, first=DIRECTIONS[self.first], turn=1 if self.turn == "ccw" else -1)

        def turned(step: float) -> Iterator[Point]:
            return ((-x, -y) for x, y in own(step))

        known = None if self.measured else {}
        return start_points(map_data, known, (own, turned if self.mirrored else own))


def open_battles(
    map_name: str, variant: Variant, layouts: Sequence[Layout], each: int, jitter: float = 0.0
) -> Battles:
    """``each`` battles on every layout, in this order, after their resets."""
    n = each * len(layouts)
    battles = Battles(
        map_name=map_name, n_envs=n, options=Options(), n_threads=THREADS, jitter=jitter
    )
    battles.scene = one_scene_per_battle(battles.scene, n)._replace(
        any_place=variant.places == "any",
        starts=np.zeros((0, 4, len(battles.map_data.unit_types)), np.float32),
    )
    apply_rules(battles.scene.param, variant)
    for k, layout in enumerate(layouts):
        lay_out(
            battles.map_data, battles.scene.first_unit[k * each : (k + 1) * each], layout, variant
        )
    battles.reset({e: seed_key(0, e, 0) for e in range(n)})
    phases = np.random.default_rng(0).integers(0, variant.scan_every, battles.world.mark.shape[::2])
    moving = battles.scene.param[:, P.SPEED] > 0
    battles.world.mark[:, M.PHASE] = np.where(moving, phases, battles.world.mark[:, M.PHASE])
    return battles


def one_scene_per_battle(scene: Scene, n: int) -> Scene:
    """The scene with tables of units of their own for n battles."""
    names = ("param", "damage", "affects", "type_bit", "first_unit", "first_mark")
    tables = {name: np.repeat(getattr(scene, name), n, axis=0) for name in names}
    return scene._replace(per_battle=1, **tables)


def apply_rules(param: np.ndarray, variant: Variant) -> None:
    """The rules of a variant that are values of the tables [E, len(P), units]."""
    moving = param[:, P.SPEED] > 0
    scanned = np.where(moving, param[:, P.SCAN] + 1, param[:, P.KEEP])
    param[:, P.KEEP] = scanned if variant.keeps == "scan" else param[:, P.KEEP]
    param[:, P.SCAN_EVERY] = np.where(moving, variant.scan_every, param[:, P.SCAN_EVERY])
    param[:, P.DISC] *= variant.contact


def lay_out(map_data: MapData, first_unit: np.ndarray, layout: Layout, variant: Variant) -> None:
    """Write the start positions and goals of a layout into tables [E, len(U), units]."""
    points = layout.points(map_data)
    first_unit[:, [U.X, U.Y]] = np.array(points).T
    if map_data.attack_point is not None:
        offsets = variant.goals == "offsets"
        goals = attack_goals(map_data, points) if offsets else [map_data.attack_point] * len(points)
        first_unit[:, [U.GOAL_X, U.GOAL_Y]] = np.array(goals).T


def win_rates(
    map_name: str,
    variant: Variant,
    player: str,
    layouts: Sequence[Layout],
    each: int,
    jitter: float = 0.0,
) -> list[float]:
    """Win rate of a scripted player on every layout, between 0 and 1."""
    battles = open_battles(map_name, variant, layouts, each, jitter)
    if player == HEURISTIC:
        battles.orders = BattleDecisions(battles, partial(heuristic_orders, rest=False))
    decide = BattleDecisions(battles, find_policy("stop" if player == HEURISTIC else player))
    while not battles.ended.all():
        battles.step(decide())
    won = battles.world.outcome == Outcome.WIN
    return [float(rate) for rate in won.reshape(len(layouts), each).mean(1)]
