"""Matrix products in machine code as wide as the CPU's registers, float32 on one thread.

Every element is a chain of fused multiply-adds in the order of the inner index: its value depends
neither on the tile that computes it nor on the rows and columns around it.
"""

# mypy: disable-error-code="no-untyped-def,misc"
from __future__ import annotations

import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from rltrain.common import numba_cache

F, FLOAT, INT = np.float32, ir.FloatType(), ir.IntType(64)
WIDE = bool(binding.get_host_cpu_features().get("avx512f"))
WIDTH, VECTORS = (16, 4) if WIDE else (8, 2)  # 24 sums in 32 registers, or 12 in 16
ROWS, COLUMNS = 6, VECTORS * WIDTH


def tile(rows, vectors):
    """Compiled code of ``rows`` × ``vectors`` · WIDTH elements of a product, the sums staying in
    registers.

    out[r, c] = start[r, c] + Σ_k a[r, k] b[k, c] with element r, c of ``out`` at place
    ``at + r · row + c`` of its array, and so on. Rows and columns of ``a`` may lie in any
    direction; the columns of the others follow each other. (Arrays in tuples would have
    their references counted, at every call.)
    """

    @intrinsic
    def compute(
        typing, out, to, to_row, start, since, since_row, a, left, a_row, a_k, b, right, b_k, n
    ):
        def generate(context, builder, signature, arguments):
            vector = ir.VectorType(FLOAT, WIDTH)
            fma = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(vector, [vector] * 3), f"llvm.fma.v{WIDTH}f32"
            )

            def at(i):
                array = context.make_array(signature.args[i])(context, builder, value=arguments[i])
                return builder.gep(array.data, [arguments[i + 1]])

            def place(base, row, r, v):
                offset = builder.add(builder.mul(row, INT(r)), INT(WIDTH * v))
                return builder.bitcast(builder.gep(base, [offset]), vector.as_pointer())

            to_row, since_row, a_row, a_k, b_k, n_terms = (
                arguments[i] for i in (2, 5, 8, 9, 12, 13)
            )
            out_at, start_at, a_first, b_first = (at(i) for i in (0, 3, 6, 10))
            first = [
                [builder.load(place(start_at, since_row, r, v), align=4) for v in range(vectors)]
                for r in range(rows)
            ]
            lines = [builder.gep(a_first, [builder.mul(a_row, INT(r))]) for r in range(rows)]
            entry, loop = builder.block, builder.append_basic_block()
            builder.branch(loop)
            builder.position_at_end(loop)
            k = builder.phi(INT)
            k.add_incoming(INT(0), entry)
            sums = [[builder.phi(vector) for _ in range(vectors)] for _ in range(rows)]
            a_at, b_at = builder.mul(k, a_k), builder.gep(b_first, [builder.mul(k, b_k)])
            weights = [builder.load(place(b_at, b_k, 0, v), align=4) for v in range(vectors)]
            nowhere = ir.Constant(vector, ir.Undefined)
            everywhere = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
            after = []
            for r in range(rows):
                factor = builder.load(builder.gep(lines[r], [a_at]))
                one = builder.insert_element(nowhere, factor, ir.IntType(32)(0))
                same = builder.shuffle_vector(one, nowhere, everywhere)
                terms = zip(weights, sums[r], strict=True)
                after.append([builder.call(fma, (same, w, s)) for w, s in terms])
            for before, sum_, term in zip(first, sums, after, strict=True):
                for v in range(vectors):
                    sum_[v].add_incoming(before[v], entry)
                    sum_[v].add_incoming(term[v], loop)
            following = builder.add(k, INT(1))
            k.add_incoming(following, loop)
            done = builder.append_basic_block()
            builder.cbranch(builder.icmp_signed("<", following, n_terms), loop, done)
            builder.position_at_end(done)
            for r in range(rows):
                for v in range(vectors):
                    builder.store(after[r][v], place(out_at, to_row, r, v), align=4)
            return context.get_dummy_value()

        numbers = to, to_row, since, since_row, left, a_row, a_k, right, b_k, n
        out_, start_, factors = (out, *numbers[:2]), (start, *numbers[2:4]), (a, *numbers[4:7])
        return types.void(*out_, *start_, *factors, b, *numbers[7:]), generate

    return compute


