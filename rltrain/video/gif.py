"""An animated GIF, compressed frame by frame: one palette, and of each frame only the rectangle
that differs from the frame before, in which unchanged pixels are transparent, so that recording
takes little memory."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
from PIL import GifImagePlugin, Image

from rltrain.errors import EnvError

LEVELS = (0, 64, 128, 191, 255)  # of each primary, for colors that the first frame lacks
CLEAR = 255  # the palette's index of transparent pixels
EXACT = 64  # colors of the first frame that are stored unchanged


class Gif:
    """One video; ``first`` (uint8 [H, W, 3]) gives its size and, together with a coarse color cube,
    its palette."""

    def __init__(self, first: np.ndarray) -> None:
        self.first, self.shape = first, first.shape
        self._palette = to_palette(first)
        self._last: np.ndarray | None = None
        self._shown = np.full(first.shape[:2], -1, np.int16)  # [H, W] palette indices
        self._parts: list[bytes] = []

    def add(self, frame: np.ndarray, seconds: float) -> None:
        """The next frame, to be seen for so long (GIF counts hundredths).

        Raises:
            EnvError: a frame of a different size than the first.
        """
        if frame.shape != self.shape:
            raise EnvError(
                f"An image of an episode has the shape {frame.shape}: expected {self.shape}, the "
                "shape of the episode's first image."
            )
        left, top, right, bottom = self._changed(frame)
        part = Image.fromarray(np.ascontiguousarray(frame[top:bottom, left:right]))
        indexed = np.asarray(part.quantize(palette=self._palette, dither=Image.Dither.NONE))
        shown = self._shown[top:bottom, left:right]
        image = Image.fromarray(np.where(indexed == shown, CLEAR, indexed).astype(np.uint8), "P")
        shown[:] = indexed
        hundredths = max(2, round(seconds * 100))  # viewers slow down what is faster
        options = {"duration": 10 * hundredths, "transparency": CLEAR}
        self._parts += GifImagePlugin.getdata(image, (left, top), **options)
        self._last = frame

    def write(self, path: Path) -> None:
        """Write the video, which repeats forever."""
        height, width = self.shape[:2]
        colors = bytes(self._palette.getpalette() or ()).ljust(768, b"\0")
        with path.open("wb") as file:
            file.write(b"GIF89a" + struct.pack("<HHBBB", width, height, 0xF7, 0, 0) + colors)
            file.write(b"!\xff\x0bNETSCAPE2.0\x03\x01\x00\x00\x00")
            file.writelines(self._parts)
            file.write(b";")

    def _changed(self, frame: np.ndarray) -> tuple[int, int, int, int]:
        """The rectangle that differs from the last frame; at least one pixel, for its time."""
        height, width = self.shape[:2]
        if self._last is None:
            return 0, 0, width, height
        differs = (frame != self._last).reshape(height, -1)
        rows = np.flatnonzero(differs.any(1))
        if not len(rows):
            return 0, 0, 1, 1
        columns = np.flatnonzero(differs[rows[0] : rows[-1] + 1].any(0)) // 3
        return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def to_palette(image: np.ndarray) -> Image.Image:
    """A palette image of 255 colors: the most frequent ones of ``image``, a fair choice of the
    others (median cut), and a cube for what comes later."""
    packed = image.astype(np.uint32) @ np.array([65536, 256, 1], np.uint32)
    colors, counts = np.unique(packed, return_counts=True)
    frequent = colors[np.argsort(-counts, kind="stable")[:EXACT]]
    exact = [int(c) >> shift & 255 for c in frequent for shift in (16, 8, 0)]
    cube = [v for red in LEVELS for green in LEVELS for blue in LEVELS for v in (red, green, blue)]
    n_others = CLEAR - len(LEVELS) ** 3 - len(frequent)
    others = Image.fromarray(image).quantize(n_others, Image.Quantize.MEDIANCUT)
    palette = Image.new("P", (1, 1))
    palette.putpalette((exact + cube + list(others.getpalette() or ()))[: 3 * CLEAR])
    return palette
