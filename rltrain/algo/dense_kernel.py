"""A stack of linear layers with ReLU between them in machine code, forward and backward.

Weights are one flat array: W_1 [n_1, n_0], b_1 [n_1], W_2, … with widths ``sizes`` n_0, n_1, …;
rows and columns of everything else are padded with zeros to what ``product`` takes.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from functools import partial

import numpy as np

from rltrain import compiled
from rltrain.algo import product as shared
from rltrain.algo.product import COLUMNS, ROWS, F, product

SQUARE = 16
SOURCES = (__file__, shared.__file__)
# not "nnan": a NaN has to come out again
njit = partial(compiled.njit, *SOURCES, fastmath={"contract", "nsz"})


@njit()
def padded(n, multiple):
    """The next multiple."""
    return (n + multiple - 1) // multiple * multiple


@njit()
def inputs(rows):
    """``rows`` [R, n_0] padded."""
    n, width = rows.shape
    x = np.zeros((padded(n, ROWS), padded(width, COLUMNS)), F)
    for i in range(n):
        for j in range(width):
            x[i, j] = rows[i, j]
    return x


@njit()
def forward(x, flat, sizes):
    """The values [R, n_l] behind every layer, ``x`` first."""
    values = [x]
    at = 0
    for layer in range(len(sizes) - 1):
        n_in, n_out = sizes[layer], sizes[layer + 1]
        width = padded(n_out, COLUMNS)
        weight = np.zeros((width // COLUMNS, x.shape[1], COLUMNS), F)
        for o in range(n_out):
            panel = weight[o // COLUMNS]
            for i in range(n_in):
                panel[i, o % COLUMNS] = flat[at + o * n_in + i]
        at += n_in * n_out
        y = np.empty((x.shape[0], width), F)
        product(y, x, weight, x.shape[0])
        bias = flat[at : at + n_out]
        at += n_out
        if layer < len(sizes) - 2:
            for r in range(y.shape[0]):
                for o in range(n_out):
                    value = y[r, o] + bias[o]
                    y[r, o] = F(0) if value < 0 else value
        else:
            for r in range(y.shape[0]):
                for o in range(n_out):
                    y[r, o] += bias[o]
        values.append(y)
        x = y
    return values


@njit()
def panels(weight):
    """[K, M] as ``product`` takes it."""
    n, width = weight.shape
    out = np.empty((width // COLUMNS, n, COLUMNS), F)
    for j in range(len(out)):
        panel = out[j]
        for k in range(n):
            for c in range(COLUMNS):
                panel[k, c] = weight[k, j * COLUMNS + c]
    return out


@njit()
def transposed(x):
    """[R, M] to [M, R], in squares that fit into the nearest cache; both multiples of ``ROWS``."""
    n_rows, width = x.shape
    out = np.empty((width, n_rows), F)
    for top in range(0, n_rows, SQUARE):
        for left in range(0, width, SQUARE):
            for o in range(left, min(left + SQUARE, width)):
                for r in range(top, min(top + SQUARE, n_rows)):
                    out[o, r] = x[r, o]
    return out


@njit()
def backward(values, of_output, flat, sizes, gradient):
    """Fill ``gradient``, by all weights, from that by the output ``of_output`` [R', n_L], which the
    first R' rows of ``values`` led to.
    """
    n_rows = of_output.shape[0]
    at = len(flat)
    for layer in range(len(sizes) - 2, -1, -1):
        n_in, n_out = sizes[layer], sizes[layer + 1]
        x = values[layer][:n_rows]
        width = of_output.shape[1]
        turned = transposed(of_output)
        at -= n_out
        of_bias = gradient[at : at + n_out]
        of_bias[:] = 0
        for r in range(n_rows):
            for o in range(n_out):
                of_bias[o] += of_output[r, o]
        at -= n_in * n_out
        of_weight = np.empty((width, x.shape[1]), F)
        product(of_weight, turned, panels(x), n_out)
        for o in range(n_out):
            for i in range(n_in):
                gradient[at + o * n_in + i] = of_weight[o, i]
        if layer == 0:
            break
        weight = np.zeros((width, x.shape[1]), F)
        for o in range(n_out):
            for i in range(n_in):
                weight[o, i] = flat[at + o * n_in + i]
        of_input = np.empty(x.shape, F)
        product(of_input, of_output, panels(weight), n_rows)
        for r in range(n_rows):
            for i in range(n_in):
                of_input[r, i] = F(0) if x[r, i] <= 0 else of_input[r, i]
        of_output = of_input
