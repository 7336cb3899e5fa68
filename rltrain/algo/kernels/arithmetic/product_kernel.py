"""Matrix products of recurrent teams in the precision that their weights were prepared for."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from numba import types
from numba.extending import overload

from rltrain.algo.kernels.arithmetic import bf16_kernel, tile_kernel
from rltrain.algo.kernels.arithmetic.tile_kernel import COLUMNS

SOURCES = (__file__, bf16_kernel.__file__, tile_kernel.__file__)


def multiply(out, start, a, b, n_rows, n_columns, n):
    """``tile_kernel.multiply``; ``b`` are packed weights, float32 or pairs of bfloat16."""
    raise NotImplementedError("compiled code only")


@overload(multiply)
def _multiply(out, start, a, b, n_rows, n_columns, n):
    function = bf16_kernel.multiply if is_pairs(b[0]) else tile_kernel.multiply
    return lambda out, start, a, b, n_rows, n_columns, n: function(
        out, start, a, b, n_rows, n_columns, n
    )


def add_outer(out, a, b, n_rows, n_columns, n, weights):
    """``bf16_kernel.add_outer``, in the precision of any packed ``weights``."""
    raise NotImplementedError("compiled code only")


@overload(add_outer)
def _add_outer(out, a, b, n_rows, n_columns, n, weights):
    if is_pairs(weights):
        function = bf16_kernel.add_outer
        return lambda out, a, b, n_rows, n_columns, n, weights: function(
            out, a, b, n_rows, n_columns, n
        )

    def whole(out, a, b, n_rows, n_columns, n, weights):
        left, right = (a[0], a[1], 1, a[2]), (b[0], b[1], COLUMNS, b[2])
        tile_kernel.multiply(out, out, left, right, n_rows, n_columns, n)

    return whole


def is_pairs(array):
    """Whether the type of packed weights is that of pairs."""
    return array.dtype == types.int32
