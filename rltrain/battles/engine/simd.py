"""SIMD search for the units near a point, eight units per instruction (compiled).

Loops over pairs of units visit only near pairs this way. The result for each unit is exactly that
of the same scalar float32 operations.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from rltrain.battles.engine.kernel import njit
from rltrain.battles.engine.world import U

WIDTH = 8


@njit(forceinline=True)
def units_near(unit, start, end, x, y, reach2):
    """Bits 0 … 7 for units start … start + 7, those before ``end`` only: alive, and the squared
    distance of their center to (x, y) at most ``reach2``."""
    bits = _eight(unit, start, x, y, reach2)
    return bits if end - start >= WIDTH else bits & ((1 << (end - start)) - 1)


@intrinsic
def lowest(typingctx: object, bits: Any) -> Any:
    """Number of the lowest bit of int64 ``bits`` that is set; there must be one."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


@intrinsic
def _eight(typingctx: object, unit: Any, start: Any, x: Any, y: Any, reach2: Any) -> Any:
    """``units_near`` without an end. It reads up to seven columns behind the last one: those are
    the first ones of the next row, and HEALTH is not the last row."""
    number = types.float32

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        table = context.make_array(signature.args[0])(context, builder, args[0])
        columns = cgutils.unpack_tuple(builder, table.shape)[1]
        eight = ir.VectorType(ir.FloatType(), WIDTH)

        def load(row: int) -> Any:
            at = builder.add(builder.mul(columns, columns.type(row)), args[1])
            place = builder.gep(table.data, [at])
            return builder.load(builder.bitcast(place, eight.as_pointer()), align=4)

        def spread(value: Any) -> Any:
            none = ir.Constant(eight, ir.Undefined)
            one = builder.insert_element(none, value, ir.IntType(32)(0))
            order = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
            return builder.shuffle_vector(one, none, order)

        dx, dy = builder.fsub(load(U.X), spread(args[2])), builder.fsub(load(U.Y), spread(args[3]))
        d2 = builder.fadd(builder.fmul(dx, dx), builder.fmul(dy, dy))
        near = builder.fcmp_ordered("<=", d2, spread(args[4]))
        alive = builder.fcmp_ordered(">", load(U.HEALTH), ir.Constant(eight, [0.0] * WIDTH))
        bits = builder.bitcast(builder.and_(near, alive), ir.IntType(WIDTH))
        return builder.zext(bits, ir.IntType(64))

    return types.int64(unit, types.int64, number, number, number), generate
