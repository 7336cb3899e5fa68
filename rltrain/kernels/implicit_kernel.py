"""Networks whose outputs belong to quantile levels (IQN; Dabney et al. 2018b) in machine code,
forward and backward, and their learning step.

Features are multiplied by an embedding of the level, whose layer is the last row of ``shapes``.
Column k · R' + r of everything behind that product belongs to level k of row r, where R' is R
padded: an output [A, K · R'] is then [A · K, R'] as it lies in memory, the layout of other
distributions. ``shapes`` and ``cut`` as in ``feed_forward_kernel``, but streams are behind ``cut``
with or without a value stream.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from functools import partial

import numpy as np

from rltrain.common import numba_cache
from rltrain.kernels import td_step_kernel
from rltrain.kernels.arithmetic.matmul_kernel import F
from rltrain.kernels.distribution_kernel import QUANTILE, means
from rltrain.kernels.feed_forward_kernel import (
    backward,
    between_streams,
    copy_row,
    forward,
    n_weights,
    of_streams,
)
from rltrain.kernels.linear_kernel import (
    columns,
    dense,
    dense_gradient,
    turn_into,
)
from rltrain.kernels.td_step_kernel import (
    bootstraps,
    choose_next,
    distances,
    ends,
    fits,
)

SOURCES = (__file__, *td_step_kernel.SOURCES)
njit = partial(numba_cache.njit, *SOURCES, fastmath={"contract", "nsz"})
COLUMNS = 256
"""Levels of rows that are evaluated together where nothing is learned."""


@njit()
def evaluate(x, tau, flat, shapes, cut):
    """Outputs [A · K, R'] for ``x`` [R, n_0] at levels ``tau`` [R, K], behind the values that
    ``differentiate`` needs.
    """
    n_trunk = cut[0]
    if not shapes[0, 2]:
        x = columns(x, shapes[0, 0])
    trunk = forward(x, flat, shapes[:n_trunk], True)
    features = trunk[len(trunk) - 1]
    head, q = at_levels(features, tau, flat, shapes, cut)
    return (trunk, *head), q


@njit()
def at_levels(features, tau, flat, shapes, cut):
    """As ``evaluate``, from the output of the trunk on."""
    n_trunk, n_stream = cut
    n_layers = len(shapes) - 1
    behind = flat[n_weights(shapes[:n_trunk]) :]
    advantage_shapes = shapes[n_trunk : n_trunk + n_stream]
    value_shapes = shapes[n_trunk + n_stream : n_layers]
    of_levels = flat[n_weights(shapes[:n_layers]) :]
    waves = cosines(tau, shapes[n_layers, 0], features.shape[1])
    embedding = dense(waves, of_levels, shapes[n_layers, 0], shapes[n_layers, 1], True)
    n_rows, joined = features.shape[1], np.empty_like(embedding)
    for i in range(len(features)):
        feature = features[i]
        for k in range(tau.shape[1]):
            to, level = joined[i, k * n_rows :], embedding[i, k * n_rows :]
            for r in range(n_rows):
                to[r] = level[r] * feature[r]
    advantage = forward(joined, behind, advantage_shapes, False)
    value = forward(joined, behind[n_weights(advantage_shapes) :], value_shapes, False)
    q = advantage[len(advantage) - 1]
    if len(value_shapes):
        q = between_streams(q, value[len(value) - 1])
    values = advantage, value, waves, embedding
    return values, q.reshape((len(q) * tau.shape[1], n_rows))


@njit()
def outputs(x, tau, flat, shapes, cut):
    """The outputs of ``evaluate``, a few levels at a time, which stay in the caches."""
    if not shapes[0, 2]:
        x = columns(x, shapes[0, 0])
    trunk = forward(x, flat, shapes[: cut[0]], True)
    features, n_levels = trunk[len(trunk) - 1], tau.shape[1]
    width = features.shape[1]
    n_together = max(1, COLUMNS // max(width, 1))
    out = np.empty((shapes[cut[0] + cut[1] - 1, 1], n_levels, width), F)
    for first in range(0, n_levels, n_together):
        end = min(first + n_together, n_levels)
        part = at_levels(features, tau[:, first:end], flat, shapes, cut)[1]
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
def output(rows, tau, flat, shapes, cut):
    """Expected returns [R, A] for ``rows`` [R, n_0] at levels ``tau`` [R, K]."""
    q = means(outputs(rows, tau, flat, shapes, cut), QUANTILE, tau[0])
    out = np.empty((len(rows), len(q)), F)
    turn_into(q, len(q), len(rows), out)
    return out


@njit()
def differentiate(values, of_q, n_rows, flat, shapes, cut, gradient):
    """Fill ``gradient``, by all weights, from that by the output ``of_q`` [A · K, R'], which is
    zero after the first ``n_rows`` columns.
    """
    trunk, advantage, value, waves, embedding = values
    n_trunk, n_stream = cut
    n_layers, width = len(shapes) - 1, embedding.shape[1]
    trunk_shapes = shapes[:n_trunk]
    advantage_shapes = shapes[n_trunk : n_trunk + n_stream]
    value_shapes = shapes[n_trunk + n_stream : n_layers]
    start, end = n_weights(trunk_shapes), n_weights(shapes[:n_layers])
    between = start + n_weights(advantage_shapes)
    of_a = of_q.reshape((of_q.size // width, width))
    if len(value_shapes):
        of_a, of_v = of_streams(of_a, 1)
        of_joined = backward(
            value, of_v, width, flat[between:end], value_shapes, gradient[between:end], True
        )
        of_joined += backward(
            advantage, of_a, width, flat[start:between], advantage_shapes, gradient[start:between],
            True,
        )  # fmt: skip
    else:
        of_joined = backward(
            advantage, of_a, width, flat[start:between], advantage_shapes, gradient[start:between],
            True,
        )  # fmt: skip
    features = trunk[len(trunk) - 1]
    of_features = np.zeros_like(features)
    for i in range(len(features)):
        feature, of_feature = features[i], of_features[i]
        for first in range(0, width, len(feature)):
            slope, level = of_joined[i, first:], embedding[i, first:]
            for r in range(len(feature)):
                of_feature[r] += F(0) if feature[r] <= 0 else slope[r] * level[r]
            for r in range(len(feature)):
                slope[r] = F(0) if level[r] <= 0 else slope[r] * feature[r]
    dense_gradient(waves, of_joined, width, gradient[end:])
    backward(trunk, of_features, n_rows, flat[:start], trunk_shapes, gradient[:start], False)


@njit()
def step(batch, rows, levels, mask_end, networks, options, eta, gradient, priority, sums):
    """``td_step_kernel.step``.

    Args:
        levels: those of the online network [mask_end · B · N, K], those of the target network for
            values [T · B · N, K'], and those that the next action is chosen by [T · B · N, K''],
            of the steps from 1 on.
    """
    fitting = fits(batch, rows, mask_end, networks, 1)
    if not fitting or len(priority) != batch.action.shape[1]:
        return False
    flat, chooser, target_flat, shapes, cut = networks
    n_steps, n_windows, n_agents = batch.action.shape
    own, of_target, of_choice = levels
    n_rows = n_windows * n_agents
    if len(own) != mask_end * n_rows or not len(of_target) == len(of_choice) == n_steps * n_rows:
        return False
    end = ends(batch.last)
    place, n_next = bootstraps(end, mask_end, options.n_step, batch.terminated, batch.mask)
    x = np.zeros((len(own), rows.shape[3]), F)
    x_next = np.empty((n_next * n_agents, rows.shape[3]), F)
    tau_next = np.empty((len(x_next), of_target.shape[1]), F)
    tau_choice = np.empty((len(x_next), of_choice.shape[1]), F)
    for b in range(n_windows):
        for t in range(end[b] + 1):
            for n in range(n_agents):
                row = (t * n_windows + b) * n_agents + n
                if t < mask_end:
                    copy_row(rows[t, b, n], x[row])
                if place[t, b] >= 0:
                    to = place[t, b] * n_agents + n
                    copy_row(rows[t, b, n], x_next[to])
                    copy_row(of_target[row - n_rows], tau_next[to])
                    copy_row(of_choice[row - n_rows], tau_choice[to])
    values, q = evaluate(x, own, flat, shapes, cut)
    ahead = outputs(x_next, tau_next, target_flat, shapes, cut)
    weights = chooser if options.double else target_flat
    choosing = outputs(x_next, tau_choice, weights, shapes, cut)
    best = choose_next(
        means(choosing, QUANTILE, np.empty(of_choice.shape[1], F)), place, end, batch.avail_actions
    )
    of_q = np.zeros(q.shape, F)
    found, places = (q, ahead, best), (place, end, mask_end)
    in_range = distances(batch, found, places, options, own, eta, of_q, priority, sums)
    differentiate(values, of_q, len(x), flat, shapes, cut, gradient)
    return in_range
