"""Images and drawings of grid worlds, without a display."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from rltrain.types import Drawing

CELL = 24  # pixels
PAPER, GRID, INK = (250, 250, 250), (214, 214, 214), (255, 255, 255)
BLUE, GREEN, ORANGE, PURPLE, GRAY = (
    (31, 119, 180),
    (44, 140, 70),
    (225, 120, 20),
    (150, 125, 190),
    (120, 120, 120),
)


class Piece(NamedTuple):
    """An object in a cell.

    Attributes:
        round: drawn as a disc instead of a square.
        text: one or two letters on it.
        heading: (rows, columns) to the cell that it faces.
        name: kind of object.
        team: 0 agents, 1 opponents, 2 things.
    """

    row: int
    column: int
    color: tuple[int, int, int]
    round: bool = False
    text: str = ""
    heading: tuple[int, int] | None = None
    name: str = ""
    team: int = 2


def draw_grid(shape: tuple[int, int], pieces: Iterable[Piece]) -> np.ndarray:
    """Draw a grid of ``shape`` (rows, columns), later pieces on top of earlier ones: uint8
    [H, W, 3].
    """
    n_rows, n_columns = shape
    image = Image.new("RGB", (n_columns * CELL + 1, n_rows * CELL + 1), PAPER)
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(size=13)
    for i in range(n_rows + 1):
        draw.line((0, i * CELL, n_columns * CELL, i * CELL), GRID)
    for i in range(n_columns + 1):
        draw.line((i * CELL, 0, i * CELL, n_rows * CELL), GRID)
    for piece in pieces:
        left, top = piece.column * CELL, piece.row * CELL
        margin = 4 if piece.round else 2
        box = (left + margin, top + margin, left + CELL - margin, top + CELL - margin)
        (draw.ellipse if piece.round else draw.rectangle)(box, piece.color)
        x, y = left + CELL / 2, top + CELL / 2
        if piece.heading is not None:
            down, right = piece.heading
            draw.line((x, y, x + right * CELL / 2, y + down * CELL / 2), INK, 3)
        draw.text((x, y), piece.text, INK, font, anchor="mm")
    return np.asarray(image)


def grid_drawing(
    shape: tuple[int, int], pieces: Sequence[Piece], sight: int | None = None, **world: Any
) -> Drawing:
    """The grid as a ``Drawing``, agents first in their order.

    Args:
        sight: cells that agents see in each direction; None = all.
        world: other items of ``Drawing.world``.
    """
    n_rows, n_columns = shape
    units = sorted(pieces, key=lambda piece: piece.team)
    seen = {} if sight is None else {"sight": sight + 0.5, "sees_square": True}
    looks = [
        {"name": p.name, "team": p.team, "radius": 0.36, "square": not p.round, "text": p.text}
        | {"color": f"#{bytes(p.color).hex()}"}
        | (seen if p.team == 0 else {})
        for p in units
    ]
    rows, columns = np.array([(p.row, p.column) for p in units], np.float32).reshape(-1, 2).T
    placed = {"x": columns + 0.5, "y": n_rows - 0.5 - rows}
    if any(p.heading for p in units):
        turned = [math.atan2(-p.heading[0], p.heading[1]) if p.heading else 0.0 for p in units]
        placed["facing"] = np.array(turned, np.float32)
    bounds = [0, 0, int(n_columns), int(n_rows)]
    return Drawing({"bounds": bounds, "grid": True, "rate": 3} | world, looks, placed)
