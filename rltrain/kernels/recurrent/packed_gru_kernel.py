"""The time dimension of a GRU in machine code, forward and backward, float32 on the CPU.

Sequences are independent, so a thread computes all time steps of a block of rows without waiting,
and the block's states and gate sums stay in the nearest cache. A row's numbers depend neither on
its block nor on the number of threads. Matrix products over all steps are computed in ``gru``. The
P rows are those of step 0, then of step 1, …: step t has ``n_rows[t]`` of them from ``starts[t]``
on. R sequences, H units.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from rltrain.common import numba_cache
from rltrain.kernels.arithmetic import activation_kernel, tile_kernel
from rltrain.kernels.arithmetic.activation_kernel import ONE, TWO, sigmoid
from rltrain.kernels.arithmetic.tile_kernel import COLUMNS, F, multiply, padded

BLOCK = 16
"""Rows of a block. Larger blocks read the weights less often, smaller ones
balance the threads better."""

njit = numba_cache.arithmetic(__file__, activation_kernel, tile_kernel)


@njit()
def forward_rows(low, gates, h_n, hidden, first, bias_n, weight, starts, n_rows):
    """All time steps of the block of rows that begins at ``low``.

    Loops are short and write to one array or two: only then does the compiler prove that they may
    run eight elements at a time.

    Args:
        gates: [P, 3H], the gates' sums without the recurrent part; becomes r, z, n.
        h_n: [P, H], becomes n's recurrent part; with no rows neither this nor r and z is written.
        hidden: [P, H], becomes the result.
        first: [R, H], the states before step 0.
        bias_n: [H], the recurrent bias of n.
        weight: packed [H, 3H], the recurrent weights transposed.
        starts, n_rows: [T], of every step.
    """
    size = first.shape[1]
    both, keep = 2 * size, len(h_n) > 0
    total, zeros = np.empty((BLOCK, padded(3 * size)), F), np.zeros(padded(3 * size), F)
    h = np.zeros((BLOCK, size), F)
    sums, of_h = (total.reshape(-1), 0, total.shape[1]), (h.reshape(-1), 0, size, 1)
    weights = weight, 0, COLUMNS * size, COLUMNS
    for i in range(min(BLOCK, n_rows[0] - low)):
        for j in range(size):
            h[i, j] = first[low + i, j]
    for t in range(len(n_rows)):
        n_alive = min(BLOCK, n_rows[t] - low)
        if n_alive <= 0:
            break
        start = starts[t] + low
        multiply(sums, (zeros, 0, 0), of_h, weights, n_alive, total.shape[1], size)
        for i in range(n_alive):
            p = start + i
            for j in range(both):
                total[i, j] = sigmoid(total[i, j] + gates[p, j])
            for j in range(size):
                total[i, both + j] += bias_n[j]
            for j in range(size):
                n = gates[p, both + j] + total[i, j] * total[i, both + j]
                gates[p, both + j] = TWO * sigmoid(TWO * n) - ONE
            for j in range(size):
                n = gates[p, both + j]
                hidden[p, j] = n + total[i, size + j] * (h[i, j] - n)
            for j in range(size):
                h[i, j] = hidden[p, j]
            if keep:
                for j in range(both):
                    gates[p, j] = total[i, j]
                for j in range(size):
                    h_n[p, j] = total[i, both + j]


@njit()
def backward_rows(
    low, sums, h_n_sum, before, grad_first, grad, gates, h_n, hidden, first, weight, starts, n_rows
):
    """All time steps of the block of rows that begins at ``low``, last step first.

    Args:
        sums: [P, 3H], becomes the gradient of the gates' sums.
        h_n_sum: [P, H], becomes that of n's recurrent part.
        before: [P, H], becomes the state that each row started from.
        grad_first: [R, H], becomes the gradient of the first states.
        grad: [P, H], that of the result.
        gates, h_n, hidden, first: as ``forward_rows`` left them.
        weight: packed [3H, H], the recurrent weights.
        starts, n_rows: [T], of every step.
    """
    size = first.shape[1]
    both = 2 * size
    of_gates = np.zeros((BLOCK, 3 * size), F)
    of_h = np.zeros((BLOCK, size), F)
    total, zeros = np.empty((BLOCK, padded(size)), F), np.zeros(padded(size), F)
    to, factors = (total.reshape(-1), 0, total.shape[1]), (of_gates.reshape(-1), 0, 3 * size, 1)
    weights = weight, 0, 3 * COLUMNS * size, COLUMNS
    for t in range(len(n_rows) - 1, -1, -1):
        n_alive = min(BLOCK, n_rows[t] - low)
        if n_alive <= 0:
            continue
        start = starts[t] + low
        earlier, offset = (hidden, starts[t - 1] + low - start) if t else (first, low - start)
        for i in range(n_alive):
            p = start + i
            for j in range(size):
                before[p, j] = earlier[p + offset, j]
            for j in range(size):
                of_h[i, j] += grad[p, j]
            for j in range(size):
                n = gates[p, both + j]
                sums[p, both + j] = of_h[i, j] * (ONE - gates[p, size + j]) * (ONE - n * n)
            for j in range(size):
                h_n_sum[p, j] = sums[p, both + j] * gates[p, j]
            for j in range(size):
                of_gates[i, both + j] = h_n_sum[p, j]
            for j in range(size):
                of_gates[i, j] = h_n_sum[p, j] * h_n[p, j] * (ONE - gates[p, j])
            for j in range(size):
                z = gates[p, size + j]
                difference = before[p, j] - gates[p, both + j]
                of_gates[i, size + j] = of_h[i, j] * difference * z * (ONE - z)
            for j in range(both):
                sums[p, j] = of_gates[i, j]
        multiply(to, (zeros, 0, 0), factors, weights, n_alive, total.shape[1], 3 * size)
        for i in range(n_alive):
            for j in range(size):
                of_h[i, j] = of_h[i, j] * gates[start + i, size + j] + total[i, j]
    for i in range(min(BLOCK, n_rows[0] - low)):
        for j in range(size):
            grad_first[low + i, j] = of_h[i, j]


@njit()
def forward(share, n_shares, arrays):
    """Every ``n_shares``-th block of rows from block ``share`` on; ``arrays``: the arguments of
    ``forward_rows``.
    """
    for low in range(share * BLOCK, arrays[-1][0], n_shares * BLOCK):
        forward_rows(low, *arrays)


@njit(parallel=True)
def forward_parallel(n_shares, arrays):
    """All blocks, on several threads."""
    for share in numba_cache.prange(n_shares):
        forward(np.int64(share), n_shares, arrays)


@njit()
def backward(share, n_shares, arrays):
    """Every ``n_shares``-th block of rows from block ``share`` on; ``arrays``: the arguments of
    ``backward_rows``.
    """
    for low in range(share * BLOCK, arrays[-1][0], n_shares * BLOCK):
        backward_rows(low, *arrays)


@njit(parallel=True)
def backward_parallel(n_shares, arrays):
    """All blocks, on several threads."""
    for share in numba_cache.prange(n_shares):
        backward(np.int64(share), n_shares, arrays)
