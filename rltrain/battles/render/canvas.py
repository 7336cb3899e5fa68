"""Positions on an image of a battle (``Canvas``), and its background: cells that units can walk on,
blocked ones darker, plateaus lighter."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from PIL import Image, ImageDraw

from rltrain.battles.data import terrain

WIDTH = 480  # pixels of a finished picture
FINE = 2  # a picture is drawn this much larger and reduced, which smooths its edges
HEADER, FOOTER = 24, 26  # pixels of the finished picture
MARGIN, ABOVE = 0.5, 1.25  # cells around the pathable ones, and over them, for bars

BLOCKED, LOW, GRID, EDGE = (26, 28, 32), (64, 70, 70), (75, 82, 82), (124, 132, 134)
PANEL = (14, 15, 19)
HIGH = 26  # how much brighter the top of a plateau is than the low ground


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
