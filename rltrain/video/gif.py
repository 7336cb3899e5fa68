"""An animated GIF, compressed frame by frame: of each frame only the rectangle that differs from
the frame before, in which unchanged pixels are transparent, with its own palette. Recording takes
little memory."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
from PIL import GifImagePlugin, Image

from rltrain.errors import EnvError

COLORS = 255  # of a palette, next to transparency


class Gif:
    """One video; ``first`` (uint8 [H, W, 3]) gives its size."""

    def __init__(self, first: np.ndarray) -> None:
        self.first, self.shape = first, first.shape
        self._last = np.full(first.shape, -1, np.int16)  # nothing yet
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
        red, green, blue = np.moveaxis(frame != self._last, -1, 0)
        differs = red | green | blue
        differs[0, 0] |= not differs.any()  # at least one pixel, for its time
        rows, columns = (np.flatnonzero(differs.any(axis)) for axis in (1, 0))
        top, left = int(rows[0]), int(columns[0])
        drawn = differs[top : rows[-1] + 1, left : columns[-1] + 1]
        new = Image.fromarray(frame[differs][None])
        few = new.getcolors(COLORS) is not None  # median cut keeps them; for many it takes long
        new = new.quantize(COLORS, Image.Quantize.MEDIANCUT if few else Image.Quantize.FASTOCTREE)
        palette = new.getpalette() or []
        clear = len(palette) // 3
        indexed = np.full(drawn.shape, clear, np.uint8)
        indexed[drawn] = np.asarray(new)[0]
        image = Image.fromarray(indexed, "P")
        image.putpalette([*palette, 0, 0, 0])
        hundredths = max(2, round(seconds * 100))  # viewers slow down what is faster
        options = {"duration": 10 * hundredths, "transparency": clear, "include_color_table": True}
        self._parts += GifImagePlugin.getdata(image, (left, top), **options)
        self._last = frame

    def write(self, path: Path) -> None:
        """Write the video, which repeats forever."""
        height, width = self.shape[:2]
        with path.open("wb") as file:
            file.write(b"GIF89a" + struct.pack("<HHBBB", width, height, 0x70, 0, 0))
            file.write(b"!\xff\x0bNETSCAPE2.0\x03\x01\x00\x00\x00")
            file.writelines(self._parts)
            file.write(b";")
