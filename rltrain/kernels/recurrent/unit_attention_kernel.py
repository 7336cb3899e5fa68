"""Attention to the units in observations, in machine code: float32 on the CPU.

A unit that is not there, a row of zeros, is skipped. What units were embedded to is computed again
for the gradient, which is faster than to keep it. Rows of observations are divided into groups,
whose gradients by weights are added in their order: no number depends on the number of threads.
R rows, O numbers in each, units of two kinds of k numbers, embedded to D, and Q queries.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from rltrain.common import numba_cache
from rltrain.kernels.arithmetic import activation_kernel, tile_kernel
from rltrain.kernels.arithmetic.activation_kernel import ONE, ZERO, exponential
from rltrain.kernels.arithmetic.tile_kernel import COLUMNS, WIDTH, F, add_outer, multiply

BLOCK, GROUP = 16, 256
"""Rows whose units are embedded together, and rows whose gradients are added together."""

njit = numba_cache.arithmetic(__file__, activation_kernel, tile_kernel)


@njit()
def gather(obs, low, high, place, skip, x, ends, n):
    """Append the numbers of the units of a kind in rows ``low`` to ``high``, and a 1, to the first
    ``n`` rows of ``x`` [·, ≥ k + 1], and their number after each row to ``ends``, which begins with
    ``n``; units that are zeros are left out if ``skip``. How many there are now.
    """
    at, count, size = place
    ends[0] = n
    for r in range(low, high):
        for first in range(at, at + count * size, size):
            there = not skip
            for i in range(size):
                value = obs[r, first + i]
                there = there or value != ZERO  # NaN is
                x[n, i] = value
            if there:
                x[n, size] = ONE
                n += 1
        ends[r - low + 1] = n
    return n


@njit()
def copy(lines, first, last, to, n):
    """Copy lines to those of ``to`` from ``n`` on; how many there are now."""
    for i in range(first, last):
        for d in range(lines.shape[1]):
            to[n, d] = lines[i, d]
        n += 1
    return n


@njit()
def embed(x, first, last, weight, unit, zeros):
    """Rows ``first`` to ``last`` of ``unit``: relu(x W), W [k + 1, padded D]."""
    width = unit.shape[1]
    if last > first:
        out = unit.reshape(-1)
        numbers = x.reshape(-1), first * x.shape[1], x.shape[1], 1
        terms, to = (weight.reshape(-1), 0, COLUMNS, width), (out, first * width, width)
        multiply(to, (zeros, 0, 0), numbers, terms, last - first, width, len(weight))
        for i in range(first * width, last * width):
            out[i] = ZERO if out[i] < ZERO else out[i]


@njit()
def compare(unit, n, query, columns, out, zeros):
    """``out`` [n, WIDTH]: products of the first ``n`` units with queries [Q, D], which are turned
    into the first of the ``columns`` [D, WIDTH].
    """
    for h in range(len(query)):
        for d in range(query.shape[1]):
            columns[d, h] = query[h, d]
    to, units = (out.reshape(-1), 0, WIDTH), (unit.reshape(-1), 0, unit.shape[1], 1)
    terms = columns.reshape(-1), 0, COLUMNS, WIDTH
    multiply(to, (zeros, 0, 0), units, terms, n, WIDTH, len(columns))


@njit()
def add_up(weight, n, unit, lines, out, zeros):
    """``out`` [Q, D]: Σ_j weight[j, h] unit_j over the first ``n`` units; ``lines`` [Q, padded D]
    are overwritten.
    """
    width, flat = unit.shape[1], lines.reshape(-1)
    weights, units = (weight.reshape(-1), 0, 1, WIDTH), (unit.reshape(-1), 0, COLUMNS, width)
    multiply((flat, 0, width), (zeros, 0, 0), weights, units, len(out), width, n)
    for h in range(len(out)):
        for d in range(out.shape[1]):
            out[h, d] = lines[h, d]


@njit()
def distribute(weight, n, query, lines, start, out):
    """``out`` [n, padded D]: ``start`` + Σ_h weight[j, h] query_h; ``lines`` [Q, padded D] are
    overwritten.
    """
    width = out.shape[1]
    for h in range(len(query)):
        for d in range(query.shape[1]):
            lines[h, d] = query[h, d]
    to, weights = (out.reshape(-1), 0, width), (weight.reshape(-1), 0, WIDTH, 1)
    terms = lines.reshape(-1), 0, COLUMNS, width
    multiply(to, start, weights, terms, n, width, len(query))


@njit()
def soften(weight, n, highest, total):
    """Logits of the first ``n`` units [·, WIDTH] to softmax weights of each query, one more logit
    being 0.
    """
    for h in range(WIDTH):
        highest[h] = ZERO
    for j in range(n):
        for h in range(WIDTH):
            highest[h] = weight[j, h] if weight[j, h] > highest[h] else highest[h]
    for h in range(WIDTH):
        total[h] = exponential(-highest[h])
    for j in range(n):
        for h in range(WIDTH):
            weight[j, h] = exponential(weight[j, h] - highest[h])
        for h in range(WIDTH):
            total[h] += weight[j, h]
    for h in range(WIDTH):
        total[h] = ONE / total[h]
    for j in range(n):
        for h in range(WIDTH):
            weight[j, h] *= total[h]


@njit()
def soften_gradient(weight, slope, n, mean):
    """Gradients ``slope`` [·, WIDTH] by softmax weights to those by logits."""
    for h in range(WIDTH):
        mean[h] = ZERO
    for j in range(n):
        for h in range(WIDTH):
            mean[h] += weight[j, h] * slope[j, h]
    for j in range(n):
        for h in range(WIDTH):
            slope[j, h] = weight[j, h] * (slope[j, h] - mean[h])


@njit()
def add_embed_gradient(x, first, last, unit, of_unit, out):
    """Add to ``out`` the gradient by W, given that by embedded units, which is overwritten."""
    width = unit.shape[1]
    if last > first:
        of, embedded = of_unit.reshape(-1), unit.reshape(-1)
        for i in range(first * width, last * width):
            of[i] = ZERO if embedded[i] <= ZERO else of[i]
        numbers = x.reshape(-1), first * x.shape[1], x.shape[1]
        to, terms = (out.reshape(-1), 0, width), (of, first * width, width)
        add_outer(to, numbers, terms, len(out), width, last - first)


@njit()
def over_units(
    share, n_shares, obs, places, attends, w_0, w_1, query, given, of_w_0, of_w_1, results
):
    """Every ``n_shares``-th group of rows from group ``share`` on. Every query gets its products
    with all units, or if it ``attends`` the sum of units weighted by their softmax.

    Args:
        obs: [R, O].
        places: [2, 3], of both kinds of units, first number, count and size.
        w_0, w_1: of both kinds, W and below it b, [k + 1, padded D].
        query: [R, Q, D].
        given: the gradients by the results, if gradients are computed.
        of_w_0, of_w_1: [groups, k + 1, padded D], zeros, become the gradients by ``w_0`` and
            ``w_1`` of every group of rows; empty if none are computed.
        results: [R, Q, D or m], or the gradients by ``query``.
    """
    n_queries, size, width = query.shape[1], query.shape[2], w_0.shape[1]
    most, backward = places[0, 1] + places[1, 1], len(of_w_0) > 0
    zero = np.int64(0)  # of the type that other indices have
    x = np.empty((BLOCK * most + 1, places[:, 2].max() + 1), F)
    end_0, end_1 = np.empty(BLOCK + 1, np.int64), np.empty(BLOCK + 1, np.int64)
    unit, of_unit = np.empty((BLOCK * most, width), F), np.empty((BLOCK * most, width), F)
    near, of_near = np.empty((most, width), F), np.empty((most, width), F)
    weight, slope = np.zeros((most, WIDTH), F), np.zeros((most, WIDTH), F)
    columns, lines = np.zeros((size, WIDTH), F), np.zeros((n_queries, width), F)
    zeros, some, more = np.zeros(max(width, WIDTH), F), np.empty(WIDTH, F), np.empty(WIDTH, F)
    for low in range(share * GROUP, len(obs), n_shares * GROUP):
        for first in range(low, min(low + GROUP, len(obs)), BLOCK):
            last = min(first + BLOCK, len(obs))
            n_0 = gather(obs, first, last, places[0], attends, x, end_0, zero)
            n_all = gather(obs, first, last, places[1], attends, x, end_1, n_0)
            embed(x, zero, n_0, w_0, unit, zeros)
            embed(x, n_0, n_all, w_1, unit, zeros)
            for r in range(first, last):
                i = r - first
                n = copy(unit, end_0[i], end_0[i + 1], near, zero)
                n = copy(unit, end_1[i], end_1[i + 1], near, n)
                if n == 0:
                    results[r] = ZERO
                    continue
                compare(near, n, query[r], columns, weight, zeros)
                if attends:
                    soften(weight, n, some, more)
                if not backward:
                    if attends:
                        add_up(weight, n, near, lines, results[r], zeros)
                    else:
                        for h in range(n_queries):
                            for j in range(n):
                                results[r, h, j] = weight[j, h]
                    continue
                if attends:
                    compare(near, n, given[r], columns, slope, zeros)
                    soften_gradient(weight, slope, n, some)
                    start = of_near.reshape(-1), zero, width
                    distribute(weight, n, given[r], lines, (zeros, zero, zero), of_near)
                    distribute(slope, n, query[r], lines, start, of_near)
                else:
                    for h in range(n_queries):
                        for j in range(n):
                            slope[j, h] = given[r, h, j]
                    distribute(slope, n, query[r], lines, (zeros, zero, zero), of_near)
                add_up(slope, n, near, lines, results[r], zeros)
                n_first = end_0[i + 1] - end_0[i]
                copy(of_near, zero, n_first, of_unit, end_0[i])
                copy(of_near, n_first, n, of_unit, end_1[i])
            if backward:
                group = low // GROUP
                add_embed_gradient(x, zero, n_0, unit, of_unit, of_w_0[group])
                add_embed_gradient(x, n_0, n_all, unit, of_unit, of_w_1[group])


@njit(parallel=True)
def over_units_parallel(n_shares, arguments):
    """All groups, on several threads."""
    for share in numba_cache.prange(n_shares):
        over_units(np.int64(share), n_shares, *arguments)
