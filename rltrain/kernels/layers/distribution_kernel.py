"""Errors of distributions of returns, one transition at a time, in machine code.

``CategoricalLoss`` and ``QuantileLoss`` compute the same in tensor operations. K outputs of an
action: values, logits of atoms, or quantiles.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from rltrain.common import numba_cache
from rltrain.kernels.arithmetic import activation_kernel, tile_kernel
from rltrain.kernels.arithmetic.activation_kernel import exponential
from rltrain.kernels.arithmetic.tile_kernel import F

CATEGORICAL, QUANTILE = 1, 2
HALF, ONE = F(0.5), F(1)
njit = numba_cache.arithmetic(__file__, activation_kernel, tile_kernel)


@njit()
def means(outputs, tau, kind, points):
    """Expected returns [A, R] of ``outputs`` [A · K, R] at levels ``tau`` [R, K] or ``points``."""
    if points is None:
        return outputs
    n_points, width = len(points) if tau is None else tau.shape[1], outputs.shape[1]
    mean = np.zeros((len(outputs) // n_points, width), F)
    highest, total = np.empty(width, F), np.empty(width, F)
    for a in range(len(mean)):
        own, to = outputs[a * n_points : (a + 1) * n_points], mean[a]
        if kind == QUANTILE:
            for k in range(n_points):
                to += own[k]
            to /= F(n_points)
            continue
        highest[:] = F(-np.inf)
        for k in range(n_points):
            line = own[k]
            for r in range(width):
                highest[r] = highest[r] if line[r] <= highest[r] else line[r]
        total[:] = F(0)
        for k in range(n_points):
            line = own[k]
            for r in range(width):
                share = exponential(line[r] - highest[r])
                total[r] += share
                to[r] += share * points[k]
        to /= total
    return mean


@njit()
def softmax(logits, prob):
    """Fill ``prob`` [K]; returns what is subtracted from ``logits`` [K] for its logarithm."""
    highest, total = logits[0], F(0)
    for k in range(1, len(logits)):
        highest = highest if logits[k] <= highest else logits[k]
    for k in range(len(logits)):
        prob[k] = exponential(logits[k] - highest)
    for k in range(len(logits)):
        total += prob[k]
    for k in range(len(logits)):
        prob[k] /= total
    return highest + np.log(total)


@njit()
def categorical_error(logits, ahead, reward, discount, support, slope, work):
    """Cross entropy of ``logits`` [K] to the projection of reward + discount · Z, whose atoms have
    the logits ``ahead`` [K] (Bellemare et al. 2017, algorithm 1).

    Args:
        slope: [K], becomes the gradient.
        work: [3, K], overwritten.

    Returns:
        loss, priority, |error| of the means, the mean, that of the target, and the probability that
        was moved to an edge of the support.
    """
    n_atoms = len(support)
    prob, moved, target = work[0], work[1], work[2]
    softmax(ahead, prob)
    lowest, highest = support[0], support[n_atoms - 1]
    spacing = (highest - lowest) / F(n_atoms - 1)
    outside, clipped = F(1e-3) * spacing, F(0)
    target[:] = F(0)
    for j in range(n_atoms):
        moved[j] = reward + discount * support[j]
    for j in range(n_atoms):
        at = moved[j]
        if at < lowest - outside or at > highest + outside:
            clipped += prob[j]
        at = (min(max(at, lowest), highest) - lowest) / spacing
        below = min(int(at), n_atoms - 2) if at >= 0 else 0  # NaN too
        target[below] += prob[j] * (ONE - (at - F(below)))
        target[below + 1] += prob[j] * (at - F(below))
    subtracted = softmax(logits, prob)
    loss, mass, q, target_q = F(0), F(0), F(0), F(0)
    for k in range(n_atoms):
        loss -= target[k] * (logits[k] - subtracted)
        mass += target[k]
        q += prob[k] * support[k]
        target_q += target[k] * support[k]
    for k in range(n_atoms):
        slope[k] = prob[k] * mass - target[k]
    return loss, loss, abs(q - target_q), q, target_q, clipped


@njit()
def quantile_error(quantiles, ahead, reward, discount, tau, kappa, slope, work):
    """Quantile Huber loss of ``quantiles`` [K] to reward + discount · ``ahead`` [K'] (Dabney et al.
    2018a, equation 10), summed over quantiles and averaged over targets; as ``categorical_error``.
    """
    n, n_ahead = len(tau), len(ahead)
    losses, sizes = work[0], work[1]
    losses[:], sizes[:], slope[:] = F(0), F(0), F(0)
    q, target_q = F(0), F(0)
    per_kappa = ONE / kappa if kappa > 0 else ONE
    for k in range(n):
        q += quantiles[k]
    for j in range(n_ahead):
        target = reward + discount * ahead[j]
        target_q += target
        for k in range(n):
            error = target - quantiles[k]
            size = abs(error)
            side = abs(tau[k] - (ONE if error < 0 else F(0))) * per_kappa
            inside = size <= kappa
            losses[k] += side * (
                HALF * error * error
                if inside
                else (kappa * (size - HALF * kappa) if kappa > 0 else size)
            )
            bound = kappa if kappa > 0 else ONE
            beyond = bound if error > 0 else (-bound if error < 0 else error)
            slope[k] -= side * (error if inside else beyond)
            sizes[k] += size
    loss, size = F(0), F(0)
    for k in range(n):
        loss += losses[k]
        size += sizes[k]
        slope[k] /= F(n_ahead)
    q, target_q = q / F(n), target_q / F(n_ahead)
    return loss / F(n_ahead), size / F(n * n_ahead), abs(q - target_q), q, target_q, F(0)