_whole, _pair, _one = (tile(rows, VECTORS) for rows in (ROWS, 2, 1))
_whole_middle, _pair_middle, _one_middle = (tile(rows, 2) for rows in (ROWS, 2, 1))
_whole_narrow, _pair_narrow, _one_narrow = (tile(rows, 1) for rows in (ROWS, 2, 1))
njit = numba_cache.njit(__file__)


@njit
def multiply(out, start, a, b, n_rows, n_columns, n):
    """out = start + a b for ``n_rows`` × ``n_columns`` elements, ``n_columns`` a multiple of WIDTH,
    with ``n`` terms each, one or more. Nothing is checked.

    Args:
        out, start: array, place of the first element, distance of rows; distance 0 repeats a row.
        a: array, place, distance of rows, distance of the terms of a row.
        b: array, place, distance of one panel of COLUMNS columns to the next, of terms.
    """
    to, to_first, t = out
    since, since_first, s = start
    left, left_first, r, k = a
    right, right_first, panel, c = b
    column = 0
    while column < n_columns:
        left_over = n_columns - column
        wide, middle = left_over >= COLUMNS, left_over >= 2 * WIDTH
        w = right_first + column // COLUMNS * panel + column % COLUMNS
        i = 0
        while i < n_rows:
            rows = ROWS if n_rows - i >= ROWS else 2 if n_rows - i >= 2 else 1
            p, q = to_first + i * t + column, since_first + i * s + column
            f = left_first + i * r
            if wide:
                if rows == ROWS:
                    _whole(to, p, t, since, q, s, left, f, r, k, right, w, c, n)
                elif rows == 2:
                    _pair(to, p, t, since, q, s, left, f, r, k, right, w, c, n)
                else:
                    _one(to, p, t, since, q, s, left, f, r, k, right, w, c, n)
            elif middle:
                if rows == ROWS:
                    _whole_middle(to, p, t, since, q, s, left, f, r, k, right, w, c, n)
                elif rows == 2:
                    _pair_middle(to, p, t, since, q, s, left, f, r, k, right, w, c, n)
                else:
                    _one_middle(to, p, t, since, q, s, left, f, r, k, right, w, c, n)
            elif rows == ROWS:
                _whole_narrow(to, p, t, since, q, s, left, f, r, k, right, w, c, n)
            elif rows == 2:
                _pair_narrow(to, p, t, since, q, s, left, f, r, k, right, w, c, n)
            else:
                _one_narrow(to, p, t, since, q, s, left, f, r, k, right, w, c, n)
            i += rows
        column += COLUMNS if wide else 2 * WIDTH if middle else WIDTH


@njit
def add_outer(out, a, b, n_rows, n_columns, n):
    """out += aᵀ b for ``n_rows`` × ``n_columns`` elements, ``n_columns`` a multiple of WIDTH, with
    ``n`` terms each.

    Args:
        out: array, place of the first element, distance of rows.
        a, b: array, place, distance of terms; the elements of a term follow each other.
    """
    multiply(out, out, (a[0], a[1], 1, a[2]), (b[0], b[1], COLUMNS, b[2]), n_rows, n_columns, n)


@njit
def padded(n):
    """The next multiple of WIDTH."""
    return (n + WIDTH - 1) // WIDTH * WIDTH


@njit
def packed(weight):
    """[K, M] as ``b`` of ``multiply`` with panels K · COLUMNS apart, terms COLUMNS apart."""
    n, width = weight.shape
    out = np.zeros(((width + COLUMNS - 1) // COLUMNS, n, COLUMNS), F)
    for j in range(width):
        panel, c = out[j // COLUMNS], j % COLUMNS
        for k in range(n):
            panel[k, c] = weight[k, j]
    return out.reshape(-1)


@njit
def take_matrix(flat, n_rows, width):
    """The first elements of an array as a matrix, and the others."""
    n = n_rows * width
    return flat[:n].reshape((n_rows, width)), flat[n:]
