"""A matrix product in machine code for compiled kernels, float32 on one thread."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from rltrain.common import numba_cache

F, FLOAT = np.float32, ir.FloatType()
ROWS, VECTORS, WIDTH = 4, 2, 8  # of a tile: 8 sums, 2 weights and a factor for 16 registers
COLUMNS = VECTORS * WIDTH


@intrinsic
def _tile(typing, total, i, j, a, panel):
    """total = a · panel for 4 rows from i and 16 columns from j, the sums staying in registers.

    Left to itself the compiler loads and stores every sum each time around (measured: half as
    fast). C-contiguous float32 arrays [R, M], [R, K] and [K, 16].
    """

    def generate(context, builder, signature, arguments):
        vector, index = ir.VectorType(FLOAT, WIDTH), ir.IntType(64)
        row, column = arguments[1], arguments[2]
        total, a, panel = (
            context.make_array(signature.args[n])(context, builder, value=arguments[n])
            for n in (0, 3, 4)
        )

        def at(array, i, j, type_=FLOAT):
            start = builder.mul(i, builder.extract_value(array.shape, 1))
            place = builder.gep(array.data, [builder.add(start, j)])
            return builder.bitcast(place, type_.as_pointer())

        rows = [builder.add(row, index(r)) for r in range(ROWS)]
        parts = [index(WIDTH * v) for v in range(VECTORS)]
        entry, loop = builder.block, builder.append_basic_block()
        builder.branch(loop)
        builder.position_at_end(loop)
        k = builder.phi(index)
        k.add_incoming(index(0), entry)
        sums = [[builder.phi(vector) for _ in parts] for _ in rows]
        weights = [builder.load(at(panel, k, j, vector), align=4) for j in parts]
        nowhere = ir.Constant(vector, ir.Undefined)
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
        after = []
        for i, of_row in zip(rows, sums, strict=True):
            one = builder.insert_element(nowhere, builder.load(at(a, i, k)), ir.IntType(32)(0))
            same = builder.shuffle_vector(one, nowhere, everywhere)
            for j, w, before in zip(parts, weights, of_row, strict=True):
                term = builder.fmul(same, w, flags=["contract"])
                after.append(
                    (i, builder.add(column, j), builder.fadd(before, term, flags=["contract"]))
                )
                before.add_incoming(ir.Constant(vector, [0.0] * WIDTH), entry)
                before.add_incoming(after[-1][2], loop)
        following = builder.add(k, index(1))
        k.add_incoming(following, loop)
        done = builder.append_basic_block()
        more = builder.icmp_signed("<", following, builder.extract_value(panel.shape, 0))
        builder.cbranch(more, loop, done)
        builder.position_at_end(done)
        for i, j, result in after:
            builder.store(result, at(total, i, j, vector), align=4)
        return context.get_dummy_value()

    return types.void(total, i, j, a, panel), generate


@numba_cache.njit(__file__, fastmath={"contract", "nsz"})
def product(total, a, panels, n_rows):
    """total [R, M] = a [R, K] · weight [K, M] for the first ``n_rows``, rounded up to a multiple of
    four.

    ``panels`` [M / COLUMNS, K, COLUMNS] are the weight's columns, COLUMNS together: a panel fits
    into the nearest cache, where the rows of a wide weight would push each other out.
    """
    for j in range(panels.shape[0]):
        panel = panels[j]
        for i in range(0, n_rows, ROWS):
            _tile(total, i, j * COLUMNS, a, panel)
