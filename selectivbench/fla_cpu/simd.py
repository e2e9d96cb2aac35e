# ruff: noqa: ARG001, ARG002  (Numba fixes the arguments of an intrinsic)
"""Sixteen-lane vectors inside Numba kernels: one register on AVX-512, two on AVX2, four on NEON.

Numba vectorises a loop only when it can prove that arrays do not alias, and it keeps the loop's
accumulators in memory. The recurrences here live from values that stay in registers, so this file
gives Numba a vector type: `load`, `store`, `splat`, `exp`, `total`, and the operators + - *.
A scalar beside a vector is broadcast. Offsets are flat element offsets into a contiguous array.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils as numba_cgutils
from numba.core import types
from numba.core.datamodel import models
from numba.core.extending import intrinsic, register_model
from numba.core.imputils import lower_builtin
from numba.core.typing import templates
from numba.core.typing.templates import AbstractTemplate, infer_global

# Numba's own functions are not annotated.
cgutils: Any = numba_cgutils
signature: Any = templates.signature
uniform_tuple: Any = types.UniTuple

LANES = 16
# "contract" lets a * b + c become one fused instruction; nothing is re-ordered, so results
# do not depend on the machine's vector width.
FLAGS = ("contract",)


class Vec(types.Type):
    """The Numba type of sixteen float32 or float64 values."""

    def __init__(self, dtype: types.Float) -> None:
        self.dtype = dtype
        super().__init__(name=f"Vec({dtype})")


@register_model(Vec)
class VecModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Vec) -> None:
        super().__init__(dmm, fe_type, _ir_vector(fe_type.dtype))  # type: ignore[no-untyped-call]


def _ir_vector(dtype: types.Float) -> ir.VectorType:
    return ir.VectorType(ir.FloatType() if dtype.bitwidth == 32 else ir.DoubleType(), LANES)


def _splat(builder: Any, value: Any, vector: ir.VectorType) -> Any:
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), value, _int(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), zeros)


def _int(value: int) -> ir.Constant:
    return ir.Constant(ir.IntType(32), value)


def _as_vector(context: Any, builder: Any, value: Any, given: types.Type, vec: Vec) -> Any:
    if isinstance(given, Vec):
        return value
    return _splat(builder, context.cast(builder, value, given, vec.dtype), _ir_vector(vec.dtype))


def _code(function: Callable[..., Any]) -> Any:
    """`intrinsic`, typed as what it gives: something that only a kernel can call."""
    return intrinsic(function)


def _operator(op: Callable[..., Any], instruction: str) -> None:
    """Teach Numba `op` for vector-vector, vector-scalar and scalar-vector."""

    class Typing(AbstractTemplate):
        def generic(self, args: Any, kws: Any) -> Any:
            vecs = [a for a in args if isinstance(a, Vec)]
            rest = [a for a in args if not isinstance(a, Vec)]
            if len(args) != 2 or not vecs or not all(isinstance(a, types.Number) for a in rest):
                return None
            return signature(vecs[0], *args) if vecs[0] == vecs[-1] else None

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        vec = sig.return_type
        left, right = (
            _as_vector(context, builder, a, t, vec) for a, t in zip(args, sig.args, strict=True)
        )
        return getattr(builder, instruction)(left, right, flags=FLAGS)

    infer_global(op)(Typing)  # type: ignore[no-untyped-call]
    for given in ((Vec, Vec), (Vec, types.Number), (types.Number, Vec)):
        lower_builtin(op, *given)(lower)  # type: ignore[no-untyped-call]


for _op, _instruction in ((operator.add, "fadd"), (operator.sub, "fsub"), (operator.mul, "fmul")):
    _operator(_op, _instruction)
_operator(operator.truediv, "fdiv")


def _pointer(context: Any, builder: Any, typ: Any, array: Any, offset: Any) -> Any:
    data = context.make_array(typ)(context, builder, array).data
    address = builder.gep(data, [offset])
    return builder.bitcast(address, ir.PointerType(_ir_vector(typ.dtype)))


def _mask(builder: Any, n: Any) -> Any:
    lanes = ir.VectorType(ir.IntType(64), LANES)
    index = ir.Constant(lanes, list(range(LANES)))
    return builder.icmp_signed("<", index, _splat(builder, n, lanes))


def _llvm(builder: Any, name: str, returns: Any, args: list[Any]) -> Any:
    kind = ir.FunctionType(returns, [a.type for a in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)


def _suffix(vector: ir.VectorType) -> str:
    return f"v{LANES}f{32 if isinstance(vector.element, ir.FloatType) else 64}"


@_code
def at(typing: Any, array: Any, offset: Any) -> Any:
    """One value by its flat offset; plain indexing would test for a negative index each time."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = context.make_array(sig.args[0])(context, builder, args[0]).data
        return builder.load(builder.gep(data, [args[1]]))

    return signature(array.dtype, array, types.int64), code


