"""Events of an env step, derived from the tables before and after it: shots, healing, explosions
and deaths; and their animations. Times are env steps. A new kind of event is one more function in
``ANIMATIONS``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import ImageDraw

from rltrain.battles.data.units import WEAPONS
from rltrain.battles.engine.battles import Battles
from rltrain.battles.engine.fighting.weapons import BEAM_LENGTH, BLAST_RADIUS
from rltrain.battles.engine.world import NO_ONE, M, P, U
from rltrain.battles.render.sprites import TEAMS

MELEE = 1.0  # weapons that reach less far strike instead of shooting, cells
# how long shots, the dead and explosions are seen
FLASH_TIME, FADE_TIME, BLAST_TIME = 0.5, 1.5, 1.0

FLASH = ((255, 255, 200), (255, 224, 170))  # of agents, of enemies
CORE = (255, 255, 255)
FIRE = ((255, 250, 190), (255, 170, 50), (220, 80, 30))
MENDING = (120, 255, 150)
HEAT = ((140, 230, 255), (255, 150, 60))


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
        found.append(Event("death", start + 1, start + 1 + FADE_TIME, i))
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
    return Event(kind, begin, begin + FLASH_TIME, i, j)


def shares(state: Snapshot, param: np.ndarray) -> np.ndarray:
    """float [3, units]: health, shield and energy as shares of their greatest values; NaN where a
    unit has none.
    """
    most = param[[P.HEALTH, P.SHIELD, P.ENERGY]]
    have = state.unit[[U.HEALTH, U.SHIELD, U.ENERGY]]
    return np.where(most > 0, have / np.where(most > 0, most, 1.0), np.nan)


def _where(mask: np.ndarray) -> list[int]:
    return np.flatnonzero(mask).tolist()


Draw = ImageDraw.ImageDraw
Point = tuple[float, float]


def draw_event(
    draw: Draw, event: Event, progress: float, points: Sequence[Point], team: int, scale: float
) -> None:
    """Draw what is visible of an event, ``progress`` from 0 to 1 through it.

    ``points`` are the places of all units and ``scale`` is a cell, both in fine pixels.
    """
    look = ANIMATIONS.get(event.kind)
    if look is not None:
        here = points[event.unit]
        there = points[event.other] if event.other >= 0 else here
        look(draw, here, there, progress, team, scale)


def _instant(draw: Draw, a: Point, b: Point, progress: float, team: int, scale: float) -> None:
    """A tracer and a spark where it hits."""
    strong = 255 if progress < 0.5 else 110
    start = _between(a, b, 0.4 * scale / max(_gap(a, b), 1.0))
    draw.line((start, b), (*FLASH[team], strong), 4)
    _spark(draw, b, 0.28 * scale * (1 - 0.4 * progress), (*CORE, strong))
    _dot(draw, start, 0.16 * scale, (*FIRE[0], strong))


def _missile(draw: Draw, a: Point, b: Point, progress: float, team: int, scale: float) -> None:
    """A bolt on its way, with a tail, on a faint line to its target."""
    long = min(0.9 * scale / max(_gap(a, b), 1.0), 0.5)
    draw.line((a, b), (*TEAMS[team]["light"], 70), 2)
    head, tail = min(progress * 1.15, 1.0), max(progress * 1.15 - long, 0.0)
    draw.line((_between(a, b, tail), _between(a, b, head)), (*TEAMS[team]["light"], 150), 8)
    draw.line((_between(a, b, (head + tail) / 2), _between(a, b, head)), (*CORE, 255), 5)
    _dot(draw, _between(a, b, head), 0.13 * scale, (*CORE, 255))


def _claw(draw: Draw, a: Point, b: Point, progress: float, team: int, scale: float) -> None:
    """A blow: three short strokes where the two meet."""
    strong = 255 if progress < 0.5 else 110
    middle = _between(a, b, 0.6)
    angle = math.atan2(b[1] - a[1], b[0] - a[0])
    for k in (-1, 0, 1):
        x = middle[0] - math.sin(angle) * k * 0.14 * scale
        y = middle[1] + math.cos(angle) * k * 0.14 * scale
        dx, dy = (0.2 * scale * f(angle + 0.5) for f in (math.cos, math.sin))
        draw.line((x - dx, y - dy, x + dx, y + dy), (*FLASH[team], strong), 3)


def _twice(draw: Draw, a: Point, b: Point, progress: float, team: int, scale: float) -> None:
    """Two blades, one after the other."""
    side = 1 if progress < 0.5 else -1
    middle = _between(a, b, 0.62)
    radius = 0.42 * scale
    angle = math.degrees(math.atan2(b[1] - a[1], b[0] - a[0]))
    begin = angle - 75 if side > 0 else angle - 15
    draw.arc(_box(middle, radius), begin, begin + 90, (190, 246, 255, 255), 5)


def _beam(draw: Draw, a: Point, b: Point, progress: float, team: int, scale: float) -> None:
    """Two rays that burn a line across the target."""
    gap = max(_gap(a, b), 1.0)
    ux, uy = (b[0] - a[0]) / gap, (b[1] - a[1]) / gap
    length = float(BEAM_LENGTH) * scale
    strong = 255 if progress < 0.5 else 120
    for side in (-1, 1):
        wide = side * length * min(1.0, 0.25 + 1.2 * progress)
        end = (b[0] - uy * wide, b[1] + ux * wide)
        eye = (a[0] - uy * side * 0.4 * scale, a[1] + ux * side * 0.4 * scale)
        draw.line((eye, end), (*HEAT[team], strong), 4)
        draw.line((b, end), (*FIRE[1], strong), 9)
        draw.line((b, end), (*FIRE[0], strong), 4)


def _heal(draw: Draw, a: Point, b: Point, progress: float, team: int, scale: float) -> None:
    """A soft ray with pulses and a cross on the patient."""
    a = (a[0], a[1] - 0.4 * scale)
    draw.line((a, b), (*MENDING, 110), 7)
    draw.line((a, b), (*MENDING, 200), 3)
    for k in range(3):
        _dot(draw, _between(a, b, (progress + k / 3) % 1), 0.11 * scale, (*CORE, 220))
    x, y, r = *b, 0.26 * scale
    draw.line((x - r, y, x + r, y), (*CORE, 235), 5)
    draw.line((x, y - r, x, y + r), (*CORE, 235), 5)


def _blast(draw: Draw, a: Point, b: Point, progress: float, team: int, scale: float) -> None:
    """Acid splashing as far as it hurts."""
    radius = float(BLAST_RADIUS) * scale * min(1.0, 0.45 + progress)
    left = 1 - progress
    _dot(draw, a, radius, (150, 220, 60, int(110 * left)))
    _dot(draw, a, radius * 0.55, (220, 255, 110, int(190 * left)))
    draw.ellipse(_box(a, radius), outline=(210, 255, 110, int(235 * left)), width=4)


ANIMATIONS: Mapping[str, Callable[[Draw, Point, Point, float, int, float], None]] = {
    "instant": _instant,
    "missile": _missile,
    "claw": _claw,
    "twice": _twice,
    "beam": _beam,
    "heal": _heal,
    "blast": _blast,
}


def _gap(a: Point, b: Point) -> float:
    return math.hypot(b[0] - a[0], b[1] - a[1])


def _between(a: Point, b: Point, share: float) -> Point:
    return a[0] + (b[0] - a[0]) * share, a[1] + (b[1] - a[1]) * share


def _dot(draw: Draw, at: Point, radius: float, color: tuple[int, ...]) -> None:
    draw.ellipse(_box(at, radius), color)


def _box(at: Point, radius: float) -> tuple[float, float, float, float]:
    return at[0] - radius, at[1] - radius, at[0] + radius, at[1] + radius


def _spark(draw: Draw, at: Point, radius: float, color: tuple[int, ...]) -> None:
    x, y = at
    for k in range(4):
        dx, dy = (radius * f(math.pi * (k + 0.5) / 4) for f in (math.cos, math.sin))
        draw.line((x - dx, y - dy, x + dx, y + dy), color, 3)
