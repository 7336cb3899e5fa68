"""Whole feed-forward networks in machine code, forward and backward: convolutions and linear layers
with ReLU between them, and at the end, if it is dueling, two streams.

Weights are one flat array, layer after layer: trunk, advantage, value. A row of ``shapes`` is a
layer's fan-in, its outputs (filters, for a convolution), and channels, height, width, kernel and
stride, all zero for a linear one. ``cut``: layers of the trunk and of either stream;
without streams everything is trunk. Numbers are laid out and padded as in ``linear_kernel``.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from functools import partial

import numpy as np

from rltrain.algo.kernels import conv_kernel
from rltrain.algo.kernels.conv_kernel import conv, conv_gradient, conv_input_gradient
from rltrain.algo.kernels.linear_kernel import (
    dense,
    dense_gradient,
    dense_input_gradient,
    padded,
)
from rltrain.algo.kernels.matmul_kernel import COLUMNS, ROWS, F
from rltrain.common import numba_cache

SOURCES = (__file__, *conv_kernel.SOURCES)
njit = partial(numba_cache.njit, *SOURCES, fastmath={"contract", "nsz"})


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
def evaluate(x, flat, shapes, cut):
    """The values behind every layer of trunk, advantage and value stream, and the network's output.

    A dueling network returns V + A - mean(A) (Wang et al. 2016, equation 9).
    """
    n_trunk, n_stream = cut
    trunk = forward(x, flat, shapes[:n_trunk], n_stream > 0)
    q = features = trunk[n_trunk]
    flat = flat[n_weights(shapes[:n_trunk]) :]
    advantage_shapes = shapes[n_trunk : n_trunk + n_stream]
    advantage = forward(features, flat, advantage_shapes, False)
    value = forward(
        features, flat[n_weights(advantage_shapes) :], shapes[n_trunk + n_stream :], False
    )
    if n_stream:
        n_actions = shapes[n_trunk + n_stream - 1, 1]
        a, v = advantage[n_stream], value[n_stream]
        q = np.empty_like(a)
        for r in range(len(q)):
            mean = F(0)
            for i in range(n_actions):
                mean += a[r, i]
            mean /= F(n_actions)
            for i in range(n_actions):
                q[r, i] = a[r, i] - mean + v[r, 0]
    return trunk, advantage, value, q


@njit()
def output(rows, flat, shapes, cut):
    """The network's output [R, A] for ``rows`` [R, n_0]."""
    n_stream = cut[1]
    n_actions = shapes[cut[0] + n_stream - 1, 1]
    return evaluate(inputs(rows), flat, shapes, cut)[3][: len(rows), :n_actions].copy()


@njit()
def differentiate(values, of_q, flat, shapes, cut, gradient):
    """Fill ``gradient``, by all weights, from that by the output ``of_q`` [R', A] of the first R'
    rows of ``values``, the result of ``evaluate``; columns after the last action are zero.
    """
    trunk, advantage, value, _ = values
    n_trunk, n_stream = cut
    trunk_shapes, advantage_shapes = shapes[:n_trunk], shapes[n_trunk : n_trunk + n_stream]
    start = n_weights(trunk_shapes)
    if n_stream:
        n_actions = shapes[n_trunk + n_stream - 1, 1]
        of_v = np.zeros((len(of_q), COLUMNS), F)
        of_a = np.zeros_like(of_q)
        for r in range(len(of_q)):
            for i in range(n_actions):
                of_v[r, 0] += of_q[r, i]
            for i in range(n_actions):
                of_a[r, i] = of_q[r, i] - of_v[r, 0] / F(n_actions)
        between = start + n_weights(advantage_shapes)
        of_q = backward(
            advantage,
            of_a,
            flat[start:between],
            advantage_shapes,
            gradient[start:between],
            n_trunk > 0,
        )
        of_q += backward(
            value,
            of_v,
            flat[between:],
            shapes[n_trunk + n_stream :],
            gradient[between:],
            n_trunk > 0,
        )
    if n_trunk:
        backward(trunk, of_q, flat[:start], trunk_shapes, gradient[:start], False)


@njit()
def n_weights(shapes):
    """Weights of some layers."""
    n = 0
    for layer in range(len(shapes)):
        n += (shapes[layer, 0] + 1) * shapes[layer, 1]
    return n


@njit()
def forward(x, flat, shapes, ends_in_relu):
    """The values [R, n] behind every layer, ``x`` first."""
    values = [x]
    for layer in range(len(shapes)):
        n_in, n_out, channels, height, width, kernel, stride = shapes[layer]
        if channels:
            x = conv(x, flat, (channels, height, width, kernel, stride, n_out))
        else:
            x = dense(x, flat, n_in, n_out, ends_in_relu or layer < len(shapes) - 1)
        values.append(x)
        flat = flat[(n_in + 1) * n_out :]
    return values


@njit()
def backward(values, of_output, flat, shapes, gradient, to_input):
    """Fill ``gradient``; with ``to_input`` also give that by the first values, which came out of a
    ReLU.
    """
    n_rows = of_output.shape[0]
    end = len(flat)
    for layer in range(len(shapes) - 1, -1, -1):
        n_in, n_out, channels, height, width, kernel, stride = shapes[layer]
        start = end - (n_in + 1) * n_out
        x, weights = values[layer][:n_rows], flat[start:end]
        shape = channels, height, width, kernel, stride, n_out
        if channels:
            conv_gradient(x, of_output, shape, gradient[start:end])
        else:
            dense_gradient(x, of_output, n_in, n_out, gradient[start:end])
        if layer == 0 and not to_input:
            break
        if channels:
            of_output = conv_input_gradient(of_output, weights, shape)
        else:
            of_output = dense_input_gradient(of_output, weights, n_in, n_out)
        for r in range(n_rows):
            for i in range(x.shape[1]):
                of_output[r, i] = F(0) if x[r, i] <= 0 else of_output[r, i]
        end = start
    return of_output
