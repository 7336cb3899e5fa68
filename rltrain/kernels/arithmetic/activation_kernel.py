"""Activation functions in arithmetic that the compiler can do on whole registers, float32."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from functools import partial

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from rltrain.common import numba_cache

F, FLOAT = np.float32, ir.FloatType()
ZERO, ONE, TWO = F(0), F(1), F(2)

# Not "reassoc", which would undo the rounding tricks, nor "nnan": NaN has to propagate.
njit = partial(numba_cache.njit, __file__, fastmath={"contract", "nsz"}, inline="always")


@intrinsic
def _bits(typing, x):
    """The int32 with the bits of a float32."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.IntType(32))

    return types.int32(types.float32), generate


@intrinsic
def _float(typing, bits):
    """The float32 with the bits of an int32."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], FLOAT)

    return types.float32(types.int32), generate


LOG2_E = F(1.44269504088896341)
LN2_HIGH, LN2_LOW = F(0.693359375), F(-2.12194440e-4)  # add up to ln 2; n · high is exact
E5, E4, E3, E2, E1, E0 = (  # (e^f − 1 − f) / f² for |f| ≤ ln 2 / 2, Cephes' expf
    F(x)
    for x in (1.9875691500e-4, 1.3981999507e-3, 8.3334519e-3, 4.1665795894e-2, 0.16666665459, 0.5)
)
TO_INTEGER = F(1.5 * 2**23)  # added, leaves the nearest integer in the lowest bits
EXPONENT, BIAS = np.int32(23), np.int32(127 << 23)
LARGEST = F(87)  # e^87 and e^−87 are still normal numbers


@njit()
def _exponential(x):
    """2^n and p with e^x = 2^n (1 + p), for x within ± ``LARGEST``, which it is limited to."""
    x = LARGEST if x > LARGEST else x  # written so that NaN propagates
    x = -LARGEST if x < -LARGEST else x
    shifted = TO_INTEGER + x * LOG2_E
    n = shifted - TO_INTEGER
    f = x - n * LN2_HIGH
    f = f - n * LN2_LOW
    p = ((((E5 * f + E4) * f + E3) * f + E2) * f + E1) * f + E0
    p = p * f * f + f
    return _float(np.int32(np.int32(_bits(shifted) << EXPONENT) + BIAS)), p


@njit()
def sigmoid(x):
    """1 / (1 + e^−x) to 2e-7."""
    power, p = _exponential(-x)
    return ONE / (ONE + (ONE + p) * power)


@njit()
def exponential(x):
    """e^x to 2e-7, for x within ± ``LARGEST``, which it is limited to."""
    power, p = _exponential(x)
    return power + power * p


@njit()
def elu(x):
    """x above 0, else e^x − 1, to 2e-7."""
    power, p = _exponential(ZERO if x > ZERO else x)
    below = power * p + (power - ONE)
    return x if x > ZERO else below
