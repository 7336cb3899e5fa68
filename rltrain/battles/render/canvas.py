"""Positions on an image of a battle (``Canvas``), its background (cells that units can walk on,
blocked ones darker, plateaus lighter), and its text and bars: header, remaining units, health bars,
outcome. Lengths are fine pixels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from rltrain.battles.data import terrain
from rltrain.battles.engine.world import Outcome
from rltrain.battles.render.sprites import ALLY, ENEMY, TEAMS, Color, paste, sprite

WIDTH = 480  # pixels of a finished picture
FINE = 2  # a picture is drawn this much larger and reduced, which smooths its edges
HEADER, FOOTER = 24, 26  # pixels of the finished picture
MARGIN, ABOVE = 0.5, 1.25  # cells around the pathable ones, and over them, for bars

BLOCKED, LOW, GRID, EDGE = (26, 28, 32), (64, 70, 70), (75, 82, 82), (124, 132, 134)
PANEL = (14, 15, 19)
HIGH = 26  # how much brighter the top of a plateau is than the low ground

BAR, BAR_WIDTH = 5, 22  # height, least width
TROUGH = (8, 9, 12, 200)
SHIELD_BAR, ENERGY_BAR = (92, 214, 255), (200, 120, 255)
HEALTH_BAR = ((0.35, (255, 72, 56)), (0.7, (255, 200, 40)), (9.9, (88, 214, 84)))
"""Colors of health below these shares."""
TEXT, DIM = (232, 235, 240), (150, 156, 166)
BANNERS: Mapping[int, tuple[str, Color]] = {
    Outcome.WIN: ("WIN", (110, 224, 110)),
    Outcome.DEFEAT: ("DEFEAT", (255, 96, 80)),
    Outcome.TIMEOUT: ("TIME OUT", (255, 200, 60)),
    Outcome.DRAW: ("DRAW", (255, 200, 60)),
}


@dataclass(frozen=True)
class Canvas:
    """The part of a map that is shown, and its size."""

    x0: float  # left edge
    y1: float  # upper edge
    scale: float  # fine pixels per cell
    height: int  # pixels of the finished picture

    def at(self, x: float, y: float) -> tuple[float, float]:
        """A point of the map in fine pixels; y points up on the map and down in the picture."""
        return (x - self.x0) * self.scale, HEADER * FINE + (self.y1 - y) * self.scale


@lru_cache(maxsize=32)
def make_canvas(name: str) -> Canvas:
    """The pathable part of a terrain and a margin; the height is even, as videos need it."""
    x0, y0, x1, y1 = terrain.layer_boxes(terrain.pathable_cells(name))["ground"]
    wide, high = x1 - x0 + 2 * MARGIN, y1 - y0 + MARGIN + ABOVE
    height = HEADER + FOOTER + math.ceil(WIDTH * high / wide)
    return Canvas(x0 - MARGIN, y1 + ABOVE, WIDTH * FINE / wide, height + height % 2)


@lru_cache(maxsize=32)
def ground(name: str) -> Image.Image:
    """The empty field, ``FINE`` times as large as the finished picture."""
    canvas = make_canvas(name)
    cells = terrain.pathable_cells(name)
    image = Image.new("RGB", (WIDTH * FINE, canvas.height * FINE), BLOCKED)
    draw = ImageDraw.Draw(image)
    heights = terrain.ground_levels(name)
    for x, y in np.argwhere(cells).tolist():
        draw.rectangle((*canvas.at(x, y + 1), *canvas.at(x + 1, y)), _shade(LOW, heights[x, y]))
    for x, y in np.argwhere(cells).tolist():
        line = _shade(GRID, heights[x, y])
        draw.rectangle((*canvas.at(x, y + 1), *canvas.at(x + 1, y)), outline=line)
    for ax, ay, bx, by in terrain.wall_segments(cells).tolist():
        draw.line((canvas.at(ax, ay), canvas.at(bx, by)), EDGE, 3)
    top, bottom = HEADER * FINE, (canvas.height - FOOTER) * FINE
    draw.rectangle((0, 0, image.width, top - 1), PANEL)
    draw.rectangle((0, bottom, image.width, image.height), PANEL)
    return image


def _shade(color: tuple[int, int, int], level: float) -> tuple[int, ...]:
    return tuple(value + round(HIGH * level) for value in color)


def bars(
    draw: ImageDraw.ImageDraw,
    at: tuple[float, float],
    radius: float,
    health: float,
    shield: float,
    energy: float,
) -> None:
    """Health and above it shield or energy over a unit, shares of a dark trough; NaN = has none."""
    width = max(BAR_WIDTH, 2 * round(radius * 0.9))
    left = 2 * round((at[0] - width / 2) / 2)
    bottom = 2 * round((at[1] - radius * 1.15) / 2)
    rows = [(health, next(color for most, color in HEALTH_BAR if health < most))]
    rows += [(s, c) for s, c in ((shield, SHIELD_BAR), (energy, ENERGY_BAR)) if s == s]
    top = bottom - len(rows) * (BAR + 1) - 1
    draw.rectangle((left - 2, top, left + width + 1, bottom), TROUGH)
    for k, (share, color) in enumerate(rows):
        if share > 0:
            y = bottom - 1 - k * (BAR + 1)
            right = left + max(2, round(width * share)) - 1
            draw.rectangle((left, y - BAR + 1, right, y), color)


def banner(draw: ImageDraw.ImageDraw, canvas: Canvas, outcome: int) -> None:
    """How a battle ended, across the upper part of the field."""
    word, color = BANNERS[outcome]
    half = 30 * FINE
    middle = HEADER * FINE + half + (canvas.height - HEADER - FOOTER) * FINE * 0.08
    draw.rectangle((0, middle - half, WIDTH * FINE, middle + half), (10, 11, 14, 190))
    draw.text((WIDTH * FINE / 2, middle), word, color, font(44 * FINE), "mm")


@lru_cache(maxsize=32)
def font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Pillow's own font, the same on every machine."""
    return ImageFont.load_default(size)


