"""Machine speed: the rate of matrix products, and a fixed amount of work."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

SIZES = ((5856, 64, 192), (5760, 1170, 192), (1024, 1024, 1024))
"""Rows, inner dimension, columns: layers of a QMIX update on 3m, of 27m_vs_30m, large squares."""


def fixed_work() -> Callable[[], float]:
    """Single-threaded matrix products and a Python loop, about 30 ms together."""
    matrix = np.random.default_rng(0).standard_normal((256, 256), np.float32)

    def do() -> float:
        product = matrix
        for _ in range(20):
            product = matrix @ product
            product /= np.abs(product).max()
        total = 0
        for i in range(300_000):
            total += i & 3
        return 1.0

    return do


def matrix_products(rows: int, inner: int, columns: int) -> Callable[[], float]:
    """Matrix products of PyTorch; its work is floating-point operations."""
    import torch

    left, right = torch.randn(rows, inner), torch.randn(columns, inner).t()

    def do() -> float:
        begun = time.perf_counter()
        operations = 0.0
        while time.perf_counter() - begun < 0.02:
            torch.mm(left, right)
            operations += 2.0 * rows * inner * columns
        return operations

    return do
