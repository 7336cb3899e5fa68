"""Images in a terminal: half-block characters, two pixels each."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby

import numpy as np
from PIL import Image
from rich.color import Color
from rich.console import Console, ConsoleOptions
from rich.segment import Segment
from rich.style import Style

UPPER_HALF = "▀"
STEP = 8  # between values of a color: neighbors that look alike share a sequence of characters


class Blocks:
    """An image, uint8 [H, W, 3], as wide as the terminal or as high as ``lines`` lines."""

    def __init__(self, image: np.ndarray, lines: int) -> None:
        self.image, self.lines = image, lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        pixels = fitted(self.image, options.max_width, 2 * self.lines)
        for upper, lower in zip(pixels[0::2], pixels[1::2], strict=True):
            cells = zip(map(tuple, upper.tolist()), map(tuple, lower.tolist()), strict=True)
            for colors, same in groupby(cells):
                yield Segment(UPPER_HALF * len(list(same)), block_style(*colors))
            yield Segment.line()


def fitted(image: np.ndarray, width: int, height: int) -> np.ndarray:
    """The image, at most this many pixels wide and high; its height becomes even."""
    scale = min(width / image.shape[1], height / image.shape[0])
    columns = max(1, int(image.shape[1] * scale))
    rows = 2 * max(1, int(image.shape[0] * scale) // 2)
    smaller = Image.Resampling.BOX if scale < 1 else Image.Resampling.NEAREST
    colors = np.asarray(Image.fromarray(image).resize((columns, rows), smaller))
    return colors & ~np.uint8(STEP - 1)


@lru_cache(maxsize=4096)
def block_style(upper: tuple[int, int, int], lower: tuple[int, int, int]) -> Style:
    """The style of a half block."""
    return Style(color=Color.from_rgb(*upper), bgcolor=Color.from_rgb(*lower))
