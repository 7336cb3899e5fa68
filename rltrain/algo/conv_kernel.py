"""A convolution in machine code, forward and backward, image by image.

An image's patches are the rows of a matrix product. Images are flat rows, [channel, row, column];
weights and paddings are as in ``dense_kernel``. ``shape`` is channels, height, width, kernel,
stride and filters.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from functools import partial

import numpy as np

from rltrain import compiled
from rltrain.algo import dense_kernel
from rltrain.algo.dense_kernel import padded, panels, turned_panels, weight_panels
from rltrain.algo.product import COLUMNS, ROWS, F, product

SOURCES = (__file__, *dense_kernel.SOURCES)
njit = partial(compiled.njit, *SOURCES, fastmath={"contract", "nsz"})


@njit()
def conv(x, flat, shape):
    """ReLU of the convolution: images [R, C·H·W] to [R, filters · places]."""
    channels, height, width, kernel, stride, n_out = shape
    n_in, n_places = channels * kernel * kernel, places(height, width, kernel, stride)
    weight, bias = weight_panels(flat, n_in, n_out), flat[n_out * n_in :]
    seen = np.zeros((padded(n_places, ROWS), padded(n_in, COLUMNS)), F)
    out = np.empty((seen.shape[0], padded(n_out, COLUMNS)), F)
    y = np.zeros((x.shape[0], padded(n_out * n_places, COLUMNS)), F)
    for r in range(x.shape[0]):
        patches(x[r], shape, seen)
        product(out, seen, weight, n_places)
        for o in range(n_out):
            for p in range(n_places):
                value = out[p, o] + bias[o]
                y[r, o * n_places + p] = F(0) if value < 0 else value
    return y


@njit()
def conv_gradient(x, of_output, shape, gradient):
    """Fill ``gradient``, by the layer's weights, from that by its output before the ReLU."""
    channels, height, width, kernel, stride, n_out = shape
    n_in, n_places = channels * kernel * kernel, places(height, width, kernel, stride)
    gradient[:] = 0
    of_bias = gradient[n_out * n_in :]
    seen = np.zeros((padded(n_places, ROWS), padded(n_in, COLUMNS)), F)
    turned = np.zeros((padded(n_out, ROWS), seen.shape[0]), F)
    of_weight = np.empty((turned.shape[0], seen.shape[1]), F)
    for r in range(of_output.shape[0]):
        for o in range(n_out):
            for p in range(n_places):
                turned[o, p] = of_output[r, o * n_places + p]
                of_bias[o] += turned[o, p]
        patches(x[r], shape, seen)
        product(of_weight, turned, panels(seen), n_out)
        for o in range(n_out):
            for i in range(n_in):
                gradient[o * n_in + i] += of_weight[o, i]


@njit()
def conv_input_gradient(of_output, flat, shape):
    """The gradient by the layer's input [R, C·H·W], from that by its output before the ReLU."""
    channels, height, width, kernel, stride, n_out = shape
    n_in, n_places = channels * kernel * kernel, places(height, width, kernel, stride)
    weight = turned_panels(flat, n_in, n_out)
    of_place = np.zeros((padded(n_places, ROWS), padded(n_out, COLUMNS)), F)
    of_patch = np.empty((of_place.shape[0], padded(n_in, COLUMNS)), F)
    of_input = np.zeros((of_output.shape[0], padded(channels * height * width, COLUMNS)), F)
    for r in range(of_output.shape[0]):
        for o in range(n_out):
            for p in range(n_places):
                of_place[p, o] = of_output[r, o * n_places + p]
        product(of_patch, of_place, weight, n_places)
        across = (width - kernel) // stride + 1
        for p in range(n_places):
            corner = p // across * stride * width + p % across * stride
            for i in range(n_in):
                c, top, left = i // (kernel * kernel), i // kernel % kernel, i % kernel
                of_input[r, (c * height + top) * width + left + corner] += of_patch[p, i]
    return of_input


@njit()
def places(height, width, kernel, stride):
    """Positions of the kernel."""
    return ((height - kernel) // stride + 1) * ((width - kernel) // stride + 1)


@njit()
def patches(image, shape, seen):
    """What the kernel sees at every place: [places, C · kernel · kernel]."""
    channels, height, width, kernel, stride, _ = shape
    place = 0
    for y in range(0, height - kernel + 1, stride):
        for x in range(0, width - kernel + 1, stride):
            i = 0
            for c in range(channels):
                for top in range(kernel):
                    start = (c * height + y + top) * width + x
                    for left in range(kernel):
                        seen[place, i] = image[start + left]
                        i += 1
            place += 1
