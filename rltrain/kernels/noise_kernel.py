"""Weights of noisy layers with their noise, and gradients back, in machine code.

Parameters are a flat array, layer after layer: W [n_out, n_in] and b [n_out], of a noisy layer
followed by the sigmas of both, and factors and offsets of its normalization. ``shapes`` are as in
``feed_forward_kernel``, ``noisy`` marks the layers, ``noise`` has n_in and n_out normal numbers for
each noisy layer.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from rltrain.common import numba_cache
from rltrain.kernels.arithmetic.matmul_kernel import F

njit = numba_cache.njit(__file__, fastmath={"contract", "nsz"})


@njit
def with_noise(parameters, shapes, noisy, noise, weights):
    """Fill ``weights``, those that a network without noise would have: W + sigma · f(out) f(in)
    (Fortunato et al. 2018, equations 10 and 11).
    """
    at, to, drawn = 0, 0, 0
    for layer in range(len(shapes)):
        n_in, n_out = shapes[layer, 0], shapes[layer, 1]
        n = (n_in + 1) * n_out
        mean, out = parameters[at : at + n], weights[to : to + n]
        out[:] = mean
        at, to = at + n, to + n
        if noisy[layer]:
            sigma, of_in, of_out = parameters[at : at + n], noise[drawn:], noise[drawn + n_in :]
            for o in range(n_out):
                factor = signed_root(of_out[o])
                for i in range(n_in):
                    out[o * n_in + i] += sigma[o * n_in + i] * (factor * signed_root(of_in[i]))
                out[n_in * n_out + o] += sigma[n_in * n_out + o] * factor
            at, drawn = at + n, drawn + n_in + n_out
        n = 2 * n_out * shapes[layer, 7]
        weights[to : to + n] = parameters[at : at + n]
        at, to = at + n, to + n


@njit
def of_parameters(of_weights, shapes, noisy, noise, gradient):
    """Fill ``gradient``, by the parameters, from that by the weights of ``with_noise``."""
    at, to, drawn = 0, 0, 0
    for layer in range(len(shapes)):
        n_in, n_out = shapes[layer, 0], shapes[layer, 1]
        n = (n_in + 1) * n_out
        known = of_weights[at : at + n]
        gradient[to : to + n] = known
        at, to = at + n, to + n
        if noisy[layer]:
            of_sigma, of_in, of_out = gradient[to : to + n], noise[drawn:], noise[drawn + n_in :]
            for o in range(n_out):
                factor = signed_root(of_out[o])
                for i in range(n_in):
                    of_sigma[o * n_in + i] = known[o * n_in + i] * (factor * signed_root(of_in[i]))
                of_sigma[n_in * n_out + o] = known[n_in * n_out + o] * factor
            to, drawn = to + n, drawn + n_in + n_out
        n = 2 * n_out * shapes[layer, 7]
        gradient[to : to + n] = of_weights[at : at + n]
        at, to = at + n, to + n


@njit
def signed_root(x):
    """sign(x) √|x|."""
    return F(np.copysign(np.sqrt(abs(x)), x))
