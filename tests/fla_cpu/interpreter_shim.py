"""Makes fla's Triton kernels run under Triton's interpreter, on a machine without a GPU.

Import it first, with TRITON_INTERPRET=1 set. Each part answers one failure of Triton 3.9:
autotuning asks for a driver; a Python loop variable is no Triton value; a comparison keeps the
type of its operands; and bfloat16 is stored as its bits, with which arithmetic is then done.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.autotuner import Autotuner
from triton.runtime.interpreter import InterpreterBuilder, ReduceOps, ScanOps, TensorHandle

COMPARISONS = (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal)


def install() -> None:
    Autotuner.do_bench = property(lambda _: lambda *_, **__: [0.0, 0.0, 0.0])
    interpreter.FunctionRewriter.ast_transformer = _LoopVariables()
    InterpreterBuilder.binary_op = _typed_comparison(InterpreterBuilder.binary_op)
    for name in ("binary_op", "unary_op", "create_fma", "create_dot", "create_rsqrt", "create_erf"):
        setattr(InterpreterBuilder, name, _widened(getattr(InterpreterBuilder, name)))
    interpreter._convert_float = _rounding(interpreter._convert_float)
    for kind in (ReduceOps, ScanOps):
        kind.apply_impl = _widened_reduction(kind.apply_impl)


class _LoopVariables(interpreter.ASTTransformer):
    """`for i in range(...)` gets `i` as a Triton value in its body."""

    def visit_For(self, node: ast.For) -> ast.For:  # noqa: N802  (ast's name)
        node = self.generic_visit(node)
        if isinstance(node.target, ast.Name):
            line = f"{node.target.id} = interpreter_semantic.to_tensor({node.target.id}, False)"
            node.body.insert(0, ast.parse(line).body[0])
        return node


def _typed_comparison(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def binary_op(self: Any, lhs: TensorHandle, rhs: TensorHandle, op: Any) -> TensorHandle:
        if op in COMPARISONS:
            return TensorHandle(op(lhs.data, rhs.data), tl.int1)
        return original(self, lhs, rhs, op)

    return binary_op


def _is_bf16(value: Any) -> bool:
    return isinstance(value, TensorHandle) and value.dtype.scalar == tl.bfloat16


def _floats(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _bits(floats: np.ndarray) -> np.ndarray:
    """Nearest bfloat16, ties to even."""
    raw = np.ascontiguousarray(floats, np.float32).view(np.uint32)
    rounded = ((raw + 0x7FFF + ((raw >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(floats), np.uint16(0x7FC0), rounded)


def _widen(value: Any) -> Any:
    return TensorHandle(_floats(value.data), tl.float32) if _is_bf16(value) else value


def _widened(original: Callable[..., Any]) -> Callable[..., Any]:
    """Compute in float32; the result is bfloat16 again where the original's would be."""

    @wraps(original)
    def method(self: Any, *args: Any) -> TensorHandle:
        handles = [a for a in args if isinstance(a, TensorHandle)]
        if not any(map(_is_bf16, handles)):
            return original(self, *args)
        result = original(self, *map(_widen, args))
        narrow = _is_bf16(handles[2]) if len(handles) > 2 else result.dtype.scalar == tl.float32
        return TensorHandle(_bits(result.data), tl.bfloat16) if narrow else result

    return method


def _rounding(original: Callable[..., Any]) -> Callable[..., Any]:
    """float32 to bfloat16 rounds, where the interpreter cuts off."""

    @wraps(original)
    def convert(data: np.ndarray, source: Any, target: Any, mode: Any) -> np.ndarray:
        if source == tl.float32 and target == tl.bfloat16:
            return _bits(np.asarray(data))
        return original(data, source, target, mode)

    return convert


def _widened_reduction(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def apply_impl(self: Any, given: tuple[Any, ...]) -> Any:
        if not any(_is_bf16(t.handle) for t in given):
            return original(self, given)
        result = original(
            self, tuple(self.to_tensor(_widen(t.handle).data, tl.float32) for t in given)
        )
        if isinstance(result, (list, tuple)):
            return [_narrow_tensor(t) for t in result]
        return _narrow_tensor(result)

    return apply_impl


def _narrow_tensor(tensor: Any) -> Any:
    if tensor.dtype.scalar != tl.float32:
        return tensor
    handle = TensorHandle(_bits(tensor.handle.data), tl.bfloat16)
    shape = list(tensor.shape)
    kind = tl.block_type(tl.bfloat16, shape) if shape else tl.bfloat16
    return tl.core.tensor(handle, kind)


install()
