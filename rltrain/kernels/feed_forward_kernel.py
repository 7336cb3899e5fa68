"""Whole feed-forward networks in machine code, forward and backward: convolutions and linear layers
with ReLU between them, and at the end, if it is dueling, two streams.

Weights are one flat array, layer after layer: trunk, advantage, value. A row of ``shapes`` is a
layer's fan-in, its outputs (filters, for a convolution), channels, height, width, kernel and
stride, all zero for a linear one, and 1 for a linear one that is normalized before its ReLU, whose
factors and offsets follow its weights. ``cut``: layers of the trunk and of either stream; without
streams everything is trunk. Numbers are laid out and padded as in ``linear_kernel``.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from functools import partial

import numpy as np

from rltrain.common import numba_cache
from rltrain.kernels import conv_kernel, distribution_kernel
from rltrain.kernels.arithmetic.matmul_kernel import F
from rltrain.kernels.conv_kernel import conv, conv_gradient, conv_input_gradient
from rltrain.kernels.distribution_kernel import means
from rltrain.kernels.linear_kernel import (
    columns,
    dense,
    dense_gradient,
    dense_input_gradient,
    normalize,
    normalize_gradient,
    turn_into,
)

SOURCES = (__file__, *conv_kernel.SOURCES, *distribution_kernel.SOURCES)
njit = partial(numba_cache.njit, *SOURCES, fastmath={"contract", "nsz"})


@njit()
def evaluate(x, flat, shapes, cut):
    """The values that ``forward`` gives of trunk, advantage and value stream, and the output
    [A · K, R] for ``x`` [R, n_0], K numbers for each action.

    A dueling network returns V + A - mean(A) (Wang et al. 2016, equation 9).
    """
    n_trunk, n_stream = cut
    if not shapes[0, 2]:
        x = columns(x, shapes[0, 0])
    trunk = forward(x, flat, shapes[:n_trunk], n_stream > 0)
    q = features = trunk[len(trunk) - 1]
    flat = flat[n_weights(shapes[:n_trunk]) :]
    advantage_shapes = shapes[n_trunk : n_trunk + n_stream]
    advantage = forward(features, flat, advantage_shapes, False)
    value = forward(
        features, flat[n_weights(advantage_shapes) :], shapes[n_trunk + n_stream :], False
    )
    if n_stream:
        q = between_streams(advantage[len(advantage) - 1], value[len(value) - 1])
    return trunk, advantage, value, q


@njit()
def between_streams(a, v):
    """V + A - mean(A) [A · K, R] of ``a`` [A · K, R] and ``v`` [K, R]."""
    n_outputs = len(v)
    n_actions = len(a) // n_outputs
    q = np.empty_like(a)
    mean = np.empty(a.shape[1], F)
    for k in range(n_outputs):
        mean[:] = F(0)
        for i in range(n_actions):
            mean += a[i * n_outputs + k]
        mean /= F(n_actions)
        for i in range(n_actions):
            of, to = a[i * n_outputs + k], q[i * n_outputs + k]
            for r in range(len(of)):
                to[r] = of[r] - mean[r] + v[k, r]
    return q


@njit()
def of_streams(of_q, n_outputs):
    """The gradients by both streams, [A · K, R] and [K, R], of one by their combination."""
    n_actions = len(of_q) // n_outputs
    of_v = np.zeros((n_outputs, of_q.shape[1]), F)
    of_a = np.empty_like(of_q)
    for k in range(n_outputs):
        total = of_v[k]
        for i in range(n_actions):
            total += of_q[i * n_outputs + k]
        for i in range(n_actions):
            of, to = of_q[i * n_outputs + k], of_a[i * n_outputs + k]
            for r in range(len(of)):
                to[r] = of[r] - total[r] / F(n_actions)
    return of_a, of_v


@njit()
def output(rows, flat, shapes, cut, kind, points):
    """Expected returns [R, A] for ``rows`` [R, n_0]; ``kind`` and ``points`` of the outputs as in
    ``distribution_kernel``.
    """
    q = means(evaluate(rows, flat, shapes, cut)[3], kind, points)
    out = np.empty((len(rows), len(q)), F)
    turn_into(q, len(q), len(rows), out)
    return out


@njit()
def differentiate(values, of_q, n_rows, flat, shapes, cut, gradient):
    """Fill ``gradient``, by all weights, from that by the output ``of_q`` [A · K, R'] of the first
    R' rows of ``values``, the result of ``evaluate``; columns after ``n_rows`` are zero.
    """
    trunk, advantage, value, _ = values
    n_trunk, n_stream = cut
    trunk_shapes, advantage_shapes = shapes[:n_trunk], shapes[n_trunk : n_trunk + n_stream]
    start = n_weights(trunk_shapes)
    if n_stream:
        of_a, of_v = of_streams(of_q, len(value[len(value) - 1]))
        between = start + n_weights(advantage_shapes)
        to_input = n_trunk > 0
        of_q = backward(
            advantage,
            of_a,
            n_rows,
            flat[start:between],
            advantage_shapes,
            gradient[start:between],
            to_input,
        )
        of_q += backward(
            value,
            of_v,
            n_rows,
            flat[between:],
            shapes[n_trunk + n_stream :],
            gradient[between:],
            to_input,
        )
    if n_trunk:
        backward(trunk, of_q, n_rows, flat[:start], trunk_shapes, gradient[:start], False)


@njit()
def n_weights(shapes):
    """Weights of some layers."""
    n = 0
    for layer in range(len(shapes)):
        n += (shapes[layer, 0] + 1 + 2 * shapes[layer, 7]) * shapes[layer, 1]
    return n


@njit()
def forward(x, flat, shapes, ends_in_relu):
    """The values in front of every layer and behind the last: rows [R, n] of images, columns [n, R]
    in front of linear layers and behind the last of all; and what ``normalize`` returns of a layer,
    before the values behind it.
    """
    values = [x]
    for layer in range(len(shapes)):
        n_in, n_out, channels, height, width, kernel, stride, norm = shapes[layer]
        if channels:
            x = conv(x, flat, (channels, height, width, kernel, stride, n_out))
            if layer + 1 == len(shapes) or not shapes[layer + 1, 2]:
                x = columns(x, n_out * n_places(shapes[layer]))
        else:
            relu = not norm and (ends_in_relu or layer < len(shapes) - 1)
            x = dense(x, flat, n_in, n_out, relu)
        if norm:
            values.append(normalize(x, flat[(n_in + 1) * n_out :]))
        values.append(x)
        flat = flat[n_weights(shapes[layer : layer + 1]) :]
    return values


@njit()
def n_places(shape):
    """Places of a convolution's filter in an image."""
    return ((shape[3] - shape[5]) // shape[6] + 1) * ((shape[4] - shape[5]) // shape[6] + 1)


@njit()
def backward(values, of_output, n_rows, flat, shapes, gradient, to_input):
    """Fill ``gradient``; with ``to_input`` also give that by the first values, which came out of a
    ReLU. ``of_output`` is columns, zero after the first ``n_rows``.
    """
    end, images, behind = len(flat), False, len(values) - 1
    for layer in range(len(shapes) - 1, -1, -1):
        n_in, n_out, channels, height, width, kernel, stride, norm = shapes[layer]
        start = end - n_weights(shapes[layer : layer + 1])
        weights = flat[start:end]
        if norm:
            behind -= 1
            first = (n_in + 1) * n_out
            normalize_gradient(
                of_output, values[behind], weights[first:], n_rows, gradient[start + first : end]
            )
        behind -= 1
        x = values[behind]
        shape = channels, height, width, kernel, stride, n_out
        if channels:
            if not images:
                turned = np.empty((n_rows, len(of_output)), F)
                turn_into(of_output, len(of_output), n_rows, turned)
                of_output, images = turned, True
            conv_gradient(x, of_output, shape, gradient[start:end])
        else:
            dense_gradient(x, of_output, n_rows, gradient[start:end])
        if layer == 0 and not to_input:
            break
        if channels:
            of_output = conv_input_gradient(of_output, weights, shape)
        else:
            of_output = dense_input_gradient(of_output, weights, n_in)
        for i in range(of_output.shape[0]):
            for j in range(of_output.shape[1]):
                of_output[i, j] = F(0) if x[i, j] <= 0 else of_output[i, j]
        end = start
    return of_output


@njit()
def copy_row(row, to):
    """Write ``row`` to the beginning of ``to``."""
    for i in range(len(row)):
        to[i] = row[i]
