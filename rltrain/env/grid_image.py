"""Images of grid worlds, which need no display."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

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
    """Something that occupies a cell.

    Attributes:
        round: drawn as a disc instead of a square.
        text: one or two letters on it.
        heading: (rows, columns) to the cell that it faces.
    """

    row: int
    column: int
    color: tuple[int, int, int]
    round: bool = False
    text: str = ""
    heading: tuple[int, int] | None = None


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
