"""Activation functions in arithmetic that the compiler can do on whole registers, float32."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from rltrain.common import numba_cache

F, INT = np.float32, np.int32
ZERO, ONE, TWO = F(0), F(1), F(2)

njit = numba_cache.arithmetic(__file__, inline="always")


LOG2_E = F(1.44269504088896341)
LN2_HIGH, LN2_LOW = F(0.693359375), F(-2.12194440e-4)  # add up to ln 2; n · high is exact
E5, E4, E3, E2, E1, E0 = (  # (e^f − 1 − f) / f² for |f| ≤ ln 2 / 2, Cephes' expf
    F(x)
    for x in (1.9875691500e-4, 1.3981999507e-3, 8.3334519e-3, 4.1665795894e-2, 0.16666665459, 0.5)
)
TO_INTEGER = F(1.5 * 2**23)  # added, leaves the nearest integer in the lowest bits
EXPONENT, BIAS = INT(23), INT(127 << 23)
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
    return INT(INT(F(shifted).view(INT) << EXPONENT) + BIAS).view(F), p


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
