"""A chart of a trading episode: the stock, the agent's wealth, and when it held."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 40, 28  # margins
PAPER, INK, GRID = (255, 255, 255), (60, 60, 60), (200, 200, 200)
HELD, SHARE, WEALTH = (214, 240, 214), (150, 150, 150), (31, 119, 180)


def draw_chart(
    share: np.ndarray, wealth: Sequence[float], held: Sequence[bool], length: int
) -> np.ndarray:
    """Draw the episode so far.

    Args:
        share: percent gain of the stock since the first step, at steps 0 … now.
        wealth: percent gain of the agent, likewise.
        held: whether the stock was held in each step, 0 … now - 1.
        length: steps of the whole episode.

    Returns:
        The image, uint8 [H, W, 3].
    """
    image = Image.new("RGB", (WIDTH, HEIGHT), PAPER)
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(size=14)
    low, high = min(share.min(), *wealth, -1.0), max(share.max(), *wealth, 1.0)
    xs = LEFT + np.arange(length + 1) * (WIDTH - LEFT - RIGHT) / length

    def y(percent: float) -> float:
        return TOP + (high - percent) / (high - low) * (HEIGHT - TOP - BOTTOM)

    for t, held_now in enumerate(held):
        if held_now:
            draw.rectangle((xs[t], TOP, xs[t + 1], HEIGHT - BOTTOM), HELD)
    draw.line((LEFT, y(0), WIDTH - RIGHT, y(0)), GRID)
    for percent in (low, high):
        draw.text((LEFT - 6, y(percent)), f"{percent:+.0f}%", INK, font, anchor="rm")
    for values, color, line_width in ((share, SHARE, 2), (wealth, WEALTH, 3)):
        points = [(x, y(value)) for x, value in zip(xs, values, strict=False)]
        if len(points) > 1:
            draw.line(points, color, line_width, joint="curve")
    draw.rectangle((LEFT + 300, TOP / 2 - 7, LEFT + 314, TOP / 2 + 7), HELD)
    words = (
        (f"agent {wealth[-1]:+.1f}%", WEALTH),
        (f"share {share[-1]:+.1f}%", SHARE),
        ("held", INK),
        (f"step {len(held)} / {length}", INK),
    )
    for x, (text, color) in zip((0, 150, 322, 450), words, strict=True):
        draw.text((LEFT + x, TOP / 2), text, color, font, anchor="lm")
    return np.asarray(image)
