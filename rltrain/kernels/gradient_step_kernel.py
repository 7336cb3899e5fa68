"""Clipping and Adam on flat arrays in machine code."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rltrain.common import numba_cache

F, ONE = np.float32, np.float32(1)
njit = numba_cache.arithmetic(__file__)
SUMS = 16  # one after the other they would wait for each other


class Adam(NamedTuple):
    """Numbers of one step (Kingma & Ba 2015, algorithm 1)."""

    rate: np.float32  # lr / (1 - beta1^t)
    root: np.float32  # sqrt(1 - beta2^t)
    beta1_rest: np.float32  # 1 - beta1
    beta2: np.float32
    beta2_rest: np.float32  # 1 - beta2
    eps: np.float32


@njit()
def step(source, count, loss, max_norm, gradient, state, adam):
    """Divide ``source`` by ``count`` into ``gradient`` and make a step with it, unless loss or norm
    is not finite; bit for bit PyTorch's fused Adam.

    Args:
        max_norm: bound of the norm, below 0 none.
        gradient: as long as ``source``, or ``source`` itself.
        state: weights, first and second moment, and the number of steps [1].
        adam: ``Adam`` of the coming step.

    Returns:
        the norm before clipping, and whether the step was made.
    """
    sums, whole = np.zeros(SUMS), len(source) // SUMS * SUMS
    for i in range(len(source)):
        gradient[i] = source[i] / count
    for i in range(0, whole, SUMS):
        for k in range(SUMS):
            x = np.float64(gradient[i + k])
            sums[k] += x * x
    for i in range(whole, len(source)):
        x = np.float64(gradient[i])
        sums[0] += x * x
    norm = F(np.sqrt(sums.sum()))
    if max_norm >= 0:
        factor = max_norm / (norm + F(1e-6))
        factor = ONE if factor > ONE else factor  # NaN stays
        for i in range(len(gradient)):
            gradient[i] *= factor
    if not np.isfinite(loss + norm):
        return norm, False
    weights, mean, square, n_steps = state
    for i in range(len(gradient)):
        x = gradient[i]
        mean[i] = mean[i] + adam.beta1_rest * (x - mean[i])
        square[i] = adam.beta2 * square[i] + adam.beta2_rest * x * x
        root = np.sqrt(square[i]) / adam.root + adam.eps
        weights[i] = weights[i] + (-adam.rate) * mean[i] / root
    n_steps[0] += ONE
    return norm, True
