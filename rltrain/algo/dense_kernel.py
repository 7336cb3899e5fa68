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
        weight = np.zeros((padded(n_in, COLUMNS), padded(n_out, COLUMNS)), F)
        for o in range(n_out):
            for i in range(n_in):
                weight[i, o] = flat[at + o * n_in + i]
        at += n_in * n_out
        y = np.empty((x.shape[0], weight.shape[1]), F)
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
        turned = np.empty((width, n_rows), F)
        for r in range(n_rows):
            for o in range(width):
                turned[o, r] = of_output[r, o]
        at -= n_out
        for o in range(n_out):
            total = F(0)
            for r in range(n_rows):
                total += turned[o, r]
            gradient[at + o] = total
        at -= n_in * n_out
        of_weight = np.empty((width, x.shape[1]), F)
        product(of_weight, turned, x, n_out)
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
        product(of_input, of_output, weight, n_rows)
        for r in range(n_rows):
            for i in range(n_in):
                if x[r, i] <= 0:
                    of_input[r, i] = 0
        of_output = of_input
