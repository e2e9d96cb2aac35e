"""The diagonal-plus-low-rank recurrence as one differentiable torch function."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from selectivbench.fla_cpu import dplr_kernels
from selectivbench.fla_cpu.compiling import flat, run
from selectivbench.fla_cpu.linear import exponentials


def dplr(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    a: Tensor,
    b: Tensor,
    g: Tensor,
    scale: float,
    state: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Outputs (B, T, H, V) and the last state (B, H, K, V); all but v are (B, T, H, K)."""
    dtype = torch.float64 if v.dtype == torch.float64 else torch.float32
    B, H, K, V = v.shape[0], v.shape[2], k.shape[3], v.shape[3]
    first = v.new_zeros(B, H, K, V, dtype=dtype) if state is None else state.to(dtype)
    inputs = (x.to(dtype).contiguous() for x in (q, k, v, a, b, g))
    return _Dplr.apply(*inputs, first, float(scale))  # type: ignore[no-any-return,no-untyped-call]


class _Dplr(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        a: Tensor,
        b: Tensor,
        g: Tensor,
        state: Tensor,
        scale: float,
    ) -> tuple[Tensor, Tensor]:
        (B, T, H, V), K = v.shape, k.shape[3]
        learns = any(ctx.needs_input_grad)
        chunks = -(-T // dplr_kernels.CHUNK) if learns else 0
        saved, last = v.new_empty(B * H * chunks * K * V), state.contiguous().clone()
        read, o = v.new_empty(v.shape if learns else 0), torch.empty_like(v)
        given = (q, k, v, a, b, exponentials(g))
        arrays, wanted = map(flat, given), map(flat, (last, saved, read, o))
        run(dplr_kernels.forward, B * H, (T, H, K, V), *arrays, scale, *wanted)
        ctx.save_for_backward(*given, saved, read)
        ctx.scale = scale
        return o, last

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        *given, saved, read = ctx.saved_tensors
        (B, T, H, V), K = given[2].shape, given[1].shape[3]
        do, dstate = grads[0].contiguous(), grads[1].contiguous().clone()
        out = [torch.empty_like(x) for x in given]
        arrays, wanted = map(flat, given), map(flat, (saved, read, do, dstate, *out))
        run(dplr_kernels.backward, B * H, (T, H, K, V), *arrays, ctx.scale, *wanted)
        return *out, dstate, None
