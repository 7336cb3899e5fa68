"""Images of battles: the field, the units, their health and their shots."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw

from rltrain.battles.engine.battles import Battles
from rltrain.battles.engine.world import NO_ONE, M, Outcome, P, U
from rltrain.battles.render import events
from rltrain.battles.render.canvas import (
    FINE,
    FOOTER,
    banner,
    bars,
    footer,
    ground,
    header,
    make_canvas,
)
from rltrain.battles.render.events import draw_event
from rltrain.battles.render.sprites import ALLY, ENEMY, TEAMS, paste, shadow, sprite, to_heading

SUBFRAMES = 4  # images per env step
TAIL = 6  # images after the end, while the dead fade

LARGER, LARGEST, SMALLEST = 1.12, 1.4, 8.5  # how much larger than they are units are drawn: so
# much that a radius of 0.375 cells becomes this many pixels, within limits
CROWD = 12  # where more units fight, only injured units show bars
DRAWN = ("ground", "colossus", "air")  # layers in the order in which they are drawn
FLIGHT = 0.55  # cells that air units are drawn above their shadows


class Painter:
    """Draws battle ``index`` of ``battles``, which it never changes: its current state, or what it
    did since its last images.
    """

    def __init__(self, battles: Battles, index: int) -> None:
        self.battles, self.index = battles, index
        self.canvas = make_canvas(battles.map_data.terrain)
        self.ground = ground(battles.map_data.terrain)
        self.n_agents = battles.map_data.n_agents
        wanted = SMALLEST * FINE / (0.375 * self.canvas.scale)
        self.larger = min(max(wanted, LARGER), LARGEST)
        self.before = self.after = events.snapshot(battles, index)
        self._begin(self.after)

    def frames(self) -> list[np.ndarray]:
        """Images of what happened since the last call: ``SUBFRAMES`` for one env step, one where
        another episode began, more after the last step."""
        if not self._update():
            return [self._draw(1.0, everything=True)]
        drawn = [self._draw(k / SUBFRAMES) for k in range(1, SUBFRAMES + 1)]
        if self.after.outcome != Outcome.RUNNING:
            drawn += [self._draw(1.0, k / SUBFRAMES) for k in range(1, TAIL + 1)]
        return drawn

    def frame(self) -> np.ndarray:
        """One image: the current state and every shot of the last step."""
        self._update()
        return self._draw(1.0, everything=True)

    def _begin(self, now: events.Snapshot) -> None:
        self.kinds = self.battles.unit_names(self.index)
        self.layers = [unit.layer for unit in self.battles.unit_types(self.index)]
        self.order = sorted(range(len(self.kinds)), key=lambda i: DRAWN.index(self.layers[i]))
        self.param = self.battles.table("param", self.index)
        self.seen: list[events.Event] = []
        self.shown = events.shares(now, self.param), events.shares(now, self.param)
        self.total: float | None = 0.0 if now.clock == 0 else None  # reward, if seen from the start
        agents, unit = self.n_agents, now.unit
        east = unit[U.X, :agents].mean() < unit[U.X, agents:].mean()
        self.heading = [0 if (i < agents) == east else 12 for i in range(unit.shape[1])]

    def _update(self) -> bool:
        """Read the current state; returns whether it is one step after the last one read."""
        now = events.snapshot(self.battles, self.index)
        if now.clock == self.after.clock and np.array_equal(now.unit, self.after.unit):
            return False
        follows = now.clock == self.after.clock + 1
        self.before, self.after = (self.after, now) if follows else (now, now)
        if not follows:
            self._begin(now)
            return False
        loops = self.battles.scene.loops
        self.seen = [event for event in self.seen if event.end > self.before.clock]
        self.seen += events.events_between(self.before, now, self.param, loops)
        self.shown = self.shown[1], events.shares(now, self.param)
        if self.total is not None:
            self.total += float(self.battles.reward[self.index])
        self._turn(now)
        return True

    def _turn(self, now: events.Snapshot) -> None:
        """Units face the targets of their shots, otherwise the direction in which they move."""
        unit = now.unit
        shooting = {event.unit: event.other for event in self.seen if event.other != NO_ONE}
        for i in range(unit.shape[1]):
            j = shooting.get(i, NO_ONE)
            if j != NO_ONE:
                self.heading[i] = to_heading(
                    unit[U.X, j] - unit[U.X, i], unit[U.Y, j] - unit[U.Y, i]
                )
            elif unit[U.VX, i] ** 2 + unit[U.VY, i] ** 2 > 0.04:
                self.heading[i] = to_heading(unit[U.VX, i], unit[U.VY, i])

    def _draw(self, share: float, later: float = 0.0, everything: bool = False) -> np.ndarray:
        """The state ``share`` of the way through the last step, ``later`` steps after it."""
        time = self.before.clock + share + later
        unit = self.before.unit + share * (self.after.unit - self.before.unit)
        image = self.ground.copy()
        draw = ImageDraw.Draw(image, "RGBA")
        points = [self.canvas.at(x, y) for x, y in zip(*unit[[U.X, U.Y]].tolist(), strict=True)]
        self._draw_targets(draw, points, unit[U.HEALTH])
        now = [
            (event, _progress(event, time, everything, self.before.clock)) for event in self.seen
        ]
        now = [(event, p) for event, p in now if 0.0 <= p < 1.0]
        gone = {event.unit: p for event, p in now if event.kind == "death"}
        hidden = {
            event.unit for event in self.seen if event.kind == "blast" and event.begin <= time
        }
        alive = (self.before if share < 1 else self.after).unit[U.HEALTH] > 0
        for i in self.order:
            if i not in hidden and (alive[i] or i in gone):
                self._draw_unit(image, i, points[i], gone.get(i, 0.0))
        for event, progress in now:
            draw_event(draw, event, progress, points, self._team(event.unit), self.canvas.scale)
        values = self.shown[0] + share * (self.shown[1] - self.shown[0])
        for i, point in enumerate(points):
            if alive[i] and i not in hidden:
                self._draw_bars(draw, i, point, values[:, i])
        self._draw_words(image)
        if self.after.outcome != Outcome.RUNNING and share == 1.0 and (later or everything):
            banner(draw, self.canvas, self.after.outcome)
        return np.asarray(image.reduce(FINE))

    def _team(self, i: int) -> int:
        return ALLY if i < self.n_agents else ENEMY

    def _radius(self, i: int) -> float:
        return float(self.param[P.RADIUS, i]) * self.canvas.scale * self.larger

    def _draw_unit(
        self, image: Image.Image, i: int, point: tuple[float, float], fade: float
    ) -> None:
        x, y = point
        radius = round(self._radius(i), 1)
        if self.layers[i] == "air":
            paste(image, shadow(radius), x, y)
            y -= FLIGHT * self.canvas.scale
        look = sprite(self.kinds[i], self._team(i), self.heading[i], radius, round(fade, 1))
        paste(image, look, x, y)

    def _draw_targets(
        self, draw: ImageDraw.ImageDraw, points: list[tuple[float, float]], health: np.ndarray
    ) -> None:
        """A thin line from every living unit to its living target, fainter where there are many."""
        targets = self.after.mark[M.TARGET].tolist()
        alpha = int(min(90, max(60, 900 / len(targets))))
        for i, j in enumerate(targets):
            if j != NO_ONE and health[i] > 0 and health[j] > 0:
                draw.line((points[i], points[j]), (*TEAMS[self._team(i)]["body"], alpha), 2)

    def _draw_bars(
        self, draw: ImageDraw.ImageDraw, i: int, point: tuple[float, float], values: np.ndarray
    ) -> None:
        health, shield, energy = values.tolist()
        if len(self.heading) > CROWD and health >= 1 and not shield < 1 and energy != energy:
            return
        lift = FLIGHT * self.canvas.scale if self.layers[i] == "air" else 0.0
        bars(draw, (point[0], point[1] - lift), self._radius(i), health, shield, energy)

    def _draw_words(self, image: Image.Image) -> None:
        row = self.battles.map_data
        step = f"step {self.after.clock} / {row.limit}"
        reward = "" if self.total is None else f"reward {self.total:.2f}"
        image.paste(header(row.name, step, reward), (0, 0))
        alive = self.after.unit[U.HEALTH] > 0
        counts: tuple[dict[str, int], dict[str, int]] = {}, {}
        for i, kind in enumerate(self.kinds):
            team = counts[self._team(i)]
            team[kind] = team.get(kind, 0) + int(alive[i])
        below = footer(tuple(counts[ALLY].items()), tuple(counts[ENEMY].items()))
        image.paste(below, (0, (self.canvas.height - FOOTER) * FINE))


def _progress(event: events.Event, time: float, everything: bool, since: float) -> float:
    """Progress of an event, 0 … 1; outside of that range it is not drawn."""
    if everything and event.begin >= since and event.kind != "death":
        return 0.4
    return (time - event.begin) / (event.end - event.begin)
