# ruff: noqa: ARG001  (Numba fixes the arguments of an intrinsic)
"""Functions of sixteen-lane vectors: sums and the largest over lanes, transposition, exp."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types

from selectivbench.fla_cpu.simd import (
    FLAGS,
    LANES,
    cgutils,
    code,
    integer,
    llvm,
    pointer,
    signature,
    suffix,
)

uniform_tuple: Any = types.UniTuple


@code
def largest(typing: Any, vec: Any) -> Any:
    """The largest lane."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = args[0].type
        name = f"llvm.vector.reduce.fmax.{suffix(kind)}"
        return llvm(builder, name, kind.element, list(args))

    return signature(vec.dtype, vec), lower


@code
def total(typing: Any, vec: Any) -> Any:
    """The sum over lanes, as a tree (a chain of sixteen dependent additions would be slower)."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        value, width = args[0], LANES
        while width > 1:
            width //= 2
            lanes = ir.VectorType(ir.IntType(32), width)
            low = ir.Constant(lanes, list(range(width)))
            high = ir.Constant(lanes, list(range(width, 2 * width)))
            value = builder.fadd(
                builder.shuffle_vector(value, value, low),
                builder.shuffle_vector(value, value, high),
            )
        return builder.extract_element(value, integer(0))

    return signature(vec.dtype, vec), lower


def _exchanged(builder: Any, left: Any, right: Any, stride: int) -> tuple[Any, Any]:
    """The lanes of both where bit `stride` is 0 in one vector, the others in a second one.

    In each, what comes from the left vector is where bit `stride` is 0.
    """
    lanes = ir.VectorType(ir.IntType(32), LANES)
    here = [i if not i & stride else LANES + i - stride for i in range(LANES)]
    there = [i + stride if not i & stride else LANES + i for i in range(LANES)]
    return (
        builder.shuffle_vector(left, right, ir.Constant(lanes, here)),
        builder.shuffle_vector(left, right, ir.Constant(lanes, there)),
    )


def _halve(builder: Any, left: Any, right: Any, stride: int) -> Any:
    """Pairs `stride` apart are added; the left vector's sums land where bit `stride` is 0."""
    return builder.fadd(*_exchanged(builder, left, right, stride))


@code
def totals(typing: Any, vecs: Any) -> Any:
    """Lane i is the sum over the lanes of vector i: sixteen sums for forty-five instructions."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        values = cgutils.unpack_tuple(builder, args[0])
        for stride in (1, 2, 4, 8):
            values = [
                _halve(builder, values[i], values[i + 1], stride) for i in range(0, len(values), 2)
            ]
        return values[0]

    return signature(vecs.dtype, vecs), lower


@code
def totals4(typing: Any, vecs: Any) -> Any:
    """The four sums of four vectors, as a tuple: half the work of four calls of `total`."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        a, b, c, d = cgutils.unpack_tuple(builder, args[0])
        sums = _halve(builder, _halve(builder, a, b, 1), _halve(builder, c, d, 1), 2)
        for stride in (4, 8):
            sums = _halve(builder, sums, sums, stride)
        lanes = [builder.extract_element(sums, integer(i)) for i in range(4)]
        return context.make_tuple(builder, sig.return_type, lanes)

    return signature(uniform_tuple(vecs.dtype.dtype, 4), vecs), lower


@code
def transpose(typing: Any, array: Any, offset: Any) -> Any:
    """A square of sixteen neighbouring vectors changes rows and lanes, in place: 64 shuffles."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        first = pointer(context, builder, sig.args[0], *args)
        align = sig.args[0].dtype.bitwidth // 8
        places = [builder.gep(first, [integer(i)]) for i in range(LANES)]
        rows = [builder.load(place, align=align) for place in places]
        for stride in (1, 2, 4, 8):
            for i in (i for i in range(LANES) if not i & stride):
                pair = _exchanged(builder, rows[i], rows[i + stride], stride)
                rows[i], rows[i + stride] = pair
        for row, place in zip(rows, places, strict=True):
            builder.store(row, place, align=align)
        return context.get_dummy_value()

    return signature(types.none, array, types.int64), lower


@code
def exp(typing: Any, vec: Any) -> Any:
    """e**x. float32: range reduction and a degree-6 polynomial, error below 1.5 ulp."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if sig.args[0].dtype.bitwidth == 64:
            return llvm(builder, "llvm.exp.v16f64", args[0].type, [args[0]])
        return _exp32(builder, args[0])

    return signature(vec, vec), lower


# Cephes' minimax coefficients of (exp(r) - 1 - r) / r² on |r| <= ln(2) / 2, highest power first.
_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 0.5)
# ln(2) in two parts, the first with trailing zero bits, so that n * LN2_HIGH is exact.
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4


def _exp32(builder: Any, x: Any) -> Any:
    vector = x.type

    def constant(value: float) -> Any:
        return ir.Constant(vector, [value] * LANES)

    def fused(a: Any, b: Any, c: Any) -> Any:
        return builder.fadd(builder.fmul(a, b, flags=FLAGS), c, flags=FLAGS)

    x = llvm(builder, "llvm.minnum.v16f32", vector, [x, constant(88.3762626647949)])
    x = llvm(builder, "llvm.maxnum.v16f32", vector, [x, constant(-87.3365447504019)])
    n = llvm(builder, "llvm.rint.v16f32", vector, [builder.fmul(x, constant(1.4426950408889634))])
    r = fused(n, constant(-_LN2_HIGH), x)
    r = fused(n, constant(-_LN2_LOW), r)
    p = constant(_EXP[0])
    for coefficient in _EXP[1:]:
        p = fused(p, r, constant(coefficient))
    p = builder.fadd(fused(p, builder.fmul(r, r), r), constant(1.0))
    integers = ir.VectorType(ir.IntType(32), LANES)
    shift = ir.Constant(integers, [23] * LANES)
    power = builder.shl(builder.fptosi(n, integers), shift)
    return builder.bitcast(builder.add(builder.bitcast(p, integers), power), vector)
