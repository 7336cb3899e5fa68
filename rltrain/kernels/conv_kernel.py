"""A convolution in machine code, forward and backward, image by image.

The patches under the filter are the columns of a matrix product. Images are flat rows,
[channel, row, column]; weights and padding are as in ``linear_kernel``. ``shape`` is channels,
height, width, kernel, stride and filters.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from functools import partial

import numpy as np

from rltrain.common import numba_cache
from rltrain.kernels import linear_kernel
from rltrain.kernels.arithmetic.matmul_kernel import (
    COLUMNS,
    ROWS,
    F,
    product,
)
from rltrain.kernels.linear_kernel import padded, panels, turned_panels

SOURCES = (__file__, *linear_kernel.SOURCES)
njit = partial(numba_cache.njit, *SOURCES, fastmath={"contract", "nsz"})


@njit()
def conv(x, flat, shape):
    """ReLU of the convolution: images [R, C·H·W] to [R, filters · places]."""
    places, n_out = patch_pixels(shape), shape[5]
    n_in, n_places = places.shape
    weight = np.zeros((padded(n_out, ROWS), n_in), F)
    weight[:n_out] = flat[: n_out * n_in].reshape(n_out, n_in)
    bias = flat[n_out * n_in :]
    patches = np.zeros((n_in, padded(n_places, COLUMNS)), F)
    out = np.empty((weight.shape[0], patches.shape[1]), F)
    y = np.zeros((x.shape[0], padded(n_out * n_places, COLUMNS)), F)
    for r in range(x.shape[0]):
        copy_patches(x[r], places, patches)
        product(out, weight, panels(patches), n_out)
        for o in range(n_out):
            to = y[r, o * n_places : (o + 1) * n_places]
            for p in range(n_places):
                value = out[o, p] + bias[o]
                to[p] = F(0) if value < 0 else value
    return y


@njit()
def conv_gradient(x, of_output, shape, gradient):
    """Fill ``gradient``, by the layer's weights, from that by its output before the ReLU."""
    places, n_out = patch_pixels(shape), shape[5]
    n_in, n_places = places.shape
    gradient[:] = 0
    of_bias = gradient[n_out * n_in :]
    patches = np.zeros((padded(n_in, ROWS), padded(n_places, COLUMNS)), F)
    of_place = np.zeros((patches.shape[1], padded(n_out, COLUMNS)), F)
    turned = np.empty((patches.shape[0], of_place.shape[1]), F)
    total = np.zeros_like(turned)
    for r in range(of_output.shape[0]):
        turn(of_output[r], n_places, n_out, of_place)
        for p in range(n_places):
            for o in range(n_out):
                of_bias[o] += of_place[p, o]
        copy_patches(x[r], places, patches)
        product(turned, patches, panels(of_place), n_in)
        total += turned
    for o in range(n_out):
        for i in range(n_in):
            gradient[o * n_in + i] = total[i, o]


@njit()
def conv_input_gradient(of_output, flat, shape):
    """The gradient by the layer's input [R, C·H·W], from that by its output before the ReLU."""
    places, n_out = patch_pixels(shape), shape[5]
    size = shape[0] * shape[1] * shape[2]
    n_in, n_places = places.shape
    weight = turned_panels(flat, n_in, n_out)
    of_place = np.zeros((padded(n_places, ROWS), padded(n_out, COLUMNS)), F)
    of_seen = np.empty((of_place.shape[0], padded(n_in, COLUMNS)), F)
    of_input = np.zeros((of_output.shape[0], padded(size, COLUMNS)), F)
    for r in range(of_output.shape[0]):
        turn(of_output[r], n_places, n_out, of_place)
        product(of_seen, of_place, weight, n_places)
        for i in range(n_in):
            for p in range(n_places):
                of_input[r, places[i, p]] += of_seen[p, i]
    return of_input


@njit()
def turn(of_output, n_places, n_out, of_place):
    """One image's gradient [filters · places] as [places, filters]."""
    for o in range(n_out):
        for p in range(n_places):
            of_place[p, o] = of_output[o * n_places + p]


@njit()
def patch_pixels(shape):
    """Pixels of every patch: [C · kernel · kernel, places]."""
    channels, height, width, kernel, stride, _ = shape
    down, across = (height - kernel) // stride + 1, (width - kernel) // stride + 1
    out = np.empty((channels * kernel * kernel, down * across), np.uint32)  # never counts backwards
    for i in range(out.shape[0]):
        c, top, left = i // (kernel * kernel), i // kernel % kernel, i % kernel
        for p in range(out.shape[1]):
            row, column = p // across * stride + top, p % across * stride + left
            out[i, p] = (c * height + row) * width + column
    return out


@njit()
def copy_patches(image, places, patches):
    """Write the patches of an image, one per column."""
    for i in range(places.shape[0]):
        for p in range(places.shape[1]):
            patches[i, p] = image[places[i, p]]
