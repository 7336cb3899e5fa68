"""Whole feed-forward networks in machine code, forward and backward: a trunk of convolutions and
linear layers with ReLU between and behind them, and one stream of linear layers, or two if it is
dueling.

Weights are one flat array, layer after layer: trunk, advantage, value, embedding. A row of
``shapes`` is a layer's fan-in, its outputs (filters, for a convolution), channels, height, width,
kernel and stride, all zero for a linear one, and 1 for a linear one that is normalized before its
ReLU, whose factors and offsets follow its weights. ``cut``: layers of the trunk and of either
stream. Numbers are laid out and padded as in ``linear_kernel``.

Outputs may belong to K quantile levels ``tau`` [R, K] (IQN; Dabney et al. 2018b), or ``tau`` is
None: Numba compiles what such networks need and no more. The features are multiplied by an
embedding of the level, the last row of ``shapes``. Column k · R' + r of everything behind that
product belongs to level k of row r, where R' is R padded: an output [A, K · R'] is then [A · K, R']
as it lies in memory, the layout of other distributions.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from rltrain.common import numba_cache
from rltrain.kernels.arithmetic import linear_kernel
from rltrain.kernels.arithmetic.linear_kernel import (
    columns,
    copy_row,
    dense,
    dense_gradient,
    dense_input_gradient,
    normalize,
    normalize_gradient,
    patches,
    patches_gradient,
    turn_into,
)
from rltrain.kernels.arithmetic.tile_kernel import F
from rltrain.kernels.layers import distribution_kernel
from rltrain.kernels.layers.distribution_kernel import means

njit = numba_cache.arithmetic(__file__, linear_kernel, distribution_kernel)
TOGETHER = 256
"""Levels of rows that are evaluated together where nothing is learned."""


@njit()
def evaluate(x, tau, flat, shapes, cut):
    """The output [A · K, R'] for ``x`` [R, n_0], and in front of it the values that
    ``differentiate`` needs.

    A dueling network returns V + A - mean(A) (Wang et al. 2016, equation 9).
    """
    trunk = forward(columns(x, x.shape[1]), flat, shapes[: cut[0]], cut[0])
    head, q = behind_trunk(trunk[len(trunk) - 1], tau, flat, shapes, cut)
    return (trunk, *head), q


@njit()
def behind_trunk(features, tau, flat, shapes, cut):
    """As ``evaluate``, from the output of the trunk on."""
    n_trunk, n_stream = cut
    n_layers = len(shapes) - (tau is not None)
    behind = flat[n_weights(shapes[:n_trunk]) :]
    advantage_shapes = shapes[n_trunk : n_trunk + n_stream]
    value_shapes = shapes[n_trunk + n_stream : n_layers]
    joined = waves = embedding = features
    if tau is not None:
        of_levels = flat[n_weights(shapes[:n_layers]) :]
        waves = cosines(tau, shapes[n_layers, 0], features.shape[1])
        n_levels = tau.shape[1]
        embedding = dense(waves, of_levels, shapes[n_layers, 0], shapes[n_layers, 1], n_levels > 0)
        n_rows, joined = features.shape[1], np.empty_like(embedding)
        for i in range(len(features)):
            feature = features[i]
            for k in range(n_levels):
                to, level = joined[i, k * n_rows :], embedding[i, k * n_rows :]
                for r in range(n_rows):
                    to[r] = level[r] * feature[r]
    advantage = forward(joined, behind, advantage_shapes, n_stream - 1)
    value = forward(joined, behind[n_weights(advantage_shapes) :], value_shapes, n_stream - 1)
    q = advantage[len(advantage) - 1]
    if len(value_shapes):
        q = between_streams(q, value[len(value) - 1])
    width = features.shape[1]
    return (advantage, value, waves, embedding), q.reshape((q.size // width, width))


@njit()
def outputs(x, tau, flat, shapes, cut):
    """The output of ``evaluate``, a few levels at a time, which stay in the caches."""
    if tau is None:
        return evaluate(x, tau, flat, shapes, cut)[1]
    n_levels = tau.shape[1]
    trunk = forward(columns(x, x.shape[1]), flat, shapes[: cut[0]], cut[0])
    features = trunk[len(trunk) - 1]
    width = features.shape[1]
    n_together = max(1, TOGETHER // max(width, 1))
    out = np.empty((shapes[cut[0] + cut[1] - 1, 1], n_levels, width), F)
    for first in range(0, n_levels, n_together):
        end = min(first + n_together, n_levels)
        levels = np.ascontiguousarray(tau[:, first:end])
        part = behind_trunk(features, levels, flat, shapes, cut)[1]
        part = part.reshape((len(out), end - first, width))
        for i in range(len(out)):
            for k in range(end - first):
                copy_row(part[i, k], out[i, first + k])
    return out.reshape((len(out) * n_levels, width))


@njit()
def cosines(tau, n_cosines, width):
    """cos(π i τ) [n_cosines, K · width] for i from 0 on, of levels [R, K] (equation 4)."""
    n_rows, n_levels = tau.shape
    out = np.zeros((n_cosines, n_levels * width), F)
    before, last = np.ones(n_levels * width), np.ones(n_levels * width)
    for k in range(n_levels):
        for r in range(n_rows):
            last[k * width + r] = np.cos(np.pi * tau[r, k])
    double = 2 * last  # cos(i x) = 2 cos(x) cos((i - 1) x) - cos((i - 2) x)
    for i in range(n_cosines):
        for c in range(len(before)):
            out[i, c] = before[c]
            following = double[c] * last[c] - before[c]
            before[c] = last[c]
            last[c] = following
    return out


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
def streams_gradient(of_q, n_outputs):
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
def expected(rows, tau, flat, shapes, cut, kind, points):
    """Expected returns [R, A] for ``rows`` [R, n_0]; ``kind`` and ``points`` of the outputs as in
    ``td_step_kernel``.
    """
    q = means(outputs(rows, tau, flat, shapes, cut), tau, kind, points)
    out = np.empty((len(rows), len(q)), F)
    turn_into(q, len(q), len(rows), out)
    return out


@njit()
def differentiate(values, of_q, n_rows, tau, flat, shapes, cut, gradient):
    """Fill ``gradient``, by all weights, from that by the output ``of_q`` [A · K, R'], which is
    zero behind the first ``n_rows`` columns; ``values`` as ``evaluate`` returned them.
    """
    trunk, advantage, value, waves, embedding = values
    n_trunk, n_stream = cut
    n_layers = len(shapes) - (tau is not None)
    advantage_shapes = shapes[n_trunk : n_trunk + n_stream]
    value_shapes = shapes[n_trunk + n_stream : n_layers]
    start, end = n_weights(shapes[:n_trunk]), n_weights(shapes[:n_layers])
    between = start + n_weights(advantage_shapes)
    features, width = trunk[len(trunk) - 1], embedding.shape[1]
    n_behind = n_rows if tau is None else width
    of_a = of_q.reshape((of_q.size // width, width))
    of_v = of_a[:0]
    if len(value_shapes):
        of_a, of_v = streams_gradient(of_a, len(value[len(value) - 1]))
    of_first = backward(
        advantage, of_a, n_behind, flat[start:between], advantage_shapes, gradient[start:between]
    )
    of_features = input_gradient(advantage[0], of_first, flat[start:between], advantage_shapes[0])
    if len(value_shapes):
        of_first = backward(
            value, of_v, n_behind, flat[between:end], value_shapes, gradient[between:end]
        )
        of_features += input_gradient(value[0], of_first, flat[between:end], value_shapes[0])
    if tau is not None:
        of_joined, of_features = of_features, np.zeros_like(features)
        for i in range(len(features)):
            feature, of_feature = features[i], of_features[i]
            for first in range(0, width, len(feature)):
                slope, level = of_joined[i, first:], embedding[i, first:]
                for r in range(len(feature)):
                    of_feature[r] += F(0) if feature[r] <= 0 else slope[r] * level[r]
                for r in range(len(feature)):
                    slope[r] = F(0) if level[r] <= 0 else slope[r] * feature[r]
        dense_gradient(waves, of_joined, width, gradient[end:])
    backward(trunk, of_features, n_rows, flat[:start], shapes[:n_trunk], gradient[:start])


@njit()
def n_weights(shapes):
    """Weights of some layers."""
    n = 0
    for layer in range(len(shapes)):
        n += (shapes[layer, 0] + 1 + 2 * shapes[layer, 7]) * shapes[layer, 1]
    return n


@njit()
def forward(x, flat, shapes, n_relu):
    """The values in front of every layer, of a convolution the patches, and behind the last; and
    what ``normalize`` returns of a layer, before the values behind it. A ReLU follows the first
    ``n_relu`` layers.
    """
    values = []
    for layer in range(len(shapes)):
        n_in, n_out, channels, height, width, kernel, stride, norm = shapes[layer]
        n_rows = x.shape[1]
        if channels:
            x = patches(x, (channels, height, width, kernel, stride))
        values.append(x)
        relu = not norm and layer < n_relu
        x = dense(x, flat, n_in, n_out, relu)
        if norm:
            values.append(normalize(x, flat[(n_in + 1) * n_out :]))
        if channels:
            x = x.reshape((n_out * n_places(shapes[layer]), n_rows))
        flat = flat[n_weights(shapes[layer : layer + 1]) :]
    values.append(x)
    return values


@njit()
def n_places(shape):
    """Places of a convolution's filter in an image."""
    return ((shape[3] - shape[5]) // shape[6] + 1) * ((shape[4] - shape[5]) // shape[6] + 1)


@njit()
def backward(values, of_output, n_rows, flat, shapes, gradient):
    """Fill ``gradient``, and return that by the output of the first layer. ``of_output`` is zero
    behind the first ``n_rows`` columns.
    """
    end, behind = len(flat), len(values) - 1
    for layer in range(len(shapes) - 1, -1, -1):
        n_in, n_out, channels, _, _, _, _, norm = shapes[layer]
        start = end - n_weights(shapes[layer : layer + 1])
        weights, first = flat[start:end], start + (n_in + 1) * n_out
        if norm:
            behind -= 1
            factors = weights[first - start :]
            normalize_gradient(of_output, values[behind], factors, n_rows, gradient[first:end])
        behind -= 1
        x = values[behind]
        if channels:
            of_output = of_output.reshape((n_out, of_output.size // n_out))
        dense_gradient(x, of_output, x.shape[1] if channels else n_rows, gradient[start:first])
        if layer:
            of_output = input_gradient(x, of_output, weights, shapes[layer])
        end = start
    return of_output


@njit()
def input_gradient(x, of_output, weights, shape):
    """The gradient by the input of a layer, which came out of a ReLU; ``x``: the values in front of
    the layer.
    """
    n_in, _, channels, height, width, kernel, stride, _ = shape
    of_input = dense_input_gradient(of_output, weights, n_in)
    for i in range(of_input.shape[0]):
        for j in range(of_input.shape[1]):
            of_input[i, j] = F(0) if x[i, j] <= 0 else of_input[i, j]
    if channels:
        of_input = patches_gradient(of_input, (channels, height, width, kernel, stride))
    return of_input
