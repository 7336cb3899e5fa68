"""Checks of images and drawings of Python environments."""

from __future__ import annotations

import json
import reprlib
from typing import Any

import numpy as np

from rltrain.errors import EnvError, reason
from rltrain.types import Drawing


def checked_images(rendered: Any) -> list[np.ndarray]:
    """Check the return value of ``render``; returns copies of its images, uint8 [H, W, 3].

    Raises:
        EnvError: it is not an image, or contains something else.
    """
    images = list(rendered) if isinstance(rendered, list | tuple) else [rendered]
    for image in images or [None]:
        array, got = isinstance(image, np.ndarray), reprlib.repr(rendered)
        if array and image.dtype == np.uint8 and image.shape[2:] == (3,) and image.size:
            continue
        if array:
            got = f"an array {list(image.shape)} of {image.dtype}"
        raise EnvError(
            f"The environment's render() returned {got}: expected an image, an array "
            "[height, width, 3] of uint8, or a list of them; of render_mode='rgb_array' where "
            "there are several."
        )
    return [image.copy() for image in images]


def checked_drawing(drawn: Any) -> Drawing:
    """Check the return value of ``drawing``; its columns become new arrays.

    Raises:
        EnvError: it is not a drawing.
    """
    try:
        world, looks, given = drawn
        columns = {name: np.array(column) for name, column in given.items()}
        json.dumps([world, *looks])
        fits = all(len(looks) == column.shape[-1] for column in columns.values())
        if not ({"bounds"} <= {*world} and {"x", "y"} <= {*columns} and fits):
            raise ValueError("bounds, x or y, or numbers of some units are missing")
    except Exception as error:
        raise EnvError(
            f"The environment's drawing() returned {reprlib.repr(drawn)} ({reason(error)}): "
            "expected a rltrain.types.Drawing, of plain values a world with bounds and a mapping "
            "for each unit, and columns of numbers [units] with x and y."
        ) from error
    return Drawing(world, looks, columns)