@_code
def load(typing: Any, array: Any, offset: Any) -> Any:
    """Sixteen neighbouring values."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        address = _pointer(context, builder, sig.args[0], args[0], args[1])
        return builder.load(address, align=sig.args[0].dtype.bitwidth // 8)

    return signature(Vec(array.dtype), array, types.int64), code


@_code
def store(typing: Any, array: Any, offset: Any, value: Any) -> Any:
    """Write sixteen neighbouring values."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        address = _pointer(context, builder, sig.args[0], args[0], args[1])
        builder.store(args[2], address, align=sig.args[0].dtype.bitwidth // 8)
        return context.get_dummy_value()

    return signature(types.none, array, types.int64, value), code


@_code
def load_n(typing: Any, array: Any, offset: Any, n: Any) -> Any:
    """The first `n` values (all sixteen when n is larger), zero in the other lanes."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        vector = _ir_vector(sig.args[0].dtype)
        address = _pointer(context, builder, sig.args[0], args[0], args[1])
        parts = [
            address,
            _int(sig.args[0].dtype.bitwidth // 8),
            _mask(builder, args[2]),
            ir.Constant(vector, [0.0] * LANES),
        ]
        return _llvm(builder, f"llvm.masked.load.{_suffix(vector)}.p0", vector, parts)

    return signature(Vec(array.dtype), array, types.int64, types.int64), code


@_code
def store_n(typing: Any, array: Any, offset: Any, value: Any, n: Any) -> Any:
    """Write the first `n` lanes."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        vector = _ir_vector(sig.args[0].dtype)
        address = _pointer(context, builder, sig.args[0], args[0], args[1])
        align = _int(sig.args[0].dtype.bitwidth // 8)
        parts = [args[2], address, align, _mask(builder, args[3])]
        _llvm(builder, f"llvm.masked.store.{_suffix(vector)}.p0", ir.VoidType(), parts)
        return context.get_dummy_value()

    return signature(types.none, array, types.int64, value, types.int64), code


@_code
def first_n(typing: Any, value: Any, n: Any, other: Any) -> Any:
    """Lanes below `n` of `value`, the others from `other`."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(_mask(builder, args[1]), args[0], args[2])

    return signature(value, value, types.int64, value), code


@_code
def larger(typing: Any, left: Any, right: Any) -> Any:
    """Lane by lane, the larger of two."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        name = f"llvm.maxnum.{_suffix(args[0].type)}"
        return _llvm(builder, name, args[0].type, list(args))

    return signature(left, left, left), code


@_code
def largest(typing: Any, vec: Any) -> Any:
    """The largest lane."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = args[0].type
        name = f"llvm.vector.reduce.fmax.{_suffix(kind)}"
        return _llvm(builder, name, kind.element, list(args))

    return signature(vec.dtype, vec), code


@_code
def splat(typing: Any, like: Any, value: Any) -> Any:
    """`value` in all lanes, in the dtype of the array `like`."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _as_vector(context, builder, args[1], sig.args[1], sig.return_type)

    return signature(Vec(like.dtype), like, value), code


@_code
def total(typing: Any, vec: Any) -> Any:
    """The sum over lanes, as a tree (a chain of sixteen dependent additions would be slower)."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
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
        return builder.extract_element(value, _int(0))

    return signature(vec.dtype, vec), code


def _halve(builder: Any, left: Any, right: Any, stride: int) -> Any:
    """Pairs `stride` apart are added; the left vector's sums land where bit `stride` is 0."""
    lanes = ir.VectorType(ir.IntType(32), LANES)
    here = [i if not i & stride else LANES + i - stride for i in range(LANES)]
    there = [i + stride if not i & stride else LANES + i for i in range(LANES)]
    return builder.fadd(
        builder.shuffle_vector(left, right, ir.Constant(lanes, here)),
        builder.shuffle_vector(left, right, ir.Constant(lanes, there)),
    )


@_code
def totals(typing: Any, vecs: Any) -> Any:
    """Lane i is the sum over the lanes of vector i: sixteen sums for forty-five instructions."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        values = cgutils.unpack_tuple(builder, args[0])
        for stride in (1, 2, 4, 8):
            values = [
                _halve(builder, values[i], values[i + 1], stride) for i in range(0, len(values), 2)
            ]
        return values[0]

    return signature(vecs.dtype, vecs), code


@_code
def totals4(typing: Any, vecs: Any) -> Any:
    """The four sums of four vectors, as a tuple: half the work of four calls of `total`."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        a, b, c, d = cgutils.unpack_tuple(builder, args[0])
        sums = _halve(builder, _halve(builder, a, b, 1), _halve(builder, c, d, 1), 2)
        for stride in (4, 8):
            sums = _halve(builder, sums, sums, stride)
        lanes = [builder.extract_element(sums, _int(i)) for i in range(4)]
        return context.make_tuple(builder, sig.return_type, lanes)

    return signature(uniform_tuple(vecs.dtype.dtype, 4), vecs), code


@_code
def exp(typing: Any, vec: Any) -> Any:
    """e**x. float32: range reduction and a degree-6 polynomial, error below 1.5 ulp."""

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if sig.args[0].dtype.bitwidth == 64:
            return _llvm(builder, "llvm.exp.v16f64", args[0].type, [args[0]])
        return _exp32(builder, args[0])

    return signature(vec, vec), code


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

    x = _llvm(builder, "llvm.minnum.v16f32", vector, [x, constant(88.3762626647949)])
    x = _llvm(builder, "llvm.maxnum.v16f32", vector, [x, constant(-87.3365447504019)])
    n = _llvm(builder, "llvm.rint.v16f32", vector, [builder.fmul(x, constant(1.4426950408889634))])
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