@lru_cache(maxsize=256)
def header(name: str, step: str, reward: str) -> Image.Image:
    """The line above the field."""
    image = Image.new("RGB", (WIDTH * FINE, HEADER * FINE), PANEL)
    draw = ImageDraw.Draw(image)
    middle = HEADER * FINE / 2
    room = 0.37 * WIDTH * FINE
    size = next(k for k in range(15 * FINE, 0, -1) if draw.textlength(name, font(k)) < room)
    draw.text((8 * FINE, middle), name, TEXT, font(size), "lm")
    draw.text((WIDTH * FINE / 2, middle), step, TEXT, font(13 * FINE), "mm")
    draw.text(((WIDTH - 8) * FINE, middle), reward, TEXT, font(13 * FINE), "rm")
    return image


@lru_cache(maxsize=256)
def footer(
    allies: tuple[tuple[str, int], ...], enemies: tuple[tuple[str, int], ...]
) -> Image.Image:
    """Remaining units: for each type its sprite, its name and how many are alive."""
    image = Image.new("RGB", (WIDTH * FINE, FOOTER * FINE), PANEL)
    draw = ImageDraw.Draw(image)
    middle = FOOTER * FINE // 2
    for team, kinds in ((ALLY, allies), (ENEMY, enemies)):
        labels = [f"{count} {kind.replace('_', ' ')}" for kind, count in kinds]
        for size in range(12 * FINE, 4 * FINE - 1, -1):
            lengths = [draw.textlength(label, font(size)) for label in labels]
            space = sum(lengths) + len(labels) * 3.0 * size
            if space <= WIDTH * FINE / 2 - 10 * FINE:
                break
        x = 6.0 * FINE if team == ALLY else (WIDTH - 6) * FINE - space
        for (kind, count), label, length in zip(kinds, labels, lengths, strict=True):
            look = sprite(kind, team, 0 if team == ALLY else 12, size * 0.6, 0.0 if count else 0.4)
            paste(image, look, x + size, middle)
            color = TEAMS[team]["light"] if count else DIM
            draw.text((x + 2.3 * size, middle), label, color, font(size), "lm")
            x += length + 3.0 * size
    return image
