"""A linear layer in machine code, forward and backward.

Weights are W [n_out, n_in] and b [n_out], one after the other in a flat array. Rows and columns of
everything else are padded to multiples of four and of ``COLUMNS`` with zeros.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from functools import partial

import numpy as np

from rltrain.algo.kernels import matmul_kernel as shared
from rltrain.algo.kernels.matmul_kernel import (
    COLUMNS,
    ROWS,
    F,
    product,
)
from rltrain.common import numba_cache

SQUARE, FEW = 16, 32
SOURCES = (__file__, shared.__file__)
# not "nnan": NaN has to propagate
njit = partial(numba_cache.njit, *SOURCES, fastmath={"contract", "nsz"})


@njit()
def padded(n, multiple):
    """The next multiple."""
    return (n + multiple - 1) // multiple * multiple


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
def weight_panels(flat, n_in, n_out):
    """W [n_out, n_in] as ``product`` takes it, for sums over inputs."""
    out = np.zeros((padded(n_out, COLUMNS) // COLUMNS, padded(n_in, COLUMNS), COLUMNS), F)
    for o in range(n_out):
        panel = out[o // COLUMNS]
        for i in range(n_in):
            panel[i, o % COLUMNS] = flat[o * n_in + i]
    return out


@njit()
def turned_panels(flat, n_in, n_out):
    """W [n_out, n_in] as ``product`` takes it, for sums over outputs."""
    out = np.zeros((padded(n_in, COLUMNS) // COLUMNS, padded(n_out, COLUMNS), COLUMNS), F)
    for o in range(n_out):
        for i in range(n_in):
            out[i // COLUMNS, o, i % COLUMNS] = flat[o * n_in + i]
    return out


@njit()
def transposed(x):
    """[R, M] to [M, R], in squares that fit into the nearest cache."""
    n_rows, width = x.shape
    out = np.empty((width, n_rows), F)
    for top in range(0, n_rows, SQUARE):
        for left in range(0, width, SQUARE):
            for o in range(left, min(left + SQUARE, width)):
                for r in range(top, min(top + SQUARE, n_rows)):
                    out[o, r] = x[r, o]
    return out


@njit()
def sums_of_few(x, flat, n_in, n_out):
    """x Wᵀ as (W xᵀ)ᵀ, to the last bit the same: of few rows it is quicker to turn those."""
    n_rows, whole = x.shape[0], n_out // ROWS * ROWS
    turned = np.zeros((padded(n_rows, COLUMNS) // COLUMNS, n_in, COLUMNS), F)
    for r in range(n_rows):
        panel = turned[r // COLUMNS]
        for i in range(n_in):
            panel[i, r % COLUMNS] = x[r, i]
    weight = flat[: n_out * n_in].reshape(n_out, n_in)
    total = np.empty((padded(n_out, ROWS), len(turned) * COLUMNS), F)
    product(total, weight, turned, whole)
    if whole < n_out:
        rest = np.zeros((ROWS, n_in), F)
        rest[: n_out - whole] = weight[whole:]
        product(total[whole:], rest, turned, ROWS)
    y = np.zeros((n_rows, padded(n_out, COLUMNS)), F)
    for o in range(n_out):
        for r in range(n_rows):
            y[r, o] = total[o, r]
    return y


@njit()
def sums(x, flat, n_in, n_out):
    """x Wᵀ, [R, n_out]."""
    if x.shape[0] <= FEW:
        return sums_of_few(x, flat, n_in, n_out)
    y = np.empty((x.shape[0], padded(n_out, COLUMNS)), F)
    product(y, x, weight_panels(flat, n_in, n_out), x.shape[0])
    return y


@njit()
def dense(x, flat, n_in, n_out, relu):
    """[R, n_in] to [R, n_out]."""
    y = sums(x, flat, n_in, n_out)
    bias = flat[n_out * n_in :]
    lowest = F(0) if relu else F(-np.inf)
    for r in range(y.shape[0]):
        for o in range(n_out):
            value = y[r, o] + bias[o]
            y[r, o] = lowest if value < lowest else value
    return y


@njit()
def dense_gradient(x, of_output, n_in, n_out, gradient):
    """Fill ``gradient``, by the layer's weights, from that by its output [R, n_out]."""
    of_bias = gradient[n_out * n_in :]
    of_bias[:] = 0
    for r in range(of_output.shape[0]):
        for o in range(n_out):
            of_bias[o] += of_output[r, o]
    turned, seen = transposed(of_output), panels(x)
    if n_out % ROWS == 0 and x.shape[1] == n_in:  # written in place
        product(gradient[: n_out * n_in].reshape(n_out, n_in), turned, seen, n_out)
        return
    of_weight = np.empty((of_output.shape[1], x.shape[1]), F)
    product(of_weight, turned, seen, n_out)
    for o in range(n_out):
        for i in range(n_in):
            gradient[o * n_in + i] = of_weight[o, i]


@njit()
def dense_input_gradient(of_output, flat, n_in, n_out):
    """The gradient by the layer's input [R, n_in]."""
    of_input = np.empty((of_output.shape[0], padded(n_in, COLUMNS)), F)
    product(of_input, of_output, turned_panels(flat, n_in, n_out), of_output.shape[0])
    return of_input
