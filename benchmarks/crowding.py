"""How many of 24 zerglings strike six standing zealots, compared with the geometric maximum."""

from __future__ import annotations

import math

import numpy as np

from benchmarks.variant_battles import Layout, Variant, open_battles
from rltrain.battles.data.spawn import lattice
from rltrain.battles.data.units import LOOPS_PER_SECOND, UNITS
from rltrain.battles.engine.world import M, P, U

SECONDS = (1, 2, 3)
BATTLES = 32
CENTER, FROM = (20.0, 19.0), 7.0  # of the zealots, and how far east of them the zerglings begin
ZEALOTS, ZERGLINGS = 6, 24


def strikers(variant: Variant) -> list[float]:
    """Mean number of zerglings in striking position 1, 2 and 3 seconds after the first one. No unit
    loses health."""
    battles = open_battles("corridor", variant, [Layout()], BATTLES)
    unit = battles.world.unit
    for first, name, count, x in (
        (0, "zealot", ZEALOTS, 0.0),
        (ZEALOTS, "zergling", ZERGLINGS, FROM),
    ):
        places = lattice(2 * UNITS[name].radius)
        for i, (dx, dy) in zip(range(first, first + count), places, strict=False):
            unit[:, U.X, i], unit[:, U.Y, i] = CENTER[0] + x + dx, CENTER[1] + dy
    unit[:, U.GOAL_X, ZEALOTS:], unit[:, U.GOAL_Y, ZEALOTS:] = CENTER
    battles.scene = battles.scene._replace(loops=1)
    began, counts = np.full(BATTLES, -1), np.zeros((len(SECONDS), BATTLES))
    stand = np.ones(battles.avail.shape[:2], np.int64)
    for loop in range(20 * LOOPS_PER_SECOND):
        unit[:, U.HEALTH] = battles.scene.param[:, P.HEALTH]
        battles.step(stand)
        striking = battles.world.mark[:, M.STANDS, ZEALOTS:].sum(1)
        began[(began < 0) & (striking > 0)] = loop
        for k, seconds in enumerate(SECONDS):
            due = (began >= 0) & (loop == began + seconds * LOOPS_PER_SECOND)
            counts[k, due] = striking[due]
    return [float(mean) for mean in counts.mean(1)]


def geometric_maximum(contact: float = 1.0) -> int:
    """The most zerglings that fit around the six zealots within reach of one, their discs apart:
    the best greedy walk along the line of all places at reach."""
    zealot, zergling = UNITS["zealot"], UNITS["zergling"]
    reach = zergling.weapon_range + zergling.radius + zealot.radius
    centers = np.array([p for p, _ in zip(lattice(2 * zealot.radius), range(6), strict=False)])
    angle = np.linspace(0, 2 * math.pi, 720, endpoint=False)
    ring = centers[:, None] + reach * np.stack([np.cos(angle), np.sin(angle)], -1)
    line = ring.reshape(-1, 2)
    gaps = np.hypot(*(line[:, None] - centers).transpose(2, 0, 1)).min(1)
    line = line[gaps >= reach - 1e-6]
    middle = centers.mean(0)
    line = line[np.argsort(np.arctan2(*(line - middle).T[::-1]))]
    apart = 2 * zergling.separation_radius * contact
    return max(_walk(np.roll(line, -shift, axis=0), apart) for shift in range(0, len(line), 40))


def _walk(line: np.ndarray, apart: float) -> int:
    taken: list[np.ndarray] = []
    for point in line:
        if all(np.hypot(*(point - other)) >= apart for other in taken):
            taken.append(point)
    return len(taken)
