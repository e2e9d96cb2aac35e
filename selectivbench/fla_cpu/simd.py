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

from llvmlite import ir
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
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), value, integer(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), zeros)


def integer(value: int) -> ir.Constant:
    return ir.Constant(ir.IntType(32), value)


def _as_vector(context: Any, builder: Any, value: Any, given: types.Type, vec: Vec) -> Any:
    if isinstance(given, Vec):
        return value
    return _splat(builder, context.cast(builder, value, given, vec.dtype), _ir_vector(vec.dtype))


def code(function: Callable[..., Any]) -> Any:
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


def pointer(context: Any, builder: Any, typ: Any, array: Any, offset: Any) -> Any:
    data = context.make_array(typ)(context, builder, array).data
    address = builder.gep(data, [offset])
    return builder.bitcast(address, ir.PointerType(_ir_vector(typ.dtype)))


def _mask(builder: Any, n: Any) -> Any:
    lanes = ir.VectorType(ir.IntType(64), LANES)
    index = ir.Constant(lanes, list(range(LANES)))
    return builder.icmp_signed("<", index, _splat(builder, n, lanes))


def llvm(builder: Any, name: str, returns: Any, args: list[Any]) -> Any:
    kind = ir.FunctionType(returns, [a.type for a in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)


def suffix(vector: ir.VectorType) -> str:
    return f"v{LANES}f{32 if isinstance(vector.element, ir.FloatType) else 64}"


@code
def at(typing: Any, array: Any, offset: Any) -> Any:
    """One value by its flat offset; plain indexing would test for a negative index each time."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = context.make_array(sig.args[0])(context, builder, args[0]).data
        return builder.load(builder.gep(data, [args[1]]))

    return signature(array.dtype, array, types.int64), lower


@code
def load(typing: Any, array: Any, offset: Any) -> Any:
    """Sixteen neighbouring values."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        address = pointer(context, builder, sig.args[0], args[0], args[1])
        return builder.load(address, align=sig.args[0].dtype.bitwidth // 8)

    return signature(Vec(array.dtype), array, types.int64), lower


@code
def store(typing: Any, array: Any, offset: Any, value: Any) -> Any:
    """Write sixteen neighbouring values."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        address = pointer(context, builder, sig.args[0], args[0], args[1])
        builder.store(args[2], address, align=sig.args[0].dtype.bitwidth // 8)
        return context.get_dummy_value()

    return signature(types.none, array, types.int64, value), lower


@code
def load_n(typing: Any, array: Any, offset: Any, n: Any) -> Any:
    """The first `n` values (all sixteen when n is larger), zero in the other lanes."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        vector = _ir_vector(sig.args[0].dtype)
        address = pointer(context, builder, sig.args[0], args[0], args[1])
        parts = [
            address,
            integer(sig.args[0].dtype.bitwidth // 8),
            _mask(builder, args[2]),
            ir.Constant(vector, [0.0] * LANES),
        ]
        return llvm(builder, f"llvm.masked.load.{suffix(vector)}.p0", vector, parts)

    return signature(Vec(array.dtype), array, types.int64, types.int64), lower


@code
def store_n(typing: Any, array: Any, offset: Any, value: Any, n: Any) -> Any:
    """Write the first `n` lanes."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        vector = _ir_vector(sig.args[0].dtype)
        address = pointer(context, builder, sig.args[0], args[0], args[1])
        align = integer(sig.args[0].dtype.bitwidth // 8)
        parts = [args[2], address, align, _mask(builder, args[3])]
        llvm(builder, f"llvm.masked.store.{suffix(vector)}.p0", ir.VoidType(), parts)
        return context.get_dummy_value()

    return signature(types.none, array, types.int64, value, types.int64), lower


@code
def first_n(typing: Any, value: Any, n: Any, other: Any) -> Any:
    """Lanes below `n` of `value`, the others from `other`."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(_mask(builder, args[1]), args[0], args[2])

    return signature(value, value, types.int64, value), lower


@code
def larger(typing: Any, left: Any, right: Any) -> Any:
    """Lane by lane, the larger of two."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        name = f"llvm.maxnum.{suffix(args[0].type)}"
        return llvm(builder, name, args[0].type, list(args))

    return signature(left, left, left), lower


@code
def splat(typing: Any, like: Any, value: Any) -> Any:
    """`value` in all lanes, in the dtype of the array `like`."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _as_vector(context, builder, args[1], sig.args[1], sig.return_type)

    return signature(Vec(like.dtype), like, value), lower
