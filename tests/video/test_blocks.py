"""Images as half-block characters."""

from io import StringIO

import numpy as np
from rich.console import Console

from rltrain.video.blocks import Blocks, fitted


def test_two_pixels_become_one_character_with_their_colors():
    image = np.array([[[200, 0, 0]] * 4, [[0, 0, 200]] * 4], np.uint8)
    out = StringIO()
    Console(file=out, force_terminal=True, color_system="truecolor", width=4).print(
        Blocks(image, lines=1)
    )
    assert out.getvalue() == "\x1b[38;2;200;0;0;48;2;0;0;200m▀▀▀▀\x1b[0m\n"


def test_an_image_fits_the_terminal_and_keeps_its_shape():
    assert fitted(np.zeros((100, 200, 3), np.uint8), 80, 60).shape == (40, 80, 3)
    assert fitted(np.zeros((10, 10, 3), np.uint8), 80, 60).shape == (60, 60, 3)
