"""Matrix products of factors rounded to bfloat16, summed in float32, on CPUs with AVX512-BF16.

Two terms that follow each other are a pair, one int32. Every element is the same chain of additions
wherever it is computed, as in ``tile_kernel``.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.extending import intrinsic

from rltrain.algo.kernels.arithmetic import tile_kernel
from rltrain.algo.kernels.arithmetic.tile_kernel import (
    COLUMNS,
    FLOAT,
    WIDE,
    WIDTH,
    BFloat,
    padded,
)
from rltrain.common import numba_cache

PAIR, INT32 = np.int32, ir.IntType(32)
SUPPORTED = WIDE and bool(binding.get_host_cpu_features().get("avx512bf16"))
njit = numba_cache.njit(__file__, tile_kernel.__file__)


def _rounded(builder, array, place, count):
    """WIDTH elements of a float32 array from ``place`` on in bfloat16; zeros after ``count`` of
    them if it is not None.
    """
    vector, halves = ir.VectorType(FLOAT, WIDTH), ir.VectorType(BFloat(), WIDTH)
    pointer = builder.bitcast(builder.gep(array.data, [place]), vector.as_pointer())
    if count is None:
        return builder.fptrunc(builder.load(pointer, align=4), halves)
    flags, numbers = ir.VectorType(ir.IntType(1), WIDTH), ir.VectorType(INT32, WIDTH)
    nowhere = ir.Constant(numbers, ir.Undefined)
    one = builder.insert_element(nowhere, builder.trunc(count, INT32), INT32(0))
    same = builder.shuffle_vector(one, nowhere, ir.Constant(numbers, [0] * WIDTH))
    inside = builder.icmp_signed("<", ir.Constant(numbers, list(range(WIDTH))), same)
    kind = ir.FunctionType(vector, [vector.as_pointer(), INT32, flags, vector])
    load = builder.module.declare_intrinsic(f"llvm.masked.load.v{WIDTH}f32.p0", (), kind)
    nothing = ir.Constant(vector, [0.0] * WIDTH)
    return builder.fptrunc(builder.call(load, (pointer, INT32(4), inside, nothing)), halves)


def _rounding(masked):
    """``f(source, place, count, out, to)``: WIDTH elements of ``source`` as the pairs
    ``out[to : to + WIDTH // 2]``; if ``masked`` only ``count`` of them and zeros.
    """

    @intrinsic
    def convert(typing, source, place, count, out, to):
        def generate(context, builder, signature, arguments):
            array, after = (
                context.make_array(signature.args[i])(context, builder, value=arguments[i])
                for i in (0, 3)
            )
            halves = _rounded(builder, array, arguments[1], arguments[2] if masked else None)
            pointer = builder.gep(after.data, [arguments[4]])
            builder.store(halves, builder.bitcast(pointer, halves.type.as_pointer()), align=4)
            return context.get_dummy_value()

        return types.void(source, place, count, out, to), generate

    return convert


def _joining(masked):
    """``f(source, first, second, counts, out, to)``: WIDTH elements of ``source`` from ``first``
    and as many from ``second`` on as the pairs ``out[to : to + WIDTH]``; if ``masked`` only as many
    as ``counts`` says, and zeros.
    """

    @intrinsic
    def convert(typing, source, first, second, counts, out, to):
        def generate(context, builder, signature, arguments):
            array, after = (
                context.make_array(signature.args[i])(context, builder, value=arguments[i])
                for i in (0, 4)
            )
            shorts, integers = (ir.VectorType(ir.IntType(n), WIDTH) for n in (16, 32))

            def half(i):
                count = builder.extract_value(arguments[3], i) if masked else None
                bits = builder.bitcast(_rounded(builder, array, arguments[1 + i], count), shorts)
                return builder.zext(bits, integers)

            high = builder.shl(half(1), ir.Constant(integers, [16] * WIDTH))
            pointer = builder.gep(after.data, [arguments[5]])
            pointer = builder.bitcast(pointer, integers.as_pointer())
            builder.store(builder.or_(half(0), high), pointer, align=4)
            return context.get_dummy_value()

        return types.void(source, first, second, counts, out, to), generate

    return convert


_round, _round_some = _rounding(masked=False), _rounding(masked=True)
_join, _join_some = _joining(masked=False), _joining(masked=True)


@njit
def multiply(out, start, a, b, n_rows, n_columns, n):
    """``tile_kernel.multiply`` with ``b`` of ``packed``; the terms of a row of ``a`` follow each
    other.
    """
    n_pairs, distance = (n + 1) // 2, padded(n) // 2
    factors = _rounded_rows(a, n_rows, n), 0, distance, 1
    terms = b[0], b[1], COLUMNS * n_pairs, COLUMNS
    tile_kernel.multiply(out, start, factors, terms, n_rows, n_columns, n_pairs)


@njit
def add_outer(out, a, b, n_rows, n_columns, n):
    """out += aᵀ b for ``n_rows`` × ``n_columns`` elements, ``n_columns`` a multiple of WIDTH, with
    ``n`` terms each.

    Args:
        out: array, place of the first element, distance of rows.
        a, b: array, place, distance of terms; the elements of a term follow each other.
    """
    factors = _joined(a, n_rows, n), 0, 1, padded(n_rows)
    terms = _joined(b, n_columns, n), 0, COLUMNS, n_columns
    tile_kernel.multiply(out, out, factors, terms, n_rows, n_columns, (n + 1) // 2)


@njit
def _rounded_rows(a, n_rows, n):
    """Rows of ``n`` elements as pairs [n_rows, padded n // 2]."""
    distance, rest = padded(n) // 2, n % WIDTH
    out, source = np.empty(n_rows * distance, PAIR), a[0]
    for i in range(n_rows):
        place, to = a[1] + i * a[2], i * distance
        for k in range(0, n - rest, WIDTH):
            _round(source, place + k, WIDTH, out, to + k // 2)
        if rest:
            _round_some(source, place + n - rest, rest, out, to + (n - rest) // 2)
    return out


@njit
def _joined(a, width, n):
    """Pairs [(n + 1) // 2, padded width] of ``n`` terms of ``width`` elements."""
    n_pairs, distance, rest = (n + 1) // 2, padded(width), width % WIDTH
    out = np.empty(n_pairs * distance, PAIR)
    for p in range(n_pairs):
        first = a[1] + 2 * p * a[2]
        second, to = first + a[2], p * distance
        if 2 * p + 1 < n:
            for j in range(0, width - rest, WIDTH):
                _join(a[0], first + j, second + j, (WIDTH, WIDTH), out, to + j)
            if rest:
                j = width - rest
                _join_some(a[0], first + j, second + j, (rest, rest), out, to + j)
        else:
            for j in range(0, width, WIDTH):
                _join_some(a[0], first + j, first + j, (width - j, 0), out, to + j)
    return out


@njit
def packed(panels, n):
    """``tile_kernel.packed`` weights of ``n`` terms as pairs."""
    n_panels, n_pairs = len(panels) // (n * COLUMNS), (n + 1) // 2
    out = np.empty(n_panels * n_pairs * COLUMNS, PAIR)
    for i in range(n_panels):
        terms = panels, i * n * COLUMNS, COLUMNS
        out[i * n_pairs * COLUMNS : (i + 1) * n_pairs * COLUMNS] = _joined(terms, COLUMNS, n)
    return out
